"""Formulas become MathML when the site is built, so that a page needs no script and no network."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\(?P<open>[(\[])(?P<latex>.*?)\\[)\]]</(?P=tag)>',
    re.DOTALL,
)


def on_page_content(content: str, **_: Any) -> str:
    """Replace the LaTeX that arithmatex has marked."""
    return _FORMULA.sub(_mathml, content)


def _mathml(found: re.Match[str]) -> str:
    display = "inline" if found["open"] == "(" else "block"
    return convert(html.unescape(found["latex"]).strip(), display=display)
