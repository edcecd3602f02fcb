"""What a table is made of: cells, columns, and the table that refuses rows of another length."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from maxatk.errors import InvalidValueError
from maxatk.evaluation.statistics.intervals import FEW_PROBLEMS
from maxatk.report.numbers import decimal, interval, share

STAR = "*"
Row = TypeVar("Row")


@dataclasses.dataclass(frozen=True)
class Cell:
    """One cell: its text, a second line, and how it stands.

    `mark` is "best" or "second" of its column, "above" or "below" for a difference that can be
    told from zero, and "" otherwise. `shade` is the place of its value between the lowest (0) and
    the highest (1) of its column, or None where the column is not shaded. `note` says what the
    value rests on, where that is not what the rest of the table rests on.
    """

    text: str
    detail: str = ""
    mark: str = ""
    shade: float | None = None
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Table:
    """A header and rows of equal length; the first cell of a row is its name.

    Raises InvalidValueError for a row of another length than the header.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise InvalidValueError(
                    f"table: the row {[cell.text for cell in row]} has {len(row)} cells, the "
                    f"header {list(self.header)} has {len(self.header)}"
                )


@dataclasses.dataclass(frozen=True)
class Column(Generic[Row]):
    """One column of a table: its heading, and how it makes its cell of a row."""

    heading: str
    cell: Callable[[Row], Cell]


def tabulate(columns: Sequence[Column[Row]], rows: Sequence[Row]) -> Table:
    """Return the table of these columns with a line for every row."""
    return Table(
        tuple(column.heading for column in columns),
        tuple(tuple(column.cell(row) for column in columns) for row in rows),
    )


def text_column(heading: str, text: Callable[[Row], str]) -> Column[Row]:
    """Return the column of a text."""
    return Column(heading, lambda row: Cell(text(row)))


def number_column(
    heading: str, value: Callable[[Row], float | None], *, digits: int
) -> Column[Row]:
    """Return the column of a number with so many decimals; a dash where it is None."""
    return Column(heading, lambda row: Cell(decimal(value(row), digits)))


def ranked_column(
    heading: str, means: Mapping[str, Mapping[str, Any]], *, of: int, starred: str = ""
) -> Column[str]:
    """Return the column of a metric by the names of models, best and second best marked.

    `means` are the entries of `metrics` in results objects, `of` is the number of problems that
    the table is about, and the model `starred` gets a star.
    """
    marks = dict(zip(means, ranks([found["mean"] for found in means.values()]), strict=True))

    def cell(name: str) -> Cell:
        found = means[name]
        text = share(found["mean"]) + (STAR if name == starred else "")
        detail = interval(found["low"], found["high"])
        return Cell(text, detail, marks[name], note=rests_on(found, of=of))

    return Column(heading, cell)


def shaded_column(heading: str, means: Mapping[str, Mapping[str, Any]], *, of: int) -> Column[str]:
    """Return the column of a metric as `ranked_column` does, shaded instead of marked."""
    shades = dict(zip(means, shaded([found["mean"] for found in means.values()]), strict=True))

    def cell(name: str) -> Cell:
        found = means[name]
        detail = interval(found["low"], found["high"])
        note = rests_on(found, of=of)
        return Cell(share(found["mean"]), detail, shade=shades[name], note=note)

    return Column(heading, cell)


def rests_on(found: Mapping[str, Any], *, of: int) -> str:
    """Return what the mean of a metric rests on where that is less than `of` problems, or "".

    Fewer problems, since the others have too few scored samples; or the few that are below 1,
    since most are at this ceiling, where more samples cannot move them.
    """
    notes = []
    if found["problems"] < of:
        notes.append(f"{found['problems']:,} problems")
    below = found.get("below")  # the committed studies are older than this count
    if below is not None and below < FEW_PROBLEMS and 2 * below < found["problems"]:
        notes.append(f"{below} problem{'' if below == 1 else 's'} below 1")
    return ", ".join(notes)


def ranks(means: Sequence[float | None]) -> list[str]:
    """Return the mark of every value of a column: "best", "second" or ""."""
    # Ranked as they are printed: two equal numbers on the page never get different marks.
    printed = [None if mean is None else round(mean, 3) for mean in means]
    order = sorted({mean for mean in printed if mean is not None}, reverse=True)
    if len(means) < 2:
        return [""] * len(means)
    marks = dict(zip(order, ("best", "second"), strict=False))
    return ["" if mean is None else marks.get(mean, "") for mean in printed]


def shaded(values: Sequence[float | None]) -> list[float | None]:
    """Return the place of every value between the lowest (0) and the highest (1) of them.

    All are None where there are fewer than two different values.
    """
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    if low == high:
        return [None] * len(values)
    return [None if value is None else (value - low) / (high - low) for value in values]
