"""A table on a terminal, where marks are colours, or in a pipe, where they are footnotes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from maxatk.errors import printable
from maxatk.report.tables import Cell, Table, transposed

if TYPE_CHECKING:
    from rich.table import Table as RichTable
    from rich.text import Text

_STYLES = {"best": "bold", "second": "underline", "above": "green", "below": "red", "": ""}
_FOOTNOTES = {"best": "¹", "second": "²"}
_UNBROKEN = 100_000  # characters of a line of a table: more than it has


def print_table(table: Table, title: str) -> None:
    """Print a table with its title below it.

    On a narrow terminal its rows become columns where those are fewer, and texts are folded.
    """
    from rich.console import Console

    if not sys.stdout.isatty():
        marks = {cell.mark for row in table.rows for cell in row}
        if marks & _FOOTNOTES.keys():
            title += "\n¹ best, ² second best"  # a line of its own: captions are wide as tables
        Console(width=_UNBROKEN).print(_rich_table(table, title, styled=False))
        return
    console = Console()
    rich_table = _rich_table(table, title, styled=True)
    width = Console(width=_UNBROKEN).measure(rich_table).maximum
    has_fewer_rows = 0 < len(table.rows) < len(table.header) - 1
    if has_fewer_rows and width > console.width:
        rich_table = _rich_table(transposed(table), title, styled=True)
    console.print(rich_table)


def _rich_table(table: Table, title: str, *, styled: bool) -> RichTable:
    """Return a table for rich: marks of cells are colours, or footnotes where there are none."""
    from rich.table import Table as RichTable
    from rich.text import Text

    caption = Text(printable(title), "table.caption") if title else None
    rich_table = RichTable(caption=caption, caption_justify="left")
    for name in table.header:
        rich_table.add_column(Text(printable(name)), overflow="fold")
    for row in table.rows:
        rich_table.add_row(*(_rich_text(cell, styled=styled) for cell in row))
    return rich_table


def _rich_text(cell: Cell, *, styled: bool) -> Text:
    from rich.text import Text

    style = _STYLES[cell.mark] if styled else ""
    footnote = "" if styled else _FOOTNOTES.get(cell.mark, "")
    small = f"\n{cell.small}" if cell.small else ""
    return Text.assemble((printable(cell.large + footnote), style), (printable(small), "dim"))
