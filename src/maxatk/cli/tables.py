"""Tables of the report on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from maxatk.report import Cell, Table, outcomes_table, overview_table
from maxatk.report.runs import Source

_STYLES = {"best": "bold", "second": "underline", "above": "green", "below": "red", "": ""}


def print_overview(results: Mapping[str, Source]) -> None:
    """Print max@k and pass@k of every run, with 95% intervals, best bold, second underlined."""
    print_table(overview_table(results), title="95% bootstrap intervals over problems")


def print_outcomes(results: Mapping[str, Any]) -> None:
    """Print how many samples had each outcome, and how many are unscored."""
    print_table(outcomes_table(results), title="the first outcome of a sample that is not passed")


def print_table(table: Table, *, title: str) -> None:
    """Print a table; where standard output is not a terminal it is as wide as it needs to be."""
    from rich.console import Console
    from rich.table import Table as RichTable

    shown = RichTable(*table.header, caption=title, caption_justify="left")
    for row in table.rows:
        shown.add_row(*(_text(cell) for cell in row))
    Console(width=None if sys.stdout.isatty() else 160).print(shown)


def _text(cell: Cell) -> str:
    style = _STYLES[cell.mark]
    text = f"[{style}]{cell.text}[/{style}]" if style else cell.text
    return f"{text}\n[dim]{cell.detail}[/dim]" if cell.detail else text
