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
runs = {name: Results.from_json(row, place="") for name, row in zip(sys.argv[1:], rows)}
for suffix in ("svg", "pdf"):
    figure1(runs, f"figure.{suffix}")
write_report(runs, "page.html", samples=0)
"""


@pytest.fixture
def drawn(results, tmp_path):
    """Return a function: draw every figure of two runs of these names, and return standard error.

    Any warning of Matplotlib would be an error there.
    """
    (tmp_path / "results.json").write_text(json.dumps([results["base"], results["sharp"]]))

    def draw(*names):
        done = subprocess.run(
            [sys.executable, "-c", FIGURES, *names], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        return done.stderr

    return draw


def letters_of(family):
    file = findfont(FontProperties(family=family))
    return {chr(code) for code in get_font(file).get_charmap()}


def test_letters_of_no_font_are_told_of_once(drawn):
    name = "tuned \u6a21\u578b"  # Chinese for model
    lines = drawn("base", name).splitlines()
    assert len(lines) <= 1  # none on a machine that has fonts of Chinese
    for line in lines:
        assert line.startswith("figures: no installed font has ")
        assert set(line) & set(name[-2:])


def test_another_font_that_has_the_letters_is_taken(drawn, tmp_path):
    rare = sorted(filter(str.isprintable, letters_of("STIXGeneral") - letters_of("DejaVu Sans")))
    assert rare
    assert drawn("base", f"tuned {rare[-1]}") == ""
