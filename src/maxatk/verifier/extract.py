"""Take the program out of what a language model wrote."""

from __future__ import annotations

import re

_FENCE = re.compile(r"^([ \t]*)(```+|~~~+)[ \t]*([\w+#.-]*)[^\n`]*$", re.MULTILINE)
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
        elif fence[2][0] == opened[2][0] and len(fence[2]) >= len(opened[2]) and not fence[3]:
            closed.append((opened[3].lower(), _content(text, opened, fence.start())))
            opened = None
    return closed, _content(text, opened, len(text)) if opened is not None else None


def _content(text: str, opened: re.Match[str], end: int) -> str:
    content = text[opened.end() + 1 : end]
    if not opened[1]:
        return content
    return "".join(line.removeprefix(opened[1]) for line in content.splitlines(keepends=True))
