"""Tables know how much room they need; where there is less, the style lays out their rows."""

import re
from typing import Any
from xml.etree.ElementTree import Element

from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor

_CHARACTER = 7.4  # px, of the widest font that tables may get
_PADDING = 16  # px, of a cell
_SENTENCE = 40  # characters from which a cell is read as prose, and wants the width of
_PROSE = 18  # so many
_ROOMS = {"s": 340, "m": 640, "l": 880}  # px of a phone, of a page with two side bars, with one


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Give the tables of studies the width of the page, and leave them out of the search."""
    if page.file.src_uri.startswith("study/"):
        page.meta |= {"hide": ["toc"], "search": {"exclude": True}}
    return markdown


def on_config(config: Any) -> Any:
    """Add the extension behind those of mkdocs.yml."""
    config.markdown_extensions.append(_Tables())
    return config


class _Tables(Extension):
    def extendMarkdown(  # noqa: N802 - the name that Markdown calls
        self, md: Markdown
    ) -> None:
        md.treeprocessors.register(_Rooms(md), "table_rooms", 1)  # after inline patterns


class _Rooms(Treeprocessor):
    def run(self, root: Element) -> None:
        for table in root.iter("table"):
            rows = [[_text(cell) for cell in row] for row in table.iter("tr")]
            table.set("data-room", _room(rows))
            for row in table.iter("tr"):
                for cell, heading in zip(row, rows[0], strict=True):
                    if cell.tag == "td" and heading:
                        cell.set("data-label", heading)
                    if len(_text(cell)) >= _SENTENCE:
                        cell.set("data-prose", "")


def _text(cell: Element) -> str:
    # Formulas are stashed, and stand for themselves as a short word.
    return re.sub("\x02[^\x03]*\x03", "formula", "".join(cell.itertext())).strip()


def _room(rows: list[list[str]]) -> str:
    need = sum(_column(list(column)) for column in zip(*rows, strict=True))
    return next((name for name, most in _ROOMS.items() if need <= most), "xl")


def _column(cells: list[str]) -> float:
    longest = max((len(word) for cell in cells for word in cell.split()), default=1)
    if max(map(len, cells)) >= _SENTENCE:
        longest = max(longest, _PROSE)
    return longest * _CHARACTER + _PADDING
