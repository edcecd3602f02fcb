"""Tables, figures and one offline HTML page; matplotlib and jinja2 are loaded on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from maxatk.report.load_runs import Reading, load_comparison
from maxatk.report.model_comparison import CompareOptions, ModelComparison, compare
from maxatk.report.run_tables import outcomes_table, overview_table
from maxatk.report.table_formats import format_table
from maxatk.report.tables import Cell, Table

if TYPE_CHECKING:
    from maxatk.report.figures import figure1, plot
    from maxatk.report.page import write_report

__all__ = [
    "Cell",
    "CompareOptions",
    "ModelComparison",
    "Reading",
    "Table",
    "compare",
    "figure1",
    "format_table",
    "load_comparison",
    "outcomes_table",
    "overview_table",
    "plot",
    "write_report",
]

_LAZY = {"figure1": "figures", "plot": "figures", "write_report": "page"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'maxatk.report' has no attribute {name!r}")
    return getattr(importlib.import_module(f"maxatk.report.{_LAZY[name]}"), name)
