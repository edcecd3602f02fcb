"""Names in letters that the font of the figures lacks: another font, or one line that says so."""

import json
import subprocess
import sys

import pytest
from matplotlib.font_manager import FontProperties, findfont, get_font

FIGURES = """
import json, sys, warnings
from pathlib import Path

warnings.simplefilter("error")
from maxatk.evaluation.results import Results
from maxatk.report import figure1, write_report

rows = json.loads(Path("results.json").read_text())
for name in sys.argv[1:]:
    runs = {name: Results.from_json(row, place="") for name, row in zip(("base", name), rows)}
    for suffix in ("svg", "pdf"):
        figure1(runs, f"figure.{suffix}")
    write_report(runs, "page.html", samples=0)
    print("drawn", file=sys.stderr)
"""
NOWHERE = "\u6a21\u578b"  # Chinese for model


@pytest.fixture(scope="module")
def rare():
    """Letters that the font of the figures lacks, and another one has."""
    return sorted(filter(str.isprintable, letters_of("STIXGeneral") - letters_of("DejaVu Sans")))


@pytest.fixture(scope="module")
def drawn(results, rare, tmp_path_factory):
    """What standard error has of every figure of two runs: with letters of no font, and rare ones.

    Any warning of Matplotlib would be an error there.
    """
    folder = tmp_path_factory.mktemp("figures")
    (folder / "results.json").write_text(json.dumps([results["base"], results["sharp"]]))
    names = (f"tuned {NOWHERE}", f"tuned {rare[-1]}")
    done = subprocess.run(
        [sys.executable, "-c", FIGURES, *names], capture_output=True, text=True, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    of_nowhere, of_rare, _ = done.stderr.split("drawn\n")
    return of_nowhere, of_rare


def letters_of(family):
    file = findfont(FontProperties(family=family))
    return {chr(code) for code in get_font(file).get_charmap()}


@pytest.mark.long
def test_letters_of_no_font_are_told_of_once(drawn):
    lines = drawn[0].splitlines()
    assert len(lines) <= 1  # none on a machine that has fonts of Chinese
    for line in lines:
        assert line.startswith("figures: no installed font has ")
        assert set(line) & set(NOWHERE)


@pytest.mark.long
def test_another_font_that_has_the_letters_is_taken(drawn):
    assert drawn[1] == ""
