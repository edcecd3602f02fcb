"""The tables about the runs of a report: scores, verdict, samples, settings; and what they lack."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from maxatk.evaluation.results import METRICS, Results
from maxatk.records import Outcome
from maxatk.report import tables
from maxatk.report.comparison import Comparison, Reading, Run, Runs, comparison_of
from maxatk.report.decision import Decision
from maxatk.report.paired_tests import Measure
from maxatk.report.tables import Cell, Table, table_of

KS = (1, 8, 32, 128)
# Heading, decimals and value of what is said of the samples of a run, beside their counts.
SAMPLES_COLUMNS: tuple[tuple[str, int, Callable[[Results], float | None]], ...] = (
    ("distinct per problem", 1, lambda of: of.diversity.distinct),
    ("programs per problem", 1, lambda of: of.diversity.programs),
    ("nats of programs", 2, lambda of: of.diversity.program_entropy),
    ("nats per completion", 2, lambda of: of.entropy.sequence.mean if of.entropy else None),
    ("nats per token", 2, lambda of: of.entropy.token_mean if of.entropy else None),
    ("tokens", 1, lambda of: of.entropy.tokens_mean if of.entropy else None),
)


def overview_table(results: Runs, *, ks: Sequence[int] = ()) -> Table:
    """Return max@k and pass@k of every run at `ks`, else at `KS`; raises as `load_comparison`."""
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

    The best two of a column are marked, or it is shaded; `stars` has the models with a star.
    """
    columns: dict[str, Sequence[Cell | str]] = {"model": next(iter(comparisons.values())).names}
    for measure in measures:
        comparison = comparisons[measure.benchmark]
        columns[measure.name] = tables.metric_cells(
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
    found = Comparison(tuple(Run(name, results) for name, results in groups.items()))
    columns = {
        Measure("", metric, k).name: [tables.mean_cell(run.metric(metric, k)) for run in found.runs]
        for metric in METRICS
        for k in found.shown_ks(ks)
    }
    return table_of({heading: groups, **columns})


def samples_table(comparison: Comparison) -> Table:
    """Return what became of the samples: counts, outcomes, distinct completions, entropy."""
    found = [run.results for run in comparison.runs]
    columns = {"model": comparison.names, "samples": [f"{one.counts.samples:,}" for one in found]}
    for name in sorted({outcome for one in found for outcome in one.counts.outcomes}):
        columns[name.replace("_", " ")] = [f"{of.counts.outcomes.get(name, 0):,}" for of in found]
    columns["unscored"] = [f"{one.counts.unscored:,}" for one in found]
    if any(one.cut_off is not None for one in found):
        columns["cut off"] = ["" if one.cut_off is None else f"{one.cut_off:.1%}" for one in found]
    for heading, digits, value in SAMPLES_COLUMNS:
        columns[heading] = [tables.decimal(value(one), digits) for one in found]
    return table_of(columns)


def outcomes_table(results: Results) -> Table:
    """Return one row an outcome that occurred, and last the samples without a reward, if any."""
    counts = results.counts
    found = {**counts.outcomes, **({"unscored": counts.unscored} if counts.unscored else {})}
    numbers = {name: found[name] for name in (*map(str, Outcome), "unscored") if name in found}
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
    columns: dict[str, Sequence[Cell | str]] = {"best of N": names}
    for k, (best, *tied) in decision.leaders.items():
        words = ("best" if name == best else "tied" if name in tied else "" for name in names)
        columns[str(k)] = [Cell(word, mark=word) for word in words]
    return table_of(columns)
