"""What a notebook shows: rows as a table of HTML, and as a data frame of pandas."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maxatk.check import needing

if TYPE_CHECKING:
    import pandas as pd


def html_table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table of HTML; whatever texts mean there, they are shown as they are."""

    def line(cells: Iterable[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f"<table><thead>{line(header, 'th')}</thead><tbody>{body}</tbody></table>"


def data_frame(rows: Sequence[Mapping[str, Any]] | Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """Return rows, or columns, as a data frame; raises MissingDependencyError without pandas."""
    with needing("data frames need the package 'pandas': pip install 'maxatk[report]'"):
        import pandas as pd
    return pd.DataFrame(rows)
