"""Bring what the studies found into the documents: results, tables, figures, and tables in pages.

    python docs/fill.py [runs/study]

Draws docs/weighting.svg, copies results.json and the SVG figures of every finished study to
docs/study/NAME, and writes the tables of every study there from its results. Every place of a page
that is marked like this is filled from the results:

    <!-- study: table2/scores -->
    <!-- end of study -->

A place that names several studies of one design, each with seeds of its own, gets their means over
all of these seeds, with Student's t over them:

    <!-- seeds: smollm2_hidden_long smollm2_hidden_long_2 -->
    <!-- end of seeds -->
"""

import argparse
import itertools
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from maxatk.report import tables
from maxatk.report.figure_style import STYLE
from maxatk.report.figures import plot
from maxatk.report.table_formats import format_table
from maxatk.report.tables import Cell, Table
from maxatk.statistics.intervals import student_mean
from maxatk.studies.findings import Study, study_tables, write_tables

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs" / "study"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_PLACE = re.compile(
    r"(<!-- study: (?P<study>\w+)/(?P<table>\w+) -->\n).*?(<!-- end of study -->)", re.DOTALL
)

_SEEDS = re.compile(r"(<!-- seeds: (?P<studies>[\w ]+) -->\n).*?(<!-- end of seeds -->)", re.DOTALL)
_KS = ("1", "8", "32")
_WEIGHED = ["rloo", "grpo", "bon_loo1", "bon_mean", "pass_at_k_training"]


def load(name: str) -> Study:
    """Return the committed study of that name."""
    return Study.from_json(json.loads((DOCS / name / "results.json").read_text(encoding="utf-8")))


def filled(text: str) -> str:
    """Return a page with every marked place filled from the committed results."""

    def table(place: re.Match[str]) -> str:
        found = study_tables(load(place["study"]))[place["table"]]
        return f"{place[1]}{format_table(found, 'md')}{place[4]}"

    def seeds(place: re.Match[str]) -> str:
        found = table_of_seeds([load(name) for name in place["studies"].split()])
        return f"{place[1]}{format_table(found, 'md')}{place[3]}"

    return _SEEDS.sub(seeds, _PLACE.sub(table, text))


def table_of_seeds(studies: list[Study]) -> Table:
    """Return max@k of every model over the seeds of all studies, and of every difference."""
    means = {
        name: np.array(
            [
                [by_metric["max@k"][k] for k in _KS]
                for study in studies
                for by_metric in study.models[name]["by_seed"].values()
            ]
        )
        for name in studies[0].models
    }
    rows = [[name, *_cells(values, tables.share)] for name, values in means.items()]
    for second, first in itertools.combinations(means, 2):
        cells = _cells(means[first] - means[second], tables.change)
        rows.append([f"{first} − {second}", *cells])
    seeds = len(means[studies[0].comparison.baseline.name])
    return tables.table_of_rows([f"{seeds} seeds", *(f"max@{k}" for k in _KS)], rows)


def _cells(values: np.ndarray, text: Callable[[float], str]) -> list[Cell]:
    found = student_mean(values)
    every = zip(found.mean, found.low, found.high, strict=True)
    return [Cell(text(mean), f"[{text(low)}, {text(high)}]") for mean, low, high in every]


def draw_weighting() -> None:
    """Draw the factor that methods put on the gradient of a prompt's success rate."""
    with mpl.rc_context({**STYLE, "svg.fonttype": "path"}):
        figure = Figure(figsize=(7.0, 4.2), layout="constrained", facecolor="white")
        plot(_WEIGHED, n=8, k=4, ax=figure.subplots())
        figure.savefig(ROOT / "docs" / "weighting.svg", metadata={"Date": None})


def copy(runs: Path) -> None:
    """Copy results and figures of the finished studies below `runs`."""
    for results in sorted(runs.glob("*/results.json")):
        to = DOCS / results.parent.name
        to.mkdir(parents=True, exist_ok=True)
        shutil.copy(results, to)
        for figure in results.parent.glob("figures/*.svg"):
            shutil.copy(figure, to)
        print(f"{to.relative_to(ROOT)}: copied")


def main() -> None:
    """Copy, and write tables and pages."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="?", type=Path, default=Path("runs/study"))
    copy(parser.parse_args().runs)
    draw_weighting()
    for results in DOCS.glob("*/results.json"):
        write_tables(load(results.parent.name), results.parent)
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
