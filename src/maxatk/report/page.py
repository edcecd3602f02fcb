"""One report of many runs: a single HTML file that needs no network."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from maxatk.records import Problem
from maxatk.report import figures, run_tables, setup
from maxatk.report.deciding import advice, decide, sentences
from maxatk.report.drilldown import problem_data, problem_details
from maxatk.report.notices import notices
from maxatk.report.runs import Runs, comparison_of
from maxatk.report.tables import Table, transposed
from maxatk.version import VERSION


@dataclasses.dataclass(frozen=True)
class Remarks:
    """What a command has to say of the runs: sentences, and a table with its caption."""

    sentences: Sequence[str]
    table: Table
    caption: str


def write_report(
    results: Runs,
    out_html: str | Path,
    *,
    title: str = "Best of N",
    curves: Sequence[Mapping[str, Any]] = (),
    problems: Iterable[Problem] = (),
    samples: int = 3,
    remarks: Remarks | None = None,
) -> Path:
    """Write one self-contained HTML page about the runs and return its path.

    All runs must be over the same problems. Runs given as folders are shown problem by problem.

    Args:
        results: The results of each run by its name, or what `load_comparison` makes of them.
        out_html: The file to write.
        title: The heading of the page.
        curves: Trainings: {"name", "log_history"} and, if known, the "recipe" of each, as in
            `training_curves` and `models_table`.
        problems: The problems whose prompts are shown.
        samples: How many samples of a problem are shown; 0 leaves prompts and samples out.
        remarks: What is said before anything else.

    Raises as `load_comparison`.
    """
    comparison = comparison_of(results)
    details = problem_details(comparison, problems=problems, samples=samples) if samples else []
    metrics = comparison.metrics if comparison.others else ()
    decisions = {metric: decide(comparison, metric) for metric in metrics}
    # The template asks for the tables and figures that it shows, each beside its caption.
    text = (
        environment()
        .get_template("report.html")
        .render(
            comparison=comparison,
            decisions=decisions,
            notices=notices(comparison),
            lines=figures.lines_for(comparison.names),
            curves=figures.training_curves(curves, comparison.names),
            recipes={curve["name"]: curve.get("recipe") or {} for curve in curves},
            problem_data=problem_data(comparison, list(decisions.values()), details),
            title=title,
            remarks=remarks,
        )
    )
    out = Path(out_html)
    out.parent.mkdir(parents=True, exist_ok=True)
    # A lone surrogate, which JSON may have, cannot be written to a file.
    out.write_text(text, encoding="utf-8", errors="replace")
    return out


def environment() -> jinja2.Environment:
    """Return what renders the templates of pages; what they are given is text, not markup."""
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("maxatk.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals |= {
        "figures": figures,
        "tables": run_tables,
        "setup": setup,
        "transposed": transposed,
        "sentences": sentences,
        "advice": advice,
        "version": VERSION,
        "style": _part("report.css"),
        "script": _part("report.js") + _part("problems.js"),
    }
    found.filters["slug"] = lambda metric: metric.replace("@", "-at-")
    found.filters["json"] = lambda value: json.dumps(value, indent=1, ensure_ascii=False)
    return found


def _part(name: str) -> str:
    return (resources.files("maxatk.report") / "templates" / name).read_text(encoding="utf-8")
