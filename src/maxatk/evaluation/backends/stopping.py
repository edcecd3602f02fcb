"""Where a completion ends before its end token: stop texts, and the first closed code block."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from maxatk.evaluation.sampling import SamplingSettings

_FENCE = re.compile(r"^[ \t]*(```+|~~~+)[ \t]*([^\n`]*)\n", re.MULTILINE)
_TOKENS_A_CHARACTER = 4  # of tokenizers that fall back to bytes
_BEFORE = 4  # tokens more, for what a tokenizer strips at the beginning of a text


class Stopper:
    """Tells where completions end, from the ids drawn so far.

    `decode` turns ids into text. A text is looked at only where its last tokens could have ended
    it, so that the work of a completion grows with its length and not with its square.
    """

    def __init__(self, settings: SamplingSettings, decode: Callable[[Sequence[int]], str]) -> None:
        self._settings, self._decode = settings, decode
        longest = max(map(len, settings.stop), default=1)
        self._tail = _TOKENS_A_CHARACTER * longest + _BEFORE

    @property
    def active(self) -> bool:
        """Return whether anything but the end token ends a completion."""
        return bool(self._settings.stop) or self._settings.stop_at_fence

    def ends(self, ids: Sequence[int]) -> bool:
        """Return whether the last of these ids ends the completion."""
        tail = self._decode(ids[-self._tail :])
        if not any(stop in tail for stop in self._settings.stop) and not (
            self._settings.stop_at_fence and "\n" in self._decode(ids[-1:])
        ):
            return False
        return end_of(self._decode(ids), self._settings) is not None

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of these ids, up to where it ends."""
        text = self._decode(ids)
        return text[: end_of(text, self._settings)]


def end_of(text: str, settings: SamplingSettings) -> int | None:
    """Return where a text ends: before the first stop text, or behind the first closed block."""
    found = [place for place in map(text.find, settings.stop) if place >= 0]
    if settings.stop_at_fence:
        closed = _end_of_block(text)
        found += [] if closed is None else [closed]
    return min(found, default=None)


def _end_of_block(text: str) -> int | None:
    opened = ""
    for fence in _FENCE.finditer(text):
        if not opened:
            opened = fence[1]
        elif fence[1].startswith(opened) and not fence[2].strip():
            return fence.end() - 1
    return None
