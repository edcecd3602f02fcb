"""Where the seconds of a training step go."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import TypeAlias

Metrics: TypeAlias = Mapping[str, list[float]]
"""What TRL collects between two rows of its log, and averages: a list of values a key."""


class Clock:
    """Measures parts of a training step; a part inside another counts for the inner one only."""

    def __init__(self) -> None:
        self.total = 0.0

    @contextlib.contextmanager
    def measure(self, name: str, metrics: Metrics) -> Iterator[None]:
        """Append the seconds spent inside, without those of inner parts, as `seconds/<name>`."""
        start = time.perf_counter()
        total_before = self.total
        yield
        seconds_of_inner_parts = self.total - total_before
        seconds = time.perf_counter() - start - seconds_of_inner_parts
        self.total += seconds
        metrics["seconds/" + name].append(seconds)
