"""The tables of a report, as plain rows: for the page, and for a terminal."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from maxatk.records import Outcome
from maxatk.report.numbers import change, change_interval, interval, share
from maxatk.report.runs import METRICS, Comparison, ResultsSource, load_comparison

KS = (1, 8, 32, 128)
_DIVERSITY = {"distinct": 1, "programs": 1, "program_entropy": 2}  # with their decimals


@dataclasses.dataclass(frozen=True)
class Cell:
    """One cell: its text, a second line, and how it stands.

    `mark` is "best" or "second" of its column, "above" or "below" for a difference whose
    interval excludes zero, and "" otherwise. `shade` is the place of its value between the lowest
    (0) and the highest (1) of its column, or None where the column is not shaded.
    """

    text: str
    detail: str = ""
    mark: str = ""
    shade: float | None = None


@dataclasses.dataclass(frozen=True)
class Table:
    """A header and rows of equal length; the first cell of a row is its name."""

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def overview_table(
    results: Mapping[str, ResultsSource], *, ks: Sequence[int] = KS, baseline: str | None = None
) -> Table:
    """Return max@k and pass@k of every run with 95% intervals, best and second best marked.

    Rows are runs, columns metrics at k as in Tables 2 and 3 of "The Best of N Worlds". Raises as
    `load_comparison`.
    """
    return overview(load_comparison(results, baseline=baseline), ks)


def overview(comparison: Comparison, ks: Sequence[int] = KS) -> Table:
    """Return the table of `overview_table` for a loaded comparison."""
    shown = comparison.shown_ks(ks)
    columns = [(metric, k) for metric in METRICS for k in shown]
    marks = {
        (metric, k): ranks([run.metric(metric, k)["mean"] for run in comparison.runs])
        for metric, k in columns
    }
    rows = []
    for row, run in enumerate(comparison.runs):
        cells = [Cell(run.name)]
        for metric, k in columns:
            found = run.metric(metric, k)
            detail = interval(found["low"], found["high"])
            cells.append(Cell(share(found["mean"]), detail, marks[metric, k][row]))
        rows.append(tuple(cells))
    return Table(("model", *_names(columns)), tuple(rows))


def every_k(comparison: Comparison, metric: str) -> Table:
    """Return a metric of every run at every k, shaded by column as Tables 5 to 14 of the paper."""
    names = [run.name for run in comparison.runs]
    columns = [[run.metric(metric, k) for run in comparison.runs] for k in comparison.ks]
    shades = [shaded([found["mean"] for found in column]) for column in columns]
    rows = [
        (
            Cell(name),
            *(
                Cell(
                    share(column[row]["mean"]),
                    interval(column[row]["low"], column[row]["high"]),
                    shade=shade[row],
                )
                for column, shade in zip(columns, shades, strict=True)
            ),
        )
        for row, name in enumerate(names)
    ]
    return Table(("model", *_names([(metric, k) for k in comparison.ks])), tuple(rows))


def shaded(values: Sequence[float | None]) -> list[float | None]:
    """Return the place of every value between the lowest (0) and the highest (1) of them.

    All are None where there are fewer than two different values.
    """
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    if low == high:
        return [None] * len(values)
    return [None if value is None else (value - low) / (high - low) for value in values]


def differences(comparison: Comparison, ks: Sequence[int] = KS) -> Table:
    """Return the paired difference of every other run to the baseline, with 95% intervals."""
    shown = comparison.shown_ks(ks)
    rows = []
    for run in comparison.others:
        cells = [Cell(run.name)]
        for metric in METRICS:
            found = comparison.difference(run, metric, shown)
            for mean, low, high in zip(found.mean, found.low, found.high, strict=True):
                mark = "above" if low > 0 else "below" if high < 0 else ""
                cells.append(Cell(change(mean), change_interval(low, high), mark))
        rows.append(tuple(cells))
    return Table(("model", *_names([(m, k) for m in METRICS for k in shown])), tuple(rows))


def samples_table(comparison: Comparison) -> Table:
    """Return what became of the samples: counts, outcomes, distinct completions, entropy."""
    outcomes = sorted({o for run in comparison.runs for o in run.results["counts"]["outcomes"]})
    rows = []
    for run in comparison.runs:
        counts, entropy = run.results["counts"], run.results["entropy"]
        diversity = run.results["diversity"]
        cells = [
            Cell(run.name),
            Cell(f"{counts['samples']:,}"),
            *(Cell(f"{counts['outcomes'].get(outcome, 0):,}") for outcome in outcomes),
            Cell(f"{counts['unscored']:,}"),
            *(Cell(_mean(diversity.get(name), digits)) for name, digits in _DIVERSITY.items()),
            Cell(f"{entropy['sequence']['mean']:.2f}" if entropy else "–"),
            Cell(f"{entropy['token_mean']:.2f}" if entropy else "–"),
            Cell(f"{entropy['tokens_mean']:.1f}" if entropy else "–"),
        ]
        rows.append(tuple(cells))
    names = [outcome.replace("_", " ") for outcome in outcomes]
    last = (
        "distinct per problem",
        "programs per problem",
        "nats of programs",
        "nats per completion",
        "nats per token",
        "tokens",
    )
    return Table(("model", "samples", *names, "unscored", *last), tuple(rows))


def outcomes_table(results: Mapping[str, Any]) -> Table:
    """Return one row an outcome of `Outcome`: samples with it and their share of all samples.

    The last row counts the unscored samples, those of the verifier's own failures: they are
    left out of every metric.
    """
    counts = results["counts"]
    numbers = {str(outcome): counts["outcomes"].get(str(outcome), 0) for outcome in Outcome}
    numbers["unscored"] = counts["unscored"]
    rows = [
        (Cell(name), Cell(f"{number:,}"), Cell(f"{number / counts['samples']:.1%}"))
        for name, number in numbers.items()
    ]
    return Table(("outcome", "samples", "share"), tuple(rows))


def problems_table(comparison: Comparison, k: int, metric: str = "max@k") -> Table:
    """Return one row a problem: the baseline's value at k and the others' differences to it."""
    values = [run.values(metric, [k])[:, 0] for run in comparison.runs]
    rows = []
    for row, problem_id in enumerate(comparison.problem_ids):
        first = float(values[0][row])
        cells = [Cell(problem_id), Cell(share(first))]
        for other in values[1:]:
            moved = float(other[row]) - first
            mark = "above" if moved >= 0.0005 else "below" if moved <= -0.0005 else ""
            cells.append(Cell(change(moved), mark=mark))
        rows.append(tuple(cells))
    names = [f"{run.name} − {comparison.baseline.name}" for run in comparison.others]
    return Table(("problem", comparison.baseline.name, *names), tuple(rows))


def _names(columns: Sequence[tuple[str, int]]) -> list[str]:
    return [f"{metric.removesuffix('k')}{k}" for metric, k in columns]


def _mean(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def ranks(means: Sequence[float | None]) -> list[str]:
    """Return the mark of every value of a column: "best", "second" or ""."""
    # Ranked as they are printed: two equal numbers on the page never get different marks.
    printed = [None if mean is None else round(mean, 3) for mean in means]
    order = sorted({mean for mean in printed if mean is not None}, reverse=True)
    if len(means) < 2:
        return [""] * len(means)
    marks = dict(zip(order, ("best", "second"), strict=False))
    return ["" if mean is None else marks.get(mean, "") for mean in printed]
