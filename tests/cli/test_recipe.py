from pathlib import Path

import pytest

from maxatk.cli.flags import named_paths
from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.settings import read_recipe

RECIPE = "model: m\ntrainer:\n  k: 4\n  learning_rate: 1e-4\npeft: null\n"


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE)
    return path


@pytest.mark.parametrize(
    ("override", "place", "value"),
    [
        ("trainer.k=8", ["trainer", "k"], 8),
        ("trainer.seed=1", ["trainer", "seed"], 1),
        ("model=other", ["model"], "other"),
        ("model=a=b", ["model"], "a=b"),
        ("trainer.beta=0.5", ["trainer", "beta"], 0.5),
        ("trainer.use_cpu=true", ["trainer", "use_cpu"], True),
        ("trainer.use_cpu=False", ["trainer", "use_cpu"], False),
        ("trainer.save_strategy=no", ["trainer", "save_strategy"], "no"),
        ("trainer.report_to=", ["trainer", "report_to"], None),
        ("methods=[a, b]", ["methods"], ["a", "b"]),
        ("trainer={k: 2}", ["trainer"], {"k": 2}),
        ("new.section.key=1", ["new", "section", "key"], 1),
        ("peft.r=16", ["peft", "r"], 16),  # null in the file, as --show-config prints it
        ("out=runs/a#1", ["out"], "runs/a#1"),
        ("out='runs/a #1'", ["out"], "runs/a #1"),
        ("words=['a #1', b]", ["words"], ["a #1", "b"]),
    ],
)
def test_overrides_win_over_the_file(recipe, override, place, value):
    content = read_recipe(recipe, [override])
    for name in place:
        content = content[name]
    assert content == value


@pytest.mark.parametrize("word", ["no", "No", "NO", "off", "yes", "on", "y", "n"])
def test_only_true_and_false_are_booleans(recipe, word):
    recipe.write_text(f"strategy: {word}\nwords: [{word}, true, false, {word}: {word}]\n")
    assert read_recipe(recipe) == {"strategy": word, "words": [word, True, False, {word: word}]}


def test_an_override_wins_and_the_rest_stays_and_two_of_one_key_are_refused(recipe):
    settings = read_recipe(recipe, ["trainer.k=2"])
    trainer = {"k": 2, "learning_rate": 1e-4}
    assert settings == {"model": "m", "trainer": trainer, "peft": None}
    with pytest.raises(InvalidValueError, match=r"trainer\.k.*twice"):
        read_recipe(recipe, ["trainer.k=8", "trainer.k=2"])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("trainer.k", "must have the form key=value or a.b=value"),
        ("=3", "must have the form"),
        ("trainer..k=3", "must have the form"),
        ("model.size=3", "'model' is not a section"),
        ("model=[1", r"override 'model=\[1': '\[1' is not a YAML value"),
        ("out=runs/a #1", "YAML takes '#1' for a comment; put the value in quotes of its own"),
        ("trainer.k=#4", "YAML takes '#4' for a comment"),
    ],
)
def test_other_overrides_are_refused(recipe, override, message):
    with pytest.raises(InvalidValueError, match=message):
        read_recipe(recipe, [override])


@pytest.mark.parametrize("text", ["a: [", "- 1", "", "\x00"])
def test_files_that_are_no_mapping_are_refused(tmp_path, text):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(DataError, match=r"bad\.yaml"):
        read_recipe(path)


def test_a_missing_recipe(tmp_path):
    with pytest.raises(MissingFileError, match=r"recipe: .*none\.yaml' does not exist"):
        read_recipe(tmp_path / "none.yaml")


def test_runs_are_named_by_their_folder_or_as_asked():
    assert {n: str(p) for n, p in named_paths(["runs/a", "b=runs/x=y"]).items()} == {
        "a": "runs/a",
        "b": "runs/x=y",
    }
    assert named_paths(["."]) == {Path.cwd().name: Path(".")}
    assert list(named_paths(["runs/a/..", "runs/a/"])) == ["runs", "a"]
    for items in (["a", "x/a"], ["=runs/a"], [" =runs/a"], ["a", "a=b"]):
        with pytest.raises(InvalidValueError, match="every run needs a name of its own"):
            named_paths(items)
