"""The tables of a comparison of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from maxatk.report.cells import STAR, Cell, Column, Table, ranked_column, tabulate, text_column
from maxatk.report.comparing import ModelComparison
from maxatk.report.deciding import Measure, PairedTest
from maxatk.report.numbers import change, change_interval, p_value
from maxatk.report.runs import Comparison


def scores_table(compared: ModelComparison) -> Table:
    """Return one row a model, one column a benchmark and metric, as Tables 2 and 3 of the paper.

    The best and the second best of a column are marked; a star follows a best value that is
    significantly above all others.
    """
    stars = {}
    for measure in compared.measures:
        best, *tied = compared.decisions[measure.benchmark, measure.metric].leaders[measure.k]
        if not tied:
            stars[measure] = best
    return starred_scores(compared.comparisons, compared.measures, stars)


def starred_scores(
    comparisons: Mapping[str, Comparison], measures: Sequence[Measure], stars: Mapping[Measure, str]
) -> Table:
    """Return the table of `scores_table`; `stars` maps a measure to the model that gets one."""
    columns = []
    for measure in measures:
        comparison = comparisons[measure.benchmark]
        means = comparison.means(measure.metric, measure.k)
        of, starred = comparison.baseline.problems, stars.get(measure, "")
        columns.append(ranked_column(measure.name, means, of=of, starred=starred))
    names = [run.name for run in next(iter(comparisons.values())).runs]
    return tabulate([Column("model", Cell), *columns], names)


def leaders_table(compared: ModelComparison) -> Table:
    """Return the tests behind every star: the best of a column against all others."""
    return _tests_table("best − other", compared.leaders)


def differences_table(compared: ModelComparison) -> Table:
    """Return the test of every other model against the baseline, column by column."""
    return _tests_table("model − baseline", compared.differences)


def difference_cell(difference: float, *, significant: bool) -> Cell:
    """Return the cell of a difference: with a star and its direction where it is significant."""
    mark = "" if not significant else "above" if difference > 0 else "below"
    return Cell(change(difference) + (STAR if significant else ""), mark=mark)


def _tests_table(heading: str, tests: Sequence[PairedTest]) -> Table:
    """Return one row a test; `heading` says what is subtracted from what."""
    columns: list[Column[PairedTest]] = [
        text_column(heading, lambda test: f"{test.first} − {test.second}"),
        text_column("metric", lambda test: test.measure.name),
        Column(
            "difference",
            lambda test: difference_cell(test.difference, significant=test.significant),
        ),
        text_column("95% interval", lambda test: change_interval(test.low, test.high)),
        text_column("problems", lambda test: f"{test.problems:,}"),
        text_column("equal", lambda test: f"{test.zeros:,}"),
        text_column("p", lambda test: p_value(test.p)),
        text_column("adjusted p", lambda test: p_value(test.adjusted_p)),
    ]
    return tabulate(columns, tests)
