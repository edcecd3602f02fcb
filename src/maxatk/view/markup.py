"""Tables as markup of the page, by the templates of the report."""

from __future__ import annotations

from maxatk.report.page import templates
from maxatk.report.tables import Table


def markup_of(table: Table, caption: str, name: str) -> str:
    """Return a table with its caption as HTML, in which every text is escaped."""
    parts = templates().get_template("parts.html").module
    return str(parts.table(table, caption, name))  # type: ignore[attr-defined]
