"""One report of many runs: a single HTML file that needs no network."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from maxatk.check import as_path, require, several, whole
from maxatk.errors import counted
from maxatk.report import figures, recorded_settings, run_tables, trade_off, training_figures
from maxatk.report.decision import decide
from maxatk.report.figure_style import lines_for
from maxatk.report.load_runs import Runs, comparison_of
from maxatk.report.notices import notices, selection_lines
from maxatk.report.problem_data import problem_data
from maxatk.report.problem_details import problem_details
from maxatk.report.tables import transposed
from maxatk.version import VERSION
from maxatk.writing import check_file, write_text


def write_report(
    results: Runs,
    out_html: str | Path,
    *,
    title: str = "Best of N",
    curves: Sequence[Mapping[str, Any]] = (),
    samples: int = 3,
    remarks: Sequence[str] = (),
) -> Path:
    """Write one self-contained HTML page about runs over the same problems and return its path.

    Runs given as folders have so many `samples` of every problem, for 0 no prompts either. `curves`
    are trainings: {"name", "log_history"} and, if known, the "recipe" of each. `remarks` are said
    before anything else, behind a note where a model's own rewards chose the problems. Raises as
    `load_comparison`.
    """
    whole("samples", samples, 0)
    out = page_path(out_html)
    several("curves", curves, "trainings")
    for curve in curves:
        is_training = isinstance(curve, Mapping) and {"name", "log_history"} <= curve.keys()
        require(is_training, "curves", "mappings with name and log_history", curve)
    several("remarks", remarks, "texts")
    comparison = comparison_of(results)
    details = problem_details(comparison, samples=samples) if samples else []
    decisions = {}
    if len(comparison.runs) > 1:
        decisions = {metric: decide(comparison, metric) for metric in comparison.metrics}
    # The template asks for the tables and figures that it shows, each beside its caption.
    page = templates().get_template("report.html")
    text = page.render(
        comparison=comparison,
        decisions=decisions,
        curves=curves,
        recipes={curve["name"]: curve.get("recipe") or {} for curve in curves},
        problem_data=problem_data(comparison, list(decisions.values()), details),
        title=title,
        remarks=[*(f"Note: {line}" for line in selection_lines(comparison)), *remarks],
    )
    write_text(out, text)
    return out


def page_path(out: str | Path) -> Path:
    """Return the path of a page; raises InvalidValueError for another ending, as `check_file`."""
    path = as_path("out", out)
    require(path.suffix in (".html", ".htm"), "out", "a file that ends in .html", str(path))
    check_file("out", path)
    return path


@functools.cache
def templates() -> jinja2.Environment:
    """Return what renders the templates of pages; what they are given is text, not markup."""
    pages = jinja2.Environment(
        loader=jinja2.PackageLoader("maxatk.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.globals |= {
        "figures": figures,
        "lines_for": lines_for,
        "notices": notices,
        "recorded_settings": recorded_settings,
        "tables": run_tables,
        "trade_off": trade_off,
        "training_figures": training_figures,
        "counted": counted,
        "transposed": transposed,
        "version": VERSION,
        "style": _template("report.css"),
        "script": _template("report.js") + _template("problems.js"),
    }
    pages.filters["slug"] = lambda metric: metric.replace("@", "-at-")
    pages.filters["json"] = lambda value: json.dumps(value, indent=1, ensure_ascii=False)
    return pages


def _template(name: str) -> str:
    return (resources.files("maxatk.report") / "templates" / name).read_text(encoding="utf-8")
