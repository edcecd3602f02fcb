"""The committed tables, and those in the pages, are what the committed results give."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy import stats

ROOT = Path(__file__).parents[1]
STUDIES = sorted(path.parent.name for path in (ROOT / "docs" / "study").glob("*/results.json"))
RECIPES = {  # by the name that the study's folder has
    Path(settings["out"]).name: path
    for path in (ROOT / "recipes").glob("*/*.yaml")
    if "out" in (settings := yaml.safe_load(path.read_text(encoding="utf-8")))
}


@pytest.fixture(scope="module")
def fill():
    spec = importlib.util.spec_from_file_location("fill", ROOT / "docs" / "fill.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_committed_results():
    assert "table2" in STUDIES


@pytest.mark.parametrize("name", STUDIES)
def test_committed_tables_are_those_of_the_results(fill, tmp_path, name):
    fill.write_tables(fill.load(name), tmp_path)
    committed = fill.DOCS / name
    for table in tmp_path.iterdir():
        assert (committed / table.name).read_text() == table.read_text(), table.name
    kept = {path.name for path in committed.iterdir() if path.suffix in (".md", ".csv", ".tex")}
    assert kept == {table.name for table in tmp_path.iterdir()}


def test_tables_in_pages_are_those_of_the_results(fill):
    places = 0
    for page in fill.PAGES:
        text = page.read_text(encoding="utf-8")
        assert fill.filled(text) == text, page.name
        places += len(re.findall("<!-- study: ", text))
    assert places >= 3


def test_differences_over_the_seeds_of_several_studies_have_students_t(fill):
    studies = [fill.load(name) for name in ("smollm2_hidden_long_2", "smollm2_hidden_long_3")]
    table = fill.table_of_seeds(studies)
    seeds = [study.models[name]["by_seed"] for study in studies for name in ("grpo", "bon_loo1")]
    grpo = [of["max@k"]["32"] for by_seed in seeds[::2] for of in by_seed.values()]
    tuned = [of["max@k"]["32"] for by_seed in seeds[1::2] for of in by_seed.values()]
    found = stats.ttest_rel(tuned, grpo).confidence_interval(0.95)
    assert table.header == ("3 seeds", "max@1", "max@8", "max@32")
    (row,) = [row for row in table.rows if row[0].text == "bon_loo1 − grpo"]
    assert row[-1].text == f"{np.mean(np.subtract(tuned, grpo)):+.3f}"
    assert row[-1].detail == f"[{found.low:+.3f}, {found.high:+.3f}]".replace("-", "−")


@pytest.mark.parametrize("name", STUDIES)
def test_committed_studies_are_those_of_their_recipes(fill, name):
    from maxatk.studies.recipe import load_study

    recipe = load_study(RECIPES[name])
    study = fill.load(name)
    assert list(study.seeds) == recipe.seeds
    assert study.title == recipe.title
    assert {run.name for run in study.comparison.runs} == {model.name for model in recipe.variants}
