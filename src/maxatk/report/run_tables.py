"""The tables about the runs of a report: metrics, differences, samples, problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from maxatk.evaluation.results import cut_off
from maxatk.evaluation.sources import ResultsSource
from maxatk.records import Outcome
from maxatk.report.cells import (
    Cell,
    Column,
    Table,
    number_column,
    ranked_column,
    shaded_column,
    tabulate,
    text_column,
)
from maxatk.report.deciding import Decision, PairedTest, decide
from maxatk.report.numbers import change, change_interval, interval, share
from maxatk.report.runs import METRICS, Comparison, Run, load_comparison, metric_name
from maxatk.report.truncation import cut_off_shares

KS = (1, 8, 32, 128)
SAMPLES_COLUMNS = (
    (("diversity", "distinct"), "distinct per problem", 1),
    (("diversity", "programs"), "programs per problem", 1),
    (("diversity", "program_entropy"), "nats of programs", 2),
    (("entropy", "sequence", "mean"), "nats per completion", 2),
    (("entropy", "token_mean"), "nats per token", 2),
    (("entropy", "tokens_mean"), "tokens", 1),
)
"""Keys in the results, heading and decimals of what is said of the samples of a run."""


def overview_table(
    results: Mapping[str, ResultsSource],
    *,
    ks: Sequence[int] | None = None,
    baseline: str | None = None,
) -> Table:
    """Return max@k and pass@k of every run with 95% intervals, best and second best marked.

    Rows are runs, columns metrics at k as in Tables 2 and 3 of "The Best of N Worlds"; without
    `ks` those of `KS` that all runs have. Raises as `load_comparison`.
    """
    return overview(load_comparison(results, baseline=baseline, ks=ks), KS if ks is None else ks)


def overview(comparison: Comparison, ks: Sequence[int] = KS) -> Table:
    """Return the table of `overview_table` for a loaded comparison."""
    columns = [
        ranked_column(
            metric_name(metric, k), comparison.means(metric, k), of=comparison.baseline.problems
        )
        for metric in METRICS
        for k in comparison.shown_ks(ks)
    ]
    return tabulate([Column("model", Cell), *columns], [run.name for run in comparison.runs])


def groups_table(
    groups: Mapping[str, Mapping[str, Any]], *, heading: str, ks: Sequence[int]
) -> Table:
    """Return max@k and pass@k over groups of problems, one row a group; nothing is compared."""
    runs = [Run(name, results) for name, results in groups.items()]
    known = set.intersection(*({int(k) for k in run.results["metrics"]["max@k"]} for run in runs))
    columns: list[Column[Run]] = [text_column(heading, lambda run: run.name)]
    for metric in METRICS:
        for k in Comparison((), tuple(sorted(known))).shown_ks(ks):
            columns.append(_group_column(metric, k))
    return tabulate(columns, runs)


def _group_column(metric: str, k: int) -> Column[Run]:
    def cell(run: Run) -> Cell:
        found = run.metric(metric, k)
        return Cell(share(found["mean"]), interval(found["low"], found["high"]))

    return Column(metric_name(metric, k), cell)


def every_k(comparison: Comparison, metric: str) -> Table:
    """Return a metric of every run at every k, shaded by column as Tables 5 to 14 of the paper."""
    columns = [
        shaded_column(
            metric_name(metric, k), comparison.means(metric, k), of=comparison.baseline.problems
        )
        for k in comparison.ks
    ]
    return tabulate([Column("model", Cell), *columns], [run.name for run in comparison.runs])


def differences(comparison: Comparison, ks: Sequence[int] = KS) -> Table:
    """Return the paired difference of every other run to the baseline, with 95% intervals.

    Those are marked that the test of `decide` tells from zero.
    """
    columns: list[Column[Run]] = [text_column("model", lambda run: run.name)]
    for metric in METRICS:
        columns += difference_columns(decide(comparison, metric), comparison.shown_ks(ks))
    return tabulate(columns, comparison.others)


def difference_columns(decision: Decision, ks: Sequence[int]) -> list[Column[Run]]:
    """Return the columns of `differences` for one metric."""
    found = {(test.first, test.measure.k): test for test in decision.against_baseline}
    return [_difference_column(metric_name(decision.metric, k), found, k) for k in ks]


def _difference_column(
    heading: str, found: Mapping[tuple[str, int], PairedTest], k: int
) -> Column[Run]:
    def cell(run: Run) -> Cell:
        test = found[run.name, k]
        mark = "" if not test.significant else "above" if test.difference > 0 else "below"
        note = f"{test.problems:,} problems" if test.problems < run.problems else ""
        return Cell(change(test.difference), change_interval(test.low, test.high), mark, note=note)

    return Column(heading, cell)


def samples_table(comparison: Comparison) -> Table:
    """Return what became of the samples: counts, outcomes, distinct completions, entropy."""
    outcomes = sorted({o for run in comparison.runs for o in run.results["counts"]["outcomes"]})
    columns: list[Column[Run]] = [
        text_column("model", lambda run: run.name),
        _count_column("samples", "samples"),
        *(_count_column(o.replace("_", " "), "outcomes", o) for o in outcomes),
        _count_column("unscored", "unscored"),
        *([_cut_off_column()] if cut_off_shares(comparison) else []),
        *(_sampled_column(*entry) for entry in SAMPLES_COLUMNS),
    ]
    return tabulate(columns, comparison.runs)


def _cut_off_column() -> Column[Run]:
    def shown(run: Run) -> str:
        found = cut_off(run.results)
        return "" if found is None else f"{found:.1%}"

    return text_column("cut off", shown)


def _read(run: Run, keys: Sequence[str]) -> float | None:
    """Return a number of a run's results by its keys; None where one of them is missing."""
    found: Any = run.results
    for key in keys:
        found = found and found.get(key)
    return None if found is None else float(found)


def _sampled_column(keys: Sequence[str], heading: str, digits: int) -> Column[Run]:
    return number_column(heading, lambda run: _read(run, keys), digits=digits)


def _count_column(heading: str, *keys: str) -> Column[Run]:
    return text_column(heading, lambda run: f"{int(_read(run, ('counts', *keys)) or 0):,}")


def outcomes_table(results: Mapping[str, Any]) -> Table:
    """Return one row an outcome that occurred: samples with it and their share of all samples.

    The last row, if there are any, counts the unscored samples, those of the verifier's own
    failures: they are left out of every metric.
    """
    counts = results["counts"]
    found = counts["outcomes"]
    numbers = {str(outcome): found[str(outcome)] for outcome in Outcome if str(outcome) in found}
    if counts["unscored"]:
        numbers["unscored"] = counts["unscored"]
    columns: list[Column[str]] = [
        Column("outcome", Cell),
        text_column("samples", lambda name: f"{numbers[name]:,}"),
        text_column("share", lambda name: f"{numbers[name] / counts['samples']:.1%}"),
    ]
    return tabulate(columns, list(numbers))
