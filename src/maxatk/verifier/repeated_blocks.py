"""Whether a block of an answer repeats lines of another one, as a block that explains it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

MOST_BLOCKS = 32
"""How many blocks of an answer are compared with one another: the last ones."""


class Excerpt(NamedTuple):
    """How a block stands in another one: its share of the lines, and what follows it there.

    `goes_on` says that further lines follow, `stops_inside` that the next one is indented: the
    function or loop that the block ends with is not all of it.
    """

    share: float
    goes_on: bool
    stops_inside: bool


class Lines:
    """The lines of a block that are compared: without blank ones, comments and `...`.

    Each line stands behind its indentation relative to the line before it, so that an excerpt is
    found in one search, however far it was moved to the left.
    """

    def __init__(self, text: str, *, comment: str) -> None:
        pieces = []
        indent = 0
        for line in text.replace("\0", " ").split("\n"):
            code = line.strip()
            if not code or code == "..." or code.startswith(comment):
                continue
            depth = len(line) - len(line.lstrip())
            pieces.append(f"\0{depth - indent}\0{code}")
            indent = depth
        self._count = len(pieces)
        self._text = "".join(pieces) + "\0"
        first_indent = int(pieces[0].split("\0")[1]) if pieces else 0
        self._last_indent = indent - first_indent

    def in_other(self, other: Lines) -> Excerpt | None:
        """Return how these lines stand in another block, None where they do not or are none."""
        if not self._count or self._count > other._count:
            return None
        # The indentation of the first line is that of its place.
        lines = self._text[self._text.index("\0", 1) :]
        start = other._text.find(lines)
        if start < 0:
            return None
        following = other._text[start + len(lines) :].partition("\0")[0]
        return Excerpt(
            share=self._count / other._count,
            goes_on=bool(following),
            stops_inside=bool(following) and self._last_indent + int(following) > 0,
        )


def last_whole(texts: Sequence[str], is_part: Callable[[str, str], bool]) -> str:
    """Return the last text that is no part of an earlier one; of very many, of the last ones.

    `is_part(text, earlier)` says whether a text is a part of an earlier one.
    """
    texts = texts[-MOST_BLOCKS:]
    whole_texts = [
        text
        for index, text in enumerate(texts)
        if not any(is_part(text, earlier) for earlier in texts[:index])
    ]
    return whole_texts[-1]  # the first one is no part
