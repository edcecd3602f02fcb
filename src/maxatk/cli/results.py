"""What eval, score, report and demo print of results: tables for people, rows for programs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from maxatk.cli.tables import OutputFormat, print_json, print_table
from maxatk.evaluation.groups import results_by
from maxatk.evaluation.results import MOST_CUT_OFF, cut_off
from maxatk.evaluation.sources import ResultsSource, load_results
from maxatk.report import outcomes_table, overview_table
from maxatk.report.run_tables import KS, groups_table
from maxatk.report.runs import METRICS
from maxatk.report.tidy import TidyRow


def print_results(
    name: str,
    results: Mapping[str, Any],
    *,
    ks: Sequence[int] = (),
    by: str | None = None,
    output_format: OutputFormat = "text",
) -> None:
    """Print max@k and pass@k of one run, and what share of its samples was cut off by length.

    `ks` are those to show; without them the text has those of the report and the JSON all of the
    results. `by` is a field of the problems' `meta`.
    """
    if output_format == "json":
        print_json(result_rows({name: results}, ks=ks, by=by))
    else:
        print_overview({name: results}, ks=ks, by=by)
        print_cut_off({name: results})
    warn_cut_off({name: results})


def result_rows(
    results: Mapping[str, ResultsSource], *, ks: Sequence[int] = (), by: str | None = None
) -> dict[str, list[TidyRow]]:
    """Return results as rows: the tables "metrics", "samples" and "outcomes", and "by".

    A metric has model, metric, k, mean, low, high (95%) and problems; in "by" also the field and
    its value. The samples of a model have problems, samples, unscored and the share cut off.
    """
    loaded = {name: load_results(source, ks=ks) for name, source in results.items()}
    grouped = {} if by is None else {name: results_by(r, by) for name, r in loaded.items()}
    groups: list[TidyRow] = [
        {"model": name, "field": by, "value": value, **row}
        for name, found in grouped.items()
        for value, part in found.items()
        for row in _metric_rows(part, ks)
    ]
    return {
        "metrics": [{"model": n, **row} for n, r in loaded.items() for row in _metric_rows(r, ks)],
        **({} if by is None else {"by": groups}),
        "samples": [{"model": name, **_sample_row(r)} for name, r in loaded.items()],
        "outcomes": [
            {"model": name, "outcome": outcome, "samples": count}
            for name, r in loaded.items()
            for outcome, count in r["counts"]["outcomes"].items()
        ],
    }


def _metric_rows(results: Mapping[str, Any], ks: Sequence[int]) -> Iterator[dict[str, Any]]:
    for metric in METRICS:
        found = results["metrics"][metric]
        for k in [str(k) for k in ks] or found:
            numbers = {key: found[k][key] for key in ("mean", "low", "high", "problems")}
            yield {"metric": metric, "k": int(k), **numbers}


def _sample_row(results: Mapping[str, Any]) -> dict[str, Any]:
    counts = results["counts"]
    kept = {key: counts[key] for key in ("problems", "samples", "unscored")}
    return {**kept, "cut_off": cut_off(results)}


def print_overview(
    results: Mapping[str, ResultsSource], *, ks: Sequence[int] = (), by: str | None = None
) -> None:
    """Print max@k and pass@k of every run, with 95% intervals, best bold, second underlined.

    `ks` are those of the columns, else those of the report; `by` adds a table for a field of the
    problems' `meta`, one row a value.
    """
    title = "95% intervals over problems"
    print_table(overview_table(results, ks=ks or None), title=title)
    for name, source in results.items() if by is not None else ():
        groups = results_by(load_results(source, ks=ks), str(by))
        rows = {f"{v} ({len(p['per_problem']['ids'])})": p for v, p in groups.items()}
        print_table(groups_table(rows, heading=f"{by} (problems)", ks=ks or KS), title=name)


def print_cut_off(results: Mapping[str, Mapping[str, Any]]) -> None:
    """Print which share of the samples was cut off by length, where that is known."""
    for name, found in results.items():
        share = cut_off(found)
        if share is not None:
            print(f"{name}: {share:.1%} of the samples cut off by max_new_tokens")  # noqa: T201


def warn_cut_off(results: Mapping[str, Mapping[str, Any]]) -> None:
    """Warn on standard error where so many samples were cut off that the metrics mislead."""
    for name, found in results.items():
        share = cut_off(found)
        if share is not None and share > MOST_CUT_OFF:
            print(  # noqa: T201
                f"warning: {name}: {share:.0%} of the samples were cut off before their end, so "
                "that the metrics say more about sampling.max_new_tokens than about the model",
                file=sys.stderr,
            )


def print_outcomes(results: Mapping[str, Any]) -> None:
    """Print how many samples had each outcome, and how many are unscored."""
    print_table(outcomes_table(results), title="the first outcome of a sample that is not passed")
