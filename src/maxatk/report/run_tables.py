"""The tables about the runs of a report: scores, verdict, samples, settings; and what they lack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from maxatk.check import one_of, require, several
from maxatk.evaluation.results import METRICS, RETRIED, Counts, Results
from maxatk.records import Outcome
from maxatk.report import tables
from maxatk.report.comparison import Comparison, Run
from maxatk.report.decision import Decision
from maxatk.report.load_runs import Reading, Runs, comparison_of
from maxatk.report.paired_tests import Measure
from maxatk.report.tables import Cell, Table, table_of, table_of_rows

KS = (1, 8, 32, 128)
RETRY_CAPTION = (
    "k tries; each that fails a visible test is made once more, without being told what failed"
)
# Heading, decimals and value of what is said of the samples of a run, beside their counts: means
# over the problems, completions or tokens that the heading names.
SAMPLES_COLUMNS: tuple[tuple[str, int, Callable[[Results], float | None]], ...] = (
    ("different completions per problem", 1, lambda results: results.diversity.distinct),
    ("different programs per problem", 1, lambda results: results.diversity.programs),
    ("nats of programs per problem", 2, lambda results: results.diversity.program_entropy),
    (
        "nats per completion",
        2,
        lambda results: results.entropy.sequence.mean if results.entropy else None,
    ),
    ("nats per token", 2, lambda results: results.entropy.token_mean if results.entropy else None),
    (
        "tokens per completion",
        1,
        lambda results: results.entropy.tokens_mean if results.entropy else None,
    ),
)


def overview_table(
    results: Runs, *, ks: Sequence[int] = (), metrics: Sequence[str] = METRICS
) -> Table:
    """Return the metrics of every run at `ks`, else at `KS`; raises as `load_comparison`.

    A run with visible tests has a row more, for max@k with a blind retry (`retried_max_at_k`).
    """
    several("k", ks, "integers")
    several("metrics", metrics, "metrics")
    comparison = comparison_of(results, Reading(k=tuple(ks)))
    for metric in metrics:
        one_of("metrics", metric, (*METRICS, *comparison.selections))
    shown_ks = comparison.shown_ks(ks or KS)
    measures = [Measure("", metric, k) for metric in metrics for k in shown_ks]
    scores = scores_table({"": comparison}, measures)
    retries = [
        _retry_row(run, measures)
        for run in comparison.runs
        if any(k in run.results.metrics.get(RETRIED, {}) for k in shown_ks)
    ]
    # A column behind those of the measures says what lacks a reward: the run's row has said so.
    width = len(scores.header)
    padded_retries = [[*row, *["–"] * (width - len(row))] for row in retries]
    return table_of_rows(scores.header, [*scores.rows, *padded_retries])


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
        if any(run_counts.unscored + run_counts.zeroed for run_counts in counts):
            columns[f"{name} samples without a reward".strip()] = [
                _lacking(run_counts) for run_counts in counts
            ]
    return table_of(columns)


def _lacking(counts: Counts) -> str:
    number = counts.unscored + counts.zeroed
    return f"{number:,} ({number / counts.samples:.1%})"


def retry_table(comparison: Comparison) -> Table:
    """Return max@k of every run that has a blind retry, and below it that with the retry.

    It has no rows where no run has one.
    """
    runs = [run for run in comparison.runs if RETRIED in run.results.metrics]
    # Of the k that all runs have: one of more samples has a retry at some that others lack.
    ks = [k for k in comparison.ks if any(k in run.results.metrics[RETRIED] for run in runs)]
    measures = [Measure("", "max@k", k) for k in ks]
    rows: list[list[Cell | str]] = []
    for run in runs:
        cells_of_run = [tables.mean_cell(run.metric("max@k", k)) for k in ks]
        rows.append([run.name, *cells_of_run])
        rows.append(_retry_row(run, measures))
    headings = [measure.name for measure in measures]
    return table_of_rows(("model", *headings), rows)


def _retry_row(run: Run, measures: Sequence[Measure]) -> list[Cell | str]:
    """Return the row of a run's blind retry, a dash in the columns for which it has none."""
    retried = run.results.metrics[RETRIED]
    row: list[Cell | str] = [f"{run.name}, retry after a failed visible test"]
    for measure in measures:
        if measure.metric == "max@k" and measure.k in retried:
            row.append(tables.mean_cell(retried[measure.k], of=run.problems))
        else:
            row.append("–")
    return row


def groups_table(groups: Mapping[str, Results], *, heading: str, ks: Sequence[int]) -> Table:
    """Return max@k and pass@k over groups of problems, one row a group; nothing is compared."""
    comparison = Comparison(tuple(Run(name, results) for name, results in groups.items()))
    columns: dict[str, Iterable[Cell | str]] = {heading: groups}
    for metric in METRICS:
        for k in comparison.shown_ks(ks):
            cells = [tables.mean_cell(run.metric(metric, k)) for run in comparison.runs]
            columns[Measure("", metric, k).name] = cells
    return table_of(columns)


def samples_table(comparison: Comparison) -> Table:
    """Return what became of the samples: counts, outcomes, different completions, entropy."""
    runs = [run.results for run in comparison.runs]
    counts = [results.counts for results in runs]
    columns = {
        "model": comparison.names,
        "problems": [f"{run_counts.problems:,}" for run_counts in counts],
        "samples": [f"{run_counts.samples:,}" for run_counts in counts],
    }
    for outcome in sorted({outcome for run_counts in counts for outcome in run_counts.outcomes}):
        heading = outcome.replace("_", " ")
        columns[heading] = [f"{run_counts.outcomes.get(outcome, 0):,}" for run_counts in counts]
    columns["unscored"] = [f"{run_counts.unscored:,}" for run_counts in counts]
    cut_off = [results.cut_off for results in runs]
    if any(share is not None for share in cut_off):
        columns["samples cut off"] = ["" if share is None else f"{share:.1%}" for share in cut_off]
    for heading, digits, value in SAMPLES_COLUMNS:
        columns[heading] = [tables.decimal(value(results), digits) for results in runs]
    return table_of(columns)


def outcomes_table(results: Results) -> Table:
    """Return one row an outcome that occurred, and last all samples without a reward.

    They have no row of their own where there are none, or the row `no_reward` has all of them.
    """
    require(isinstance(results, Results), "results", "Results", results)
    counts = results.counts
    numbers = {}
    for outcome in map(str, Outcome):
        if outcome in counts.outcomes:
            numbers[outcome] = counts.outcomes[outcome]
    if counts.unscored != numbers.get(Outcome.NO_REWARD.value, 0):
        numbers["all without a reward"] = counts.unscored
    return table_of(
        {
            "outcome": numbers,
            "samples": [f"{number:,}" for number in numbers.values()],
            "share": [f"{number / counts.samples:.1%}" for number in numbers.values()],
        }
    )


def winners(decision: Decision) -> Table:
    """Return the models that are best at some k: where each is "best", and where "tied" with it."""
    names: list[str] = []  # in the order in which they lead, from the smallest k on
    for leaders in decision.leaders.values():
        names += [name for name in leaders if name not in names]
    columns: dict[str, Sequence[Cell | str]] = {"best of N": names}
    for k, leaders in decision.leaders.items():
        best = decision.best_at(k)
        cells = []
        for name in names:
            word = ""
            if name in best:
                word = "best"
            elif name in leaders:
                word = "tied"
            cells.append(Cell(word, mark=word))
        columns[str(k)] = cells
    return table_of(columns)
