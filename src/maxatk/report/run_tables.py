"""The tables about the runs of a report: scores, verdict, samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from maxatk.evaluation.results import Results
from maxatk.records import Outcome
from maxatk.report.deciding import Decision, Measure
from maxatk.report.runs import METRICS, Comparison, Reading, Runs, comparison_of, metric_name
from maxatk.report.tables import Cell, Table, decimal, mean_cell, metric_cells, table_of

KS = (1, 8, 32, 128)
SAMPLES_COLUMNS: tuple[tuple[str, int, Callable[[Results], float | None]], ...] = (
    ("distinct per problem", 1, lambda found: found.diversity.distinct),
    ("programs per problem", 1, lambda found: found.diversity.programs),
    ("nats of programs", 2, lambda found: found.diversity.program_entropy),
    ("nats per completion", 2, lambda found: found.entropy and found.entropy.sequence.mean),
    ("nats per token", 2, lambda found: found.entropy and found.entropy.token_mean),
    ("tokens", 1, lambda found: found.entropy and found.entropy.tokens_mean),
)
"""Heading, decimals and value of what is said of the samples of a run, beside their counts."""


def overview_table(results: Runs, *, ks: Sequence[int] = ()) -> Table:
    """Return max@k and pass@k of every run with 95% intervals, best and second best marked.

    Rows are runs, columns metrics at k as in Tables 2 and 3 of "The Best of N Worlds"; without
    `ks` those of `KS` that all runs have. Raises as `load_comparison`.
    """
    comparison = comparison_of(results, Reading(k=tuple(ks)))
    shown = comparison.shown_ks(ks or KS)
    return scores_table({"": comparison}, [Measure("", m, k) for m in METRICS for k in shown])


def every_k(comparison: Comparison, metric: str) -> Table:
    """Return a metric of every run at every k, shaded by column as Tables 5 to 14 of the paper."""
    measures = [Measure("", metric, k) for k in comparison.ks]
    return scores_table({"": comparison}, measures, shade=True)


def scores_table(
    comparisons: Mapping[str, Comparison],
    measures: Sequence[Measure],
    stars: Mapping[Measure, str] = MappingProxyType({}),
    *,
    shade: bool = False,
) -> Table:
    """Return one row a model, one column a benchmark and metric, as Tables 2 and 3 of the paper.

    The best and the second best of a column are marked, or it is shaded; a star follows the model
    that `stars` has for a measure. The last columns, if there are any, have the samples without a
    reward or with a 0 in its place.
    """
    columns: dict[str, Sequence[Cell | str]] = {"model": next(iter(comparisons.values())).names}
    for measure in measures:
        comparison = comparisons[measure.benchmark]
        columns[measure.name] = metric_cells(
            {run.name: run.metric(measure.metric, measure.k) for run in comparison.runs},
            of=comparison.baseline.problems,
            starred=stars.get(measure, ""),
            shade=shade,
        )
    for name, comparison in comparisons.items():
        counts = [run.results.counts for run in comparison.runs]
        lacking = [(of.unscored + of.zeroed, of.samples) for of in counts]
        if any(number for number, _ in lacking):
            shares = [f"{number:,} ({number / samples:.1%})" for number, samples in lacking]
            columns[f"{name} no reward".strip()] = shares
    return table_of(columns)


def groups_table(groups: Mapping[str, Results], *, heading: str, ks: Sequence[int]) -> Table:
    """Return max@k and pass@k over groups of problems, one row a group; nothing is compared."""
    known = set.intersection(*(set(results.ks) for results in groups.values()))
    columns = {
        metric_name(metric, k): [mean_cell(found.metrics[metric][k]) for found in groups.values()]
        for metric in METRICS
        for k in Comparison((), tuple(sorted(known))).shown_ks(ks)
    }
    return table_of({heading: groups, **columns})


def samples_table(comparison: Comparison) -> Table:
    """Return what became of the samples: counts, outcomes, distinct completions, entropy."""
    found = [run.results for run in comparison.runs]
    columns = {"model": comparison.names, "samples": [f"{one.counts.samples:,}" for one in found]}
    for name in sorted({outcome for one in found for outcome in one.counts.outcomes}):
        counts = [f"{one.counts.outcomes.get(name, 0):,}" for one in found]
        columns[name.replace("_", " ")] = counts
    columns["unscored"] = [f"{one.counts.unscored:,}" for one in found]
    cut_off = ["" if one.cut_off is None else f"{one.cut_off:.1%}" for one in found]
    columns |= {"cut off": cut_off} if any(cut_off) else {}
    for heading, digits, value in SAMPLES_COLUMNS:
        columns[heading] = [decimal(value(one), digits) for one in found]
    return table_of(columns)


def outcomes_table(results: Results) -> Table:
    """Return one row an outcome that occurred, and last the samples without a reward, if any."""
    counts = results.counts
    found = counts.outcomes
    numbers = {str(outcome): found[str(outcome)] for outcome in Outcome if str(outcome) in found}
    if counts.unscored:
        numbers["unscored"] = counts.unscored
    return table_of(
        {
            "outcome": numbers,
            "samples": [f"{number:,}" for number in numbers.values()],
            "share": [f"{number / counts.samples:.1%}" for number in numbers.values()],
        }
    )


def winners(decision: Decision) -> Table:
    """Return the models that are best at some k: where each is "best", and where "tied" with it."""
    names = list(dict.fromkeys(name for leaders in decision.leaders.values() for name in leaders))
    columns = {
        str(k): ["best" if name == best else "tied" if name in tied else "" for name in names]
        for k, (best, *tied) in decision.leaders.items()
    }
    marked = {k: [Cell(word, mark=word) for word in words] for k, words in columns.items()}
    return table_of({"best of N": names, **marked})
