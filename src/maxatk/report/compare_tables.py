"""The tables of a comparison of models."""

from __future__ import annotations

from collections.abc import Sequence

from maxatk.report.comparing import ModelComparison, PairedTest
from maxatk.report.numbers import change, change_interval, interval, p_value, share
from maxatk.report.tables import Cell, Table, ranks

STAR = "*"


def scores_table(compared: ModelComparison) -> Table:
    """Return one row a model, one column a benchmark and metric, as Tables 2 and 3 of the paper.

    The best and the second best of a column are marked; a star follows a best value that is
    significantly above the second best.
    """
    stars = {test.column: test.first for test in compared.leaders if test.significant}
    marks = {
        column: ranks([compared.value(name, column)["mean"] for name in compared.names])
        for column in compared.columns
    }
    rows = []
    for row, name in enumerate(compared.names):
        cells = [Cell(name)]
        for column in compared.columns:
            found = compared.value(name, column)
            star = STAR if stars.get(column) == name else ""
            detail = interval(found["low"], found["high"])
            cells.append(Cell(share(found["mean"]) + star, detail, marks[column][row]))
        rows.append(tuple(cells))
    return Table(("model", *(column.name for column in compared.columns)), tuple(rows))


def leaders_table(compared: ModelComparison) -> Table:
    """Return the test behind every star: the best of a column against the second best."""
    return tests_table("best − second best", compared.leaders)


def differences_table(compared: ModelComparison) -> Table:
    """Return the test of every other model against the baseline, column by column."""
    return tests_table("model − baseline", compared.differences)


def tests_table(heading: str, tests: Sequence[PairedTest]) -> Table:
    """Return one row a test; `heading` says what is subtracted from what."""
    rows = []
    for test in tests:
        mark = "" if not test.significant else "above" if test.difference > 0 else "below"
        star = STAR if test.significant else ""
        rows.append(
            (
                Cell(f"{test.first} − {test.second}"),
                Cell(test.column.name),
                Cell(change(test.difference) + star, mark=mark),
                Cell(change_interval(test.low, test.high)),
                Cell(f"{test.problems:,}"),
                Cell(f"{test.zeros:,}"),
                Cell(p_value(test.p)),
                Cell(p_value(test.adjusted_p)),
            )
        )
    last = ("95% interval", "problems", "equal", "p", "adjusted p")
    return Table((heading, "metric", "difference", *last), tuple(rows))
