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

    Where standard output is not a terminal it is as wide as it needs to be, and footnote marks
    stand for the styles.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table as RichTable

    styled = sys.stdout.isatty()
    marks = {cell.mark for row in table.rows for cell in row}
    if not styled and marks & _FOOTNOTES.keys():
        title += "\n¹ best, ² second best"  # a line of its own: a caption is as wide as its table
    shown = RichTable(
        *(escape(name) for name in table.header), caption=title, caption_justify="left"
    )
    for row in table.rows:
        shown.add_row(*(_text(cell, styled=styled) for cell in row))
    Console(width=None if styled else _width(shown)).print(shown)


def _width(shown: RichTable) -> int:
    from rich.console import Console

    return max(160, Console(width=10_000).measure(shown).maximum)


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
