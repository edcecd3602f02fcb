"""One value of each key for the draws that make up a rollout batch: TRL logs one for each draw."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from maxatk.train.clock import Metrics
from maxatk.training.keys import FAILED

_OF_DRAWS = ("completions/", "tools/", "verifier/", "seconds/", FAILED)  # that draws log
_CUT_OFF = "completions/clipped_ratio"


@dataclasses.dataclass(frozen=True)
class _Logged:
    """The values of a draw by key, and of how many completions and tests they are."""

    values: Mapping[str, float]
    completions: int
    tests: int

    def weight(self, name: str) -> float:
        """Return of how many completions or tests a value is a mean."""
        if name.startswith("verifier/"):
            return self.tests
        if "terminated_length" in name:
            return self.completions * (1 - self.values[_CUT_OFF])
        return self.completions


class DrawMetrics:
    """Collects what the draws of one rollout batch append to `metrics`, which later are as many.

    A plain mean over draws would weigh a few completions of a later draw as much as all of the
    first.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._lengths = {name: len(values) for name, values in metrics.items()}
        self._draws: list[_Logged] = []

    def end_draw(self, *, completions: int, tests: int) -> None:
        """Take what has been appended since the last call, which is of so many of all processes."""
        taken = {}
        for name, values in self._metrics.items():
            start = self._lengths.get(name, 0)
            if not name.startswith(_OF_DRAWS) or len(values) == start:
                continue
            draw_values = values[start:]
            del values[start:]
            taken[name] = float(sum(draw_values) if _is_sum(name) else np.mean(draw_values))
        self._draws.append(_Logged(taken, completions, tests))

    def write(self) -> None:
        """Append one value of each key for all draws together."""
        names = dict.fromkeys(name for draw in self._draws for name in draw.values)
        for name in names:
            self._metrics[name].append(self._together(name))

    def _together(self, name: str) -> float:
        draws = [draw for draw in self._draws if name in draw.values]
        values = [draw.values[name] for draw in draws]
        if _is_sum(name):
            return sum(values)
        weights = [draw.weight(name) for draw in draws]
        weighted = [value for value, weight in zip(values, weights, strict=True) if weight > 0]
        if not weighted:
            return values[0]
        if "/min_" in name:
            return min(weighted)
        if "/max_" in name:
            return max(weighted)
        return float(np.average(values, weights=weights))


def _is_sum(name: str) -> bool:
    return name.startswith("seconds/")
