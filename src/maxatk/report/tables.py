"""Tables: cells and columns, how numbers are written, and the text of other programs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from maxatk.errors import counted
from maxatk.evaluation.results import Mean
from maxatk.statistics.intervals import FEW_PROBLEMS

MINUS = "−"
STAR = "*"
TidyRow: TypeAlias = Mapping[str, Any]  # for programs, one number a field


@dataclasses.dataclass(frozen=True)
class Cell:
    """One cell: its text, a second line, and how it stands.

    `mark` is "best" or "second" of its column, "tied" where a test does not tell it from the best,
    "above" or "below" for a difference that can be told from zero, else "". `shade` goes from the
    lowest (0) to the highest (1) of a column. `note` says what the value rests on, where others
    rest on more. `starred` says that the value is significant.
    """

    text: str
    detail: str = ""
    mark: str = ""
    shade: float | None = None
    note: str = ""
    link: str = ""
    starred: bool = False

    @property
    def large(self) -> str:
        """The first line: the text, with a star where it has one."""
        return self.text + STAR if self.starred else self.text

    @property
    def small(self) -> str:
        """The second line, and the note in brackets."""
        note = f"({self.note})" if self.note else ""
        return f"{self.detail} {note}".strip()


@dataclasses.dataclass(frozen=True)
class Table:
    """A header and rows of its length; the first cell of a row is its name."""

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def table_of(columns: Mapping[str, Iterable[Cell | str]]) -> Table:
    """Return the table of columns of one length by their headings; a text is a cell as well."""
    return table_of_rows(columns, zip(*columns.values(), strict=True))


def table_of_rows(header: Iterable[str], rows: Iterable[Iterable[Cell | str]]) -> Table:
    """Return the table of a header and its rows; a text is a cell as well."""
    as_cells = [
        tuple(Cell(cell) if isinstance(cell, str) else cell for cell in row) for row in rows
    ]
    return Table(tuple(header), tuple(as_cells))


def transposed(table: Table) -> Table:
    """Return the table with its columns as rows, without those whose cells are all empty."""
    (corner, *names), *columns = zip(table.header, *table.rows, strict=True)
    rows = []
    for heading, *cells in columns:
        if any(cell.text not in ("", "–") for cell in cells):
            rows.append((heading, *cells))
    return table_of_rows((corner, *(name.text for name in names)), rows)


def metric_cells(
    means: Mapping[str, Mean], *, of: int, starred: str = "", shade: bool = False
) -> list[Cell]:
    """Return the column of a metric over `of` problems by model, shaded or its best two marked."""
    values = [mean.mean for mean in means.values()]
    marks = ranks(values)
    shades = shaded(values)
    cells = []
    for (name, mean), mark, shade_of_value in zip(means.items(), marks, shades, strict=True):
        cell = mean_cell(mean, of=of)
        cell = dataclasses.replace(cell, starred=name == starred)
        if shade:
            cell = dataclasses.replace(cell, shade=shade_of_value)
        else:
            cell = dataclasses.replace(cell, mark=mark)
        cells.append(cell)
    return cells


def mean_cell(mean: Mean, *, of: int = 0) -> Cell:
    """Return the cell of a mean, with a note where it rests on less than `of` problems."""
    notes = []
    if mean.problems < of:
        notes.append(counted(mean.problems))
    # Problems at the ceiling do not vary: with few others an interval is too narrow.
    below = mean.below
    if below is not None and below < FEW_PROBLEMS and 2 * below < mean.problems:
        notes.append(f"{counted(below)} below 1")
    return Cell(three_decimals(mean.mean), interval(mean.low, mean.high), note=", ".join(notes))


def ranks(means: Sequence[float | None]) -> list[str]:
    """Return the mark of every value of a column: "best", "second" or ""; none where all agree."""
    # Ranked as they are printed: two equal numbers on the page never get different marks.
    printed = [None if mean is None else round(mean, 3) for mean in means]
    highest_first = sorted({mean for mean in printed if mean is not None}, reverse=True)
    if len(set(printed)) < 2:
        return [""] * len(means)  # one model alone is not the best, nor are all of them
    marks = []
    for mean in printed:
        if mean in highest_first[:1]:
            marks.append("best")
        elif mean in highest_first[1:2]:
            marks.append("second")
        else:
            marks.append("")
    return marks


def shaded(values: Sequence[float | None]) -> list[float | None]:
    """Return the place of every value from the lowest (0) to the highest (1), if they differ."""
    numbers = [value for value in values if value is not None]
    low = min(numbers, default=0.0)
    high = max(numbers, default=0.0)
    if low == high:
        return [None] * len(values)
    return [None if value is None else (value - low) / (high - low) for value in values]


def three_decimals(value: float | None) -> str:
    """Return a number with three decimals, as `0.123`; a dash where there is none."""
    if value is None or math.isnan(value):
        return "–"
    text = f"{abs(value):.3f}"
    return MINUS + text if value < 0 and text != "0.000" else text


def change(value: float | None) -> str:
    """Return a difference with its sign, as `+0.123`; zero has none, a missing one is a dash."""
    text = three_decimals(value)
    return text if text.startswith(MINUS) or text in ("–", "0.000") else "+" + text


def intervals_note(problems: int) -> str:
    """Return what the intervals of a table are taken over."""
    if problems == 1:
        return "one problem, which has no interval: it says nothing of others"
    return "95% intervals over problems"


def interval(low: float | None, high: float | None) -> str:
    """Return the interval of a metric as `[0.120, 0.140]`; nothing where there is none."""
    return "" if low is None or high is None else f"[{three_decimals(low)}, {three_decimals(high)}]"


def change_interval(low: float | None, high: float | None) -> str:
    """Return the interval of a difference as `[+0.120, +0.140]`; a dash where there is none."""
    return "–" if low is None or high is None else f"[{change(low)}, {change(high)}]"


def p_value(value: float | None) -> str:
    """Return a p-value as `0.039`, or `<0.001`; a dash where there is none."""
    return "<0.001" if value is not None and value < 0.0005 else three_decimals(value)


def decimal(value: float | None, digits: int) -> str:
    """Return a number with so many decimals, as `12.45`; a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"
