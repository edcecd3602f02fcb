"""Take the program out of what a language model wrote."""

from __future__ import annotations

import re

_FENCE = re.compile(r"^[ \t]*(```+|~~~+)[ \t]*([^\s`]*)[^\n`]*$", re.MULTILINE)
_PYTHON = ("python", "python3", "py", "py3")


def extract_code(completion: str) -> str:
    """Return the program in a completion: the last complete fenced block, Python ones first.

    The rule, in order: the last closed block marked as Python; else the last closed block without
    a language; else, if a fence was opened and never closed, all that follows it (the model ran
    out of tokens); else the text itself.
    """
    closed, unclosed = _blocks(completion)
    for wanted in (_PYTHON, ("",)):
        matching = [text for language, text in closed if language in wanted]
        if matching:
            return matching[-1]
    if unclosed is not None:
        return unclosed
    return closed[-1][1] if closed else completion


def _blocks(text: str) -> tuple[list[tuple[str, str]], str | None]:
    """Return (language, content) of each closed block, and the content of one left open."""
    closed: list[tuple[str, str]] = []
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opened is None:
            opened = fence
        elif fence[1][0] == opened[1][0] and len(fence[1]) >= len(opened[1]) and not fence[2]:
            closed.append((opened[2].lower(), text[opened.end() + 1 : fence.start()]))
            opened = None
    return closed, text[opened.end() + 1 :] if opened is not None else None
