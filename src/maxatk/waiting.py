"""Wait for others by a clock that stands still while this process cannot run."""

from __future__ import annotations

import time
from collections.abc import Callable

_SLICE_S = 1.0  # waited at a time, and so the most that one stop counts


def waited_for(is_there: Callable[[float], bool], seconds: float) -> bool:
    """Return whether `is_there(s)`, which waits up to s seconds, became true within `seconds`.

    A suspended job or a paused container stops this process and those it waits for: the seconds of
    that do not count.
    """
    left = seconds
    while True:
        slice_s = min(max(left, 0.0), _SLICE_S)
        began = time.monotonic()
        if is_there(slice_s):
            return True
        left -= min(time.monotonic() - began, slice_s)
        if left <= 0:
            return False
