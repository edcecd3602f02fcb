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


def _mathml(formula: re.Match[str]) -> str:
    display = "inline" if formula["open"] == "(" else "block"
    return convert(html.unescape(formula["latex"]).strip(), display=display)
