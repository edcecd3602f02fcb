"""Tables of the report on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from maxatk.report import Cell, Table, outcomes_table, overview_table
from maxatk.report.runs import ResultsSource

if TYPE_CHECKING:
    from rich.table import Table as RichTable

_STYLES = {"best": "bold", "second": "underline", "above": "green", "below": "red", "": ""}
_FOOTNOTES = {"best": "¹", "second": "²"}


def print_overview(results: Mapping[str, ResultsSource]) -> None:
    """Print max@k and pass@k of every run, with 95% intervals, best bold, second underlined."""
    print_table(overview_table(results), title="95% bootstrap intervals over problems")


def print_outcomes(results: Mapping[str, Any]) -> None:
    """Print how many samples had each outcome, and how many are unscored."""
    print_table(outcomes_table(results), title="the first outcome of a sample that is not passed")


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
        title += "; ¹ best, ² second best"
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
    return f"{text}\n[dim]{escape(cell.detail)}[/dim]" if cell.detail else text
