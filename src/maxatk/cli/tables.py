"""Tables of the commands: on the terminal for people, as JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from maxatk.errors import InvalidValueError
from maxatk.report import Cell, Table
from maxatk.report.tidy import TidyRow, as_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

OutputFormat: TypeAlias = Literal["text", "json"]
"""What a command that prints a table takes as `--format`."""

_STYLES = {"best": "bold", "second": "underline", "above": "green", "below": "red", "": ""}
_FRAME = 3  # characters of a column beside its text
_FOOTNOTES = {"best": "¹", "second": "²"}


def print_json(tables: Mapping[str, Sequence[TidyRow]]) -> None:
    """Print tables as one JSON object in ASCII: a list of rows, one number a field, by name.

    A number that does not exist is null. Nothing else may be written to standard output.
    """
    print(as_json(tables), end="")  # noqa: T201


def refuse_two_outputs(output_format: str, progress: str) -> None:
    """Raise InvalidValueError where both the table and the progress are to be JSON."""
    if output_format == "json" and progress == "json":
        raise InvalidValueError(
            "--progress: json and the table as JSON would both be written to standard output; "
            "give one of them"
        )


def print_table(table: Table, *, title: str) -> None:
    """Print a table with its best cells bold and the second best underlined.

    On a terminal that is too narrow the columns are printed in several tables, each with the first
    column: no number is cut. Where standard output is not a terminal the table is as wide as it
    needs to be, and footnote marks stand for the styles.
    """
    from rich.console import Console

    styled = sys.stdout.isatty()
    marks = {cell.mark for row in table.rows for cell in row}
    if not styled and marks & _FOOTNOTES.keys():
        title += "\n¹ best, ² second best"  # a line of its own: a caption is as wide as its table
    terminal = Console() if styled else Console(width=10_000)
    parts = _fitting(table, terminal.width) if styled else [table]
    for part in parts:
        shown = _shown(part, title if part is parts[-1] else None, styled=styled)
        if not styled:
            terminal = Console(width=max(160, terminal.measure(shown).maximum))
        terminal.print(shown)


def _shown(table: Table, title: str | None, *, styled: bool) -> RichTable:
    from rich.markup import escape
    from rich.table import Table as RichTable

    shown = RichTable(caption=title, caption_justify="left")
    for place, name in enumerate(table.header):
        shown.add_column(escape(name), overflow="fold", min_width=_widths(table)[place] or None)
    for row in table.rows:
        shown.add_row(*(_text(cell, styled=styled) for cell in row))
    return shown


def _fitting(table: Table, width: int) -> list[Table]:
    """Return the table as tables of some of its columns, each of which fits the width."""
    widths = [found + _FRAME for found in _widths(table)]
    first = max([len(table.header[0]), *(len(row[0].text) for row in table.rows)]) + _FRAME
    groups: list[list[int]] = [[]]
    for place in range(1, len(widths)):
        taken = min(first, width // 2) + 1 + sum(widths[p] for p in groups[-1])
        if groups[-1] and taken + widths[place] > width:
            groups.append([])
        groups[-1].append(place)
    return [
        Table(
            tuple(table.header[p] for p in (0, *group)),
            tuple(tuple(row[p] for p in (0, *group)) for row in table.rows),
        )
        for group in groups
    ]


def _widths(table: Table) -> list[int]:
    """Return how wide every column must be for its numbers; 0 for the first, which may be folded.

    Notes may go to further lines, so that they count for nothing.
    """
    columns = zip(table.header, *table.rows, strict=True)
    needed = [
        max(len(str(name)), *(max(len(cell.text), len(cell.detail)) for cell in cells), 0)
        for name, *cells in columns
    ]
    return [0, *needed[1:]]


def _text(cell: Cell, *, styled: bool) -> str:
    from rich.markup import escape

    style = _STYLES[cell.mark] if styled else ""
    text = escape(cell.text) + ("" if styled else _FOOTNOTES.get(cell.mark, ""))
    text = f"[{style}]{text}[/{style}]" if style else text
    small = " ".join(filter(None, (cell.detail, cell.note and f"({cell.note})")))
    return f"{text}\n[dim]{escape(small)}[/dim]" if small else text


def console() -> Console:
    """Return the terminal, or 160 columns where standard output is something else."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 160)
