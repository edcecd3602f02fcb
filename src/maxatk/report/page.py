"""One report of many runs: a single HTML file that needs no network."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from maxatk.evaluation.sources import ResultsSource
from maxatk.evaluation.statistics.intervals import FEW_PROBLEMS
from maxatk.records import Problem
from maxatk.report.drilldown import problem_details
from maxatk.report.figures import curve_svgs, entropy_svg, metric_svg
from maxatk.report.headlines import headlines
from maxatk.report.paper import paper_tables
from maxatk.report.run_tables import (
    KS,
    differences,
    every_k,
    overview,
    problems_table,
    samples_table,
)
from maxatk.report.runs import (
    METRICS,
    Comparison,
    load_comparison,
    setting_differences,
)
from maxatk.report.style import lines_for
from maxatk.report.truncation import cut_off_warnings
from maxatk.report.unscored import unscored_warnings
from maxatk.version import VERSION


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
        curves: Training curves, as in `curve_svgs`.
        paper: A benchmark whose numbers in the paper are shown too (see `paper_tables`).
        problems: The problems whose prompts are shown.
        samples: How many samples of a problem are shown; 0 leaves the problems out.

    Raises as `load_comparison`.
    """
    comparison = load_comparison(
        results, baseline=baseline, ks=ks, threshold=threshold, column=column
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
    page = environment.get_template("report.html").render(
        title=title,
        version=VERSION,
        details=details,
        **_content(comparison, KS if ks is None else ks, curves, paper),
    )
    out = Path(out_html)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page, encoding="utf-8")
    return out


def _content(
    comparison: Comparison,
    ks: Sequence[int],
    curves: Sequence[Mapping[str, Any]],
    paper: str | None,
) -> dict[str, Any]:
    names = [run.name for run in comparison.runs]
    largest = comparison.shown_ks(ks)[-1]
    counts = comparison.baseline.results["counts"]
    return {
        "baseline": comparison.baseline.name,
        "problems": counts["problems"],
        "few_problems": counts["problems"] < FEW_PROBLEMS,
        "samples": sum(run.results["counts"]["samples"] for run in comparison.runs),
        "unscored": sum(run.results["counts"]["unscored"] for run in comparison.runs),
        "unscored_warnings": unscored_warnings(comparison),
        "cut_off_warnings": cut_off_warnings(comparison),
        "headlines": headlines(comparison, ks),
        "lines": lines_for(names),
        "panels": {metric: metric_svg(comparison, metric) for metric in METRICS},
        "entropy": entropy_svg(comparison),
        "curves": curve_svgs(curves, names),
        "overview": overview(comparison, ks),
        "differences": differences(comparison, ks) if comparison.others else None,
        "every_k": {metric: every_k(comparison, metric) for metric in METRICS},
        "paper": {} if paper is None else paper_tables(paper),
        "outcomes": samples_table(comparison),
        "per_problem": problems_table(comparison, largest),
        "largest": largest,
        "setting_differences": setting_differences(comparison),
        "manifests": {
            run.name: json.dumps(run.results["manifest"], indent=1, ensure_ascii=False)
            for run in comparison.runs
        },
    }
