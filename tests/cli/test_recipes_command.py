"""Recipes by name, from any folder, as after `pip install`."""

import json

import pytest

from maxatk.errors import InvalidValueError, MissingFileError
from maxatk.settings import find_recipe, packaged_recipes, read_recipe

JSON = ("recipes", "list", "--format", "json")


def test_recipes_are_listed_and_shown_from_an_empty_folder(maxatk):
    listed = maxatk("recipes", "list")
    assert listed.returncode == 0, listed.stderr
    assert all(f" {name} " in listed.stdout for name in packaged_recipes())
    assert {"mini/train", "paper/train"} <= packaged_recipes().keys()
    about = {row["recipe"]: row["about"] for row in json.loads(maxatk(*JSON).stdout)["recipes"]}
    assert all(text[-1] in ".?" for text in about.values())
    assert about["mini/fast"] == (
        "Every stage of demo.yaml in about a minute: a check that all parts work, not a result."
    )
    assert about["mini/front_dr_grpo"].endswith("by the length?")  # and not with `Dr.`
    shown = maxatk("recipes", "show", "mini/train").stdout
    assert shown == packaged_recipes()["mini/train"].read_text()


@pytest.mark.parametrize("name", ["mini/train", "mini/train.yaml", "recipes/mini/train.yaml"])
def test_a_recipe_of_the_package_is_found_by_its_name(tmp_path, monkeypatch, name):
    from pathlib import Path

    monkeypatch.chdir(tmp_path)
    assert read_recipe(Path(name))["trainer"]["k"] == 8
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text("own: 1\n")
    assert read_recipe(Path(name)) == {"own": 1}  # a file of one's own comes first


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("mini/trian", MissingFileError, "recipes list.*did you mean 'mini/train'"),
        ("../settings.py", MissingFileError, "does not exist"),
        ("--metod", InvalidValueError, "unknown flag '--metod'"),
    ],
)
def test_what_is_no_recipe_is_refused(tmp_path, monkeypatch, name, error, message):
    from pathlib import Path

    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        find_recipe(Path(name))
