"""max@k and pass@k inside inspect_ai, without bias, from the epochs of a sample.

inspect finds this module by its entry point. The reducers are `maxatk/max_at` and
`maxatk/pass_at`, for `Epochs(256, ["maxatk/max_at_8"])`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from inspect_ai.scorer import (
    Metric,
    SampleScore,
    Score,
    ScoreReducer,
    metric,
    score_reducer,
    value_to_float,
)

from maxatk.objectives import max_at_k as unbiased

_as_float = value_to_float()


@score_reducer
def max_at(k: int) -> ScoreReducer:
    """Return the reducer to max@k: the expected best score of k epochs.

    Fewer than k scored epochs give NaN: unscored. Source: "The Best of N Worlds", appendix C.1.
    """
    return lambda scores: Score(value=_max_at([score.value for score in scores], k))


@score_reducer
def pass_at(k: int, threshold: float = 1.0) -> ScoreReducer:
    """Return the reducer to pass@k: the chance that one of k epochs reaches `threshold`."""
    return lambda scores: Score(
        value=_max_at([float(v >= threshold) for v in _known(s.value for s in scores)], k)
    )


@metric
def max_at_k(k: int) -> Metric:
    """Return the metric max@k over samples whose score holds one value an epoch (`collect`).

    Samples with fewer than k scored epochs are left out; NaN where none is left.
    """

    def compute(scores: list[SampleScore]) -> float:
        values = [sample.score.value for sample in scores]
        found = _known(_max_at(v if isinstance(v, list) else [v], k) for v in values)
        return float(np.mean(found)) if found else math.nan

    return compute


def _known(values: Iterable[Any]) -> list[float]:
    return [number for value in values if not math.isnan(number := _as_float(value))]


def _max_at(values: Iterable[Any], k: int) -> float:
    found = _known(values)
    return float(unbiased(found, k)) if len(found) >= k else math.nan
