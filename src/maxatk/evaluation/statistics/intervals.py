"""Metrics of an evaluation and their uncertainty: arrays in, arrays out.

Shapes: P problems, n samples of a problem, K values of k. NaN is a sample that could not be
scored, or a problem with too few scored samples for a k.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from maxatk.errors import InvalidValueError
from maxatk.evaluation.statistics.student import student_quantile
from maxatk.objectives import max_at_k

FloatArray = npt.NDArray[np.float64]

RESAMPLES = 10_000
LEVEL = 0.95
FEW_PROBLEMS = 30
"""Below so many problems an interval is Student's: the bootstrap's is too narrow there."""
_BLOCK = 500  # resamples at a time: bounds the memory at 500 x P numbers


@dataclasses.dataclass(frozen=True)
class Interval:
    """Means with the ends of their intervals: (K,) each.

    `problems` (K,) counts the problems behind each mean: those with a value, not NaN.
    """

    mean: FloatArray
    low: FloatArray
    high: FloatArray
    problems: npt.NDArray[np.int64]


def default_ks(samples: int) -> list[int]:
    """Return 1, 2, 4, ... up to `samples`, and `samples` itself."""
    return sorted({1 << power for power in range(samples.bit_length())} | {samples})


def check_ks(ks: Sequence[int], samples: int) -> list[int]:
    """Return `ks` ascending, each once; raises InvalidValueError unless 1 <= k <= samples."""
    for k in ks:
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 1 <= k <= samples:
            raise InvalidValueError(
                f"k: must be an integer from 1 to the {samples} samples of a problem, got {k!r}"
            )
    return sorted({int(k) for k in ks})


def check_threshold(threshold: float) -> None:
    """Raise InvalidValueError for a threshold that is no finite number."""
    if not math.isfinite(threshold):
        raise InvalidValueError(f"threshold: must be a finite number, got {threshold!r}")


def metric_values(
    rewards: FloatArray, ks: Sequence[int], *, threshold: float = 1.0
) -> dict[str, FloatArray]:
    """Return the unbiased max@k and pass@k of every problem: {"max@k", "pass@k"}, each (P, K).

    rewards: (P, n), NaN where unscored, which shrinks that problem's n. A sample passes when its
    reward is `threshold` or more. A problem with fewer than k scored samples has NaN there.
    Source: "The Best of N Worlds", appendix C.1.
    """
    passes = np.where(np.isnan(rewards), np.nan, rewards >= threshold)
    return {"max@k": max_at_k(rewards, list(ks)), "pass@k": max_at_k(passes, list(ks))}


def bootstrap_mean(
    values: FloatArray, *, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> Interval:
    """Return the mean over problems with its percentile bootstrap interval.

    values: (P, K). Whole problems are resampled, the same ones in every column, `resamples`
    times; the interval holds the middle `level` of the resampled means. It answers how the mean
    would vary over other problems of this kind with as many new samples each: the noise of the
    samples is part of the spread over problems.

    Raises InvalidValueError when there are no problems.
    """
    _check_values(values)
    return _percentiles(values, resampled_means(values, resamples=resamples, seed=seed), level)


def _percentiles(values: FloatArray, means: FloatArray, level: float) -> Interval:
    known = ~np.isnan(values)
    problems = known.sum(axis=0)
    mean, low, high = np.full((3, values.shape[1]), np.nan)
    some = problems > 0
    if some.any():
        mean[some] = np.where(known, values, 0.0)[:, some].sum(axis=0) / problems[some]
        tail = (1 - level) / 2
        low[some], high[some] = np.nanquantile(means[:, some], [tail, 1 - tail], axis=0)
    return Interval(mean=mean, low=low, high=high, problems=problems)


def resampled_means(values: FloatArray, *, resamples: int = RESAMPLES, seed: int = 0) -> FloatArray:
    """Return the means of `bootstrap_mean` over its resamples: (resamples, K).

    NaN where a resample has no problem with a value.
    """
    known = ~np.isnan(values)
    filled = np.where(known, values, 0.0)
    means = np.full((resamples, values.shape[1]), np.nan)
    generator = np.random.default_rng(seed)
    for start in range(0, resamples, _BLOCK):
        times = _times_drawn(generator, min(_BLOCK, resamples - start), len(values))
        # All values known, as nearly always: then every resample has all P problems.
        drawn = len(values) if known.all() else times @ known
        np.divide(
            times @ filled, drawn, out=means[start : start + _BLOCK], where=np.greater(drawn, 0)
        )
    return means


def student_mean(values: FloatArray, *, level: float = LEVEL) -> Interval:
    """Return the mean over problems with Student's t-interval, NaN where fewer than two have one.

    values: (P, K). Raises InvalidValueError when there are no problems.
    """
    _check_values(values)
    known = ~np.isnan(values)
    problems = known.sum(axis=0)
    mean, half = np.full((2, values.shape[1]), np.nan)
    for column, count in enumerate(problems):
        kept = values[known[:, column], column]
        if count:
            mean[column] = kept.mean()
        if count > 1:
            t = student_quantile((1 + level) / 2, int(count) - 1)
            half[column] = t * kept.std(ddof=1) / np.sqrt(count)
    return Interval(mean=mean, low=mean - half, high=mean + half, problems=problems)


def mean_interval(
    values: FloatArray,
    *,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
    means: FloatArray | None = None,
) -> Interval:
    """Return the mean over problems with the interval that suits their number.

    values: (P, K). A column with 30 values or more has the interval of `bootstrap_mean`, one with
    fewer that of `student_mean`: over 5 problems with 256 samples the first holds the true max@1
    in 83% of all cases instead of 95%, the second in 94%. Neither helps where most problems are at
    their ceiling: what is left then are the few below it. `means` are the `resampled_means` of the
    values where they are known already. Raises InvalidValueError when there are no problems.
    """
    _check_values(values)
    few = (~np.isnan(values)).sum(axis=0) < FEW_PROBLEMS
    student = student_mean(values, level=level)
    if few.all():
        return student
    if means is None:
        means = resampled_means(values, resamples=resamples, seed=seed)
    found = _percentiles(values, means, level)
    return Interval(
        mean=found.mean,
        low=np.where(few, student.low, found.low),
        high=np.where(few, student.high, found.high),
        problems=found.problems,
    )


def _check_values(values: FloatArray) -> None:
    if values.ndim != 2 or not len(values):
        raise InvalidValueError(f"values: must have shape (P, K) with P > 0, got {values.shape}")


def _times_drawn(generator: np.random.Generator, resamples: int, problems: int) -> FloatArray:
    drawn = generator.integers(problems, size=(resamples, problems))
    drawn += problems * np.arange(resamples)[:, None]
    times = np.bincount(drawn.ravel(), minlength=resamples * problems)
    return times.reshape(resamples, problems).astype(np.float64)


def histogram(values: npt.ArrayLike, *, most_bins: int = 128) -> dict[str, object]:
    """Return {"width", "counts"} of non-negative values: bin i is [i width, (i + 1) width).

    The width is a power of two, so that histograms of different runs are brought to a common
    one by adding neighbouring bins.
    """
    numbers = np.maximum(np.asarray(values, dtype=np.float64), 0.0)
    largest = float(numbers.max(initial=0.0))
    width = 2.0 ** np.ceil(np.log2(max(largest, 1e-3) / most_bins))
    counts = np.bincount((numbers / width).astype(np.int64))
    return {"width": float(width), "counts": counts.tolist()}
