"""Metrics of an evaluation and their uncertainty: P problems, n samples of each, K values of k.

NaN is a sample without a reward, or a problem with too few for a k.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from maxatk.check import require, several
from maxatk.errors import counted
from maxatk.objectives import max_at_k
from maxatk.objectives.metrics import passes

FloatArray = npt.NDArray[np.float64]
IntervalT = TypeVar("IntervalT", bound="Interval")

RESAMPLES = 10_000
LEVEL = 0.95
FEW_PROBLEMS = 30  # below, an interval is Student's: the bootstrap's is too narrow there
DECIMALS = 9
ROUNDING = 10.0**-DECIMALS  # numbers that are closer are equal, but for the rounding of a sum
_BLOCK = 500  # resamples at a time: bounds the memory at 500 x P numbers


@dataclasses.dataclass(frozen=True)
class Interval:
    """Means with the ends of their intervals and the problems that have a value: (K,) each."""

    mean: FloatArray
    low: FloatArray
    high: FloatArray
    problems: npt.NDArray[np.int64]


def in_unit(values: FloatArray) -> bool:
    """Return whether all values that are not NaN lie in [0, 1]."""
    return not ((values < 0) | (values > 1)).any()


def none_for_nan(value: float) -> float | None:
    """Return a number as JSON and tables hold it: None for NaN, which is no number."""
    return None if np.isnan(value) else float(value)


def within(interval: IntervalT, least: npt.ArrayLike, most: npt.ArrayLike) -> IntervalT:
    """Return the intervals cut at what is possible, which Student's passes for few problems.

    `least` and `most` are those of all means, or (K,).
    """
    return dataclasses.replace(
        interval,
        low=np.maximum(interval.low, least),
        high=np.minimum(interval.high, most),
    )


def default_ks(samples: int) -> list[int]:
    """Return 1, 2, 4, ... up to `samples`, and `samples` itself."""
    return sorted({1 << power for power in range(samples.bit_length())} | {samples})


def check_ks(ks: Sequence[int], samples: int) -> list[int]:
    """Return `ks` ascending, each once; raises InvalidValueError unless 1 <= k <= samples."""
    several("k", ks, "integers")
    allowed = f"an integer from 1 to the {counted(samples, 'sample')} of a problem"
    for k in ks:
        fits = not isinstance(k, bool) and isinstance(k, (int, np.integer)) and 1 <= k <= samples
        require(fits, "k", allowed, k)
    return sorted({int(k) for k in ks})


def metric_values(
    rewards: FloatArray, ks: Sequence[int], *, threshold: float = 1.0
) -> dict[str, FloatArray]:
    """Return the unbiased max@k and pass@k, from a `threshold`, of rewards (P, n): (P, K) each.

    Source: "The Best of N Worlds", appendix C.1.
    """
    passed = np.where(np.isnan(rewards), np.nan, passes(rewards, threshold))
    return {"max@k": max_at_k(rewards, list(ks)), "pass@k": max_at_k(passed, list(ks))}


def t_quantile(chance: float, df: npt.ArrayLike) -> FloatArray:
    """Return the t that Student's variable with `df` degrees of freedom stays below."""
    from scipy import special

    quantile: FloatArray = special.stdtrit(df, chance)
    return quantile


def mean_and_error(values: FloatArray) -> tuple[FloatArray, FloatArray, npt.NDArray[np.int64]]:
    """Return the mean of each column of values (P, K), its standard error and its count: (K,) each.

    Of the c values x_1, ..., x_c of a column, those that are NaN left out, the mean is
    m = sum_i x_i / c, NaN for c = 0. Its standard error is sqrt(s^2 / c) for the variance
    s^2 = sum_i (x_i - m)^2 / (c - 1) of the values, NaN for c < 2. Raises InvalidValueError without
    rows.
    """
    fits = values.ndim == 2 and len(values) > 0
    require(fits, "values", "of shape (P, K) with P > 0", values.shape)
    has_value = ~np.isnan(values)
    count = has_value.sum(axis=0)
    total = np.where(has_value, values, 0.0).sum(axis=0)
    mean = total / np.where(count > 0, count, np.nan)
    deviations = np.where(has_value, values - mean, 0.0)
    sum_of_squares = (deviations**2).sum(axis=0)
    variance_of_mean = sum_of_squares / np.where(count > 1, count * (count - 1), np.nan)
    return mean, np.sqrt(variance_of_mean), count


def student_mean(values: FloatArray) -> Interval:
    """Return the mean of values (P, K) with Student's t-interval, raising as `mean_and_error`.

    Where all values are equal there is no interval (NaN).
    """
    mean, error, problems = mean_and_error(values)
    spread = np.where(error > ROUNDING, error, np.nan)
    half = spread * t_quantile((1 + LEVEL) / 2, np.maximum(problems - 1, 1))
    return Interval(mean=mean, low=mean - half, high=mean + half, problems=problems)


def mean_interval(
    values: FloatArray,
    *,
    bounded: npt.NDArray[np.bool_] | None = None,
    resamples: int = RESAMPLES,
) -> Interval:
    """Return the mean of values (P, K) over problems with the interval that suits their number.

    A column with 30 values or more has the percentile bootstrap's, of the same resampled problems.
    One with fewer has that of `student_mean`, cut at 0 and 1 where `bounded` (K,) says that no
    value can leave [0, 1]; by default that is so of all columns where all values lie between. Over
    5 problems the bootstrap's holds the true max@1 in 80% of all cases, Student's in 87% (256
    samples of problems whose chances are Beta(0.4, 1.6)). Equal values say nothing of how others
    spread: a column of them has no interval (NaN). Raises as `mean_and_error`.
    """
    mean, error, problems = mean_and_error(values)
    is_bootstrapped = problems >= FEW_PROBLEMS
    if is_bootstrapped.all():  # without SciPy, which takes 17 MiB
        interval = Interval(mean, mean, mean, problems)
    else:
        interval = student_mean(values)
    if bounded is None:
        bounded = np.full(len(mean), in_unit(values))
    interval = within(interval, np.where(bounded, 0.0, -np.inf), np.where(bounded, 1.0, np.inf))
    if not is_bootstrapped.any():
        return interval
    tail = (1 - LEVEL) / 2
    means = _resampled_means(values, resamples)[:, is_bootstrapped]
    ends = np.nanquantile(means, [tail, 1 - tail], axis=0)
    ends[:, error[is_bootstrapped] <= ROUNDING] = np.nan
    low = interval.low.copy()
    low[is_bootstrapped] = ends[0]
    high = interval.high.copy()
    high[is_bootstrapped] = ends[1]
    return dataclasses.replace(interval, low=low, high=high)


def _resampled_means(values: FloatArray, resamples: int) -> FloatArray:
    """Return the means over resampled problems, (resamples, K); NaN where none has a value."""
    count = len(values)
    has_value = ~np.isnan(values)
    filled = np.where(has_value, values, 0.0)
    means = np.full((resamples, values.shape[1]), np.nan)
    generator = np.random.default_rng(0)
    for start in range(0, resamples, _BLOCK):
        block = means[start : start + _BLOCK]
        # How often each problem is in each resample (block, P): one count over all resamples, in
        # which those of resample r have the numbers r P to r P + P - 1.
        drawn = generator.integers(count, size=(len(block), count))
        drawn += count * np.arange(len(block))[:, None]
        times = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape).astype(float)
        # No NaN, as nearly always: then every resample has P values.
        with_value = count if has_value.all() else times @ has_value
        np.divide(times @ filled, with_value, out=block, where=np.greater(with_value, 0))
    return means
