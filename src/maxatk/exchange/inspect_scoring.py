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
from maxatk.objectives.metrics import passes

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

    def reduce(scores: list[Score]) -> Score:
        numbers = _numbers(score.value for score in scores)
        passed = passes(numbers, threshold).astype(np.float64).tolist()
        return Score(value=_max_at(passed, k))

    return reduce


@metric
def max_at_k(k: int) -> Metric:
    """Return the metric max@k over samples whose score holds one value an epoch (`collect`).

    Samples with fewer than k scored epochs are left out; NaN where none is left.
    """

    def compute(scores: list[SampleScore]) -> float:
        by_sample = []
        for sample in scores:
            value = sample.score.value
            by_sample.append(_max_at(value if isinstance(value, list) else [value], k))
        numbers = _numbers(by_sample)
        return float(np.mean(numbers)) if numbers else math.nan

    return compute


def _numbers(values: Iterable[Any]) -> list[float]:
    """Return the values of inspect as numbers, those left out that are NaN: unscored."""
    numbers = [_as_float(value) for value in values]
    return [number for number in numbers if not math.isnan(number)]


def _max_at(values: Iterable[Any], k: int) -> float:
    numbers = _numbers(values)
    return float(unbiased(numbers, k)) if len(numbers) >= k else math.nan
