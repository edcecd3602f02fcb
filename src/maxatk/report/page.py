"""One report of many runs: a single HTML file that needs no network."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from maxatk.evaluation.sources import ResultsSource
from maxatk.evaluation.statistics.intervals import FEW_PROBLEMS
from maxatk.records import Problem
from maxatk.report.curves import training_curves
from maxatk.report.deciding import decide, sentences
from maxatk.report.drilldown import problem_details
from maxatk.report.figures import entropy_svg, metric_svg
from maxatk.report.paper import paper_tables
from maxatk.report.problem_data import problem_data
from maxatk.report.run_tables import KS, differences, every_k, overview, samples_table
from maxatk.report.runs import (
    METRICS,
    Comparison,
    load_comparison,
    setting_differences,
    with_seeds,
)
from maxatk.report.setup import models_table, settings_table
from maxatk.report.strip import against_baseline, winners
from maxatk.report.style import lines_for
from maxatk.report.truncation import cut_off_warnings
from maxatk.report.unscored import unscored_warnings
from maxatk.version import VERSION

_SECTIONS = {
    "verdict": "Which model for N attempts",
    "set-up": "Set-up",
    "quality": "Quality against the number of attempts",
    "every-k": "Every k",
    "diversity": "Diversity and outcomes",
    "training": "Training",
    "problems": "Problem by problem",
    "manifests": "Manifests",
}


def write_report(
    results: Mapping[str, ResultsSource],
    out_html: str | Path,
    *,
    title: str = "Best of N",
    baseline: str | None = None,
    ks: Sequence[int] | None = None,
    threshold: float | None = None,
    column: str | None = None,
    curves: Sequence[Mapping[str, Any]] = (),
    paper: str | None = None,
    problems: Iterable[Problem] = (),
    samples: int = 3,
    seeds: Sequence[Mapping[str, ResultsSource]] = (),
) -> Path:
    """Write one self-contained HTML page about the runs and return its path.

    All runs must be over the same problems. Runs given as folders are shown problem by problem.

    Args:
        results: The results of each run by its name.
        out_html: The file to write.
        title: The heading of the page.
        baseline: The run that the others are compared to, as in `load_comparison`.
        ks: The k of the first table; by default those of `KS` that all runs have.
        threshold: The reward from which a sample passes, as in `load_results`.
        column: A column of the scores that stands in for the reward, as in `load_results`.
        curves: Trainings: {"name", "log_history"} and, if known, the "recipe" of each, as in
            `training_curves` and `models_table`.
        paper: A benchmark whose numbers in the paper are shown too (see `paper_tables`).
        problems: The problems whose prompts are shown.
        samples: How many samples of a problem are shown; 0 leaves prompts and samples out.
        seeds: The same runs of every training seed alone, where `results` hold those of several:
            from three on, differences are tested over them.

    Raises as `load_comparison`.
    """
    comparison = with_seeds(
        load_comparison(results, baseline=baseline, ks=ks, threshold=threshold, column=column),
        seeds,
    )
    details = (
        problem_details(results, comparison.problem_ids, problems=problems, samples=samples)
        if samples
        else []
    )
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("maxatk.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    content = _content(comparison, KS if ks is None else ks, curves, paper)
    page = environment.get_template("report.html").render(
        title=title,
        version=VERSION,
        style=_part("report.css"),
        script=_part("report.js") + _part("problems.js"),
        contents={key: name for key, name in _SECTIONS.items() if content.get(key, True)},
        problem_data=problem_data(comparison, details),
        **content,
    )
    out = Path(out_html)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page, encoding="utf-8")
    return out


def _part(name: str) -> str:
    return (resources.files("maxatk.report") / "templates" / name).read_text(encoding="utf-8")


def _content(
    comparison: Comparison,
    ks: Sequence[int],
    curves: Sequence[Mapping[str, Any]],
    paper: str | None,
) -> dict[str, Any]:
    names = [run.name for run in comparison.runs]
    counts = comparison.baseline.results["counts"]
    drawn = training_curves(curves, names)
    recipes = {curve["name"]: curve.get("recipe") or {} for curve in curves}
    return {
        **_verdict(comparison, ks),
        "training": bool(drawn),
        "baseline": comparison.baseline.name,
        "problems": counts["problems"],
        "few_problems": counts["problems"] < FEW_PROBLEMS,
        "samples": sum(run.results["counts"]["samples"] for run in comparison.runs),
        "unscored": sum(run.results["counts"]["unscored"] for run in comparison.runs),
        "unscored_warnings": unscored_warnings(comparison),
        "cut_off_warnings": cut_off_warnings(comparison),
        "models": models_table(comparison, recipes),
        "settings": settings_table(comparison),
        "lines": lines_for(names),
        "panels": {metric: metric_svg(comparison, metric) for metric in METRICS},
        "entropy": entropy_svg(comparison),
        "curves": drawn,
        "overview": overview(comparison, ks),
        "every_k": {metric: every_k(comparison, metric) for metric in METRICS},
        "paper": {} if paper is None else paper_tables(paper),
        "outcomes": samples_table(comparison),
        "setting_differences": setting_differences(comparison),
        "manifests": {
            run.name: json.dumps(run.results["manifest"], indent=1, ensure_ascii=False)
            for run in comparison.runs
        },
    }


def _verdict(comparison: Comparison, ks: Sequence[int]) -> dict[str, Any]:
    """Return what the page says of which model is best; nothing for one run alone."""
    if not comparison.others:
        return {"verdict": False, "decision": None, "differences": None}
    decision = decide(comparison)
    return {
        "verdict": True,
        "decision": decision,
        "over_seeds": comparison.over_seeds,
        "findings": sentences(decision),
        "winners": winners(decision),
        "against": against_baseline(decision),
        "differences": differences(comparison, ks),
    }
