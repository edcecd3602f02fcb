"""Tables: cells and columns, how numbers are written, and the text of other programs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from maxatk.evaluation.results import Mean
from maxatk.statistics.intervals import FEW_PROBLEMS

MINUS = "−"
STAR = "*"
TidyRow: TypeAlias = Mapping[str, Any]  # for programs, one number a field


@dataclasses.dataclass(frozen=True)
class Cell:
    """One cell: its text, a second line, and how it stands.

    `mark` is "best" or "second" of its column, "above" or "below" for a difference that can be
    told from zero, else "". `shade` goes from the lowest (0) to the highest (1) of a column. `note`
    says what the value rests on, where others rest on more.
    """

    text: str
    detail: str = ""
    mark: str = ""
    shade: float | None = None
    note: str = ""
    link: str = ""

    @property
    def small(self) -> str:
        """The second line, and the note in brackets."""
        return " ".join(filter(None, (self.detail, self.note and f"({self.note})")))


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
    cells = ((Cell(cell) if isinstance(cell, str) else cell for cell in row) for row in rows)
    return Table(tuple(header), tuple(map(tuple, cells)))


def transposed(table: Table) -> Table:
    """Return the table with its columns as rows, those left out that say nothing of any row."""
    names, *columns = zip(table.header, *table.rows, strict=True)
    telling = (one for one in columns if any(cell.text not in ("", "–") for cell in one[1:]))
    return table_of_rows((names[0], *(cell.text for cell in names[1:])), telling)


def metric_cells(
    means: Mapping[str, Mean], *, of: int, starred: str = "", shade: bool = False
) -> list[Cell]:
    """Return the column of a metric over `of` problems by model, shaded or its best two marked."""
    values = [found.mean for found in means.values()]
    marks = [""] * len(values) if shade else ranks(values)
    shades = shaded(values) if shade else [None] * len(values)
    cells = []
    for (name, mean), mark, place in zip(means.items(), marks, shades, strict=True):
        found = mean_cell(mean, of=of)
        text = found.text + STAR * (name == starred)
        cells.append(dataclasses.replace(found, text=text, mark=mark, shade=place))
    return cells


def mean_cell(found: Mean, *, of: int = 0) -> Cell:
    """Return the cell of a mean, with a note where it rests on less than `of` problems."""
    notes = []
    if found.problems < of:
        notes.append(counted(found.problems))
    below = found.below
    if below is not None and below < FEW_PROBLEMS and 2 * below < found.problems:
        notes.append(f"{counted(below)} below 1")
    return Cell(share(found.mean), interval(found.low, found.high), note=", ".join(notes))


def ranks(means: Sequence[float | None]) -> list[str]:
    """Return the mark of every value of a column: "best", "second" or ""."""
    # Ranked as they are printed: two equal numbers on the page never get different marks.
    printed = [None if mean is None else round(mean, 3) for mean in means]
    order = sorted({mean for mean in printed if mean is not None}, reverse=True)
    marks = dict(zip(order if len(means) > 1 else [], ("best", "second"), strict=False))
    return ["" if mean is None else marks.get(mean, "") for mean in printed]


def shaded(values: Sequence[float | None]) -> list[float | None]:
    """Return the place of every value from the lowest (0) to the highest (1), if they differ."""
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    if low == high:
        return [None] * len(values)
    return [None if value is None else (value - low) / (high - low) for value in values]


def counted(problems: int) -> str:
    """Return how many problems there are, as `1 problem`."""
    return f"{problems:,} problem{'' if problems == 1 else 's'}"


def share(value: float | None) -> str:
    """Return a value of a metric as `0.123`; a dash where there is none."""
    if value is None or math.isnan(value):
        return "–"
    text = f"{abs(value):.3f}"
    return MINUS + text if value < 0 and text != "0.000" else text


def change(value: float | None) -> str:
    """Return a difference with its sign, as `+0.123`; zero has none, a missing one is a dash."""
    text = share(value)
    return text if text.startswith(MINUS) or text in ("–", "0.000") else "+" + text


def interval(low: float | None, high: float | None) -> str:
    """Return the interval of a metric as `[0.120, 0.140]`."""
    return f"[{share(low)}, {share(high)}]"


def change_interval(low: float | None, high: float | None) -> str:
    """Return the interval of a difference as `[+0.120, +0.140]`; a dash where there is none."""
    return "–" if low is None or high is None else f"[{change(low)}, {change(high)}]"


def p_value(value: float | None) -> str:
    """Return a p-value as `0.039`, or `<0.001`; a dash where there is none."""
    return "<0.001" if value is not None and value < 0.0005 else share(value)


def decimal(value: float | None, digits: int) -> str:
    """Return a number with so many decimals, as `12.45`; a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"
