"""A reward function of one's own: how close a number is to the expected answer."""

from __future__ import annotations

import re
from typing import Any

_LAST_NUMBER = re.compile(r"-?\d+(?!.*\d)", re.DOTALL)


def closeness(completions: list[str], answer: list[str], **_: Any) -> list[float]:
    """Return 1 for the expected number, less the further off, and 0 without a number."""
    return [_close(text, int(expected)) for text, expected in zip(completions, answer, strict=True)]


def _close(text: str, expected: int) -> float:
    found = _LAST_NUMBER.search(text)
    return 1 / (1 + abs(int(found[0]) - expected)) if found else 0.0
