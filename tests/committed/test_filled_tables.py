"""The committed tables, and those in the pages, are what the committed results give."""

import re

import pytest

from committed.results import RECIPES, STUDIES
from maxatk.studies.recipe import load_study


def test_there_are_committed_results():
    assert "table2" in STUDIES


def test_the_committed_tables_are_those_to_which_a_page_links(fill):
    linked = {
        f"{study}/{table}.md": text
        for study, tables in fill.linked_tables().items()
        for table, text in tables.items()
    }
    assert len(linked) > 30
    committed = {f"{path.parent.name}/{path.name}": path for path in fill.DOCS.glob("*/*.md")}
    assert set(committed) == set(linked)
    for name, path in committed.items():
        assert path.read_text(encoding="utf-8") == linked[name], name


@pytest.mark.parametrize("name", STUDIES)
def test_every_table_of_a_committed_study_can_be_made_again(fill, tmp_path, name):
    fill.write_tables(fill.load(name), tmp_path)
    suffixes = {path.suffix for path in tmp_path.iterdir()}
    assert suffixes == {".md", ".csv", ".tex"}


def test_tables_in_pages_are_those_of_the_results(fill):
    places = 0
    for page in fill.PAGES:
        text = page.read_text(encoding="utf-8")
        assert fill.filled(text) == text, page.name
        places += len(re.findall("<!-- study: ", text))
    assert places >= 3


@pytest.mark.parametrize("name", STUDIES)
def test_committed_studies_are_those_of_their_recipes(fill, name):

    recipe = load_study(RECIPES[name])
    study = fill.load(name)
    assert list(study.seeds) == recipe.seeds
    assert study.title == recipe.title
    assert {run.name for run in study.comparison.runs} == {model.name for model in recipe.variants}
