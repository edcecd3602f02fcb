"""Metrics of an evaluation and their uncertainty: P problems, n samples of each, K values of k.

NaN is a sample without a reward, or a problem with too few for a k.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from maxatk.check import require
from maxatk.objectives import max_at_k

FloatArray = npt.NDArray[np.float64]
IntervalT = TypeVar("IntervalT", bound="Interval")

RESAMPLES = 10_000
LEVEL = 0.95
FEW_PROBLEMS = 30  # below, an interval is Student's: the bootstrap's is too narrow there
_BLOCK = 500  # resamples at a time: bounds the memory at 500 x P numbers


@dataclasses.dataclass(frozen=True)
class Interval:
    """Means with the ends of their intervals and the problems that have a value: (K,) each."""

    mean: FloatArray
    low: FloatArray
    high: FloatArray
    problems: npt.NDArray[np.int64]


def in_unit(values: FloatArray) -> bool:
    """Say whether all values that are known lie in [0, 1]."""
    return not ((values < 0) | (values > 1)).any()


def within(found: IntervalT, least: float, most: float) -> IntervalT:
    """Return the intervals cut at what is possible, which Student's passes for few problems."""
    low, high = np.maximum(found.low, least), np.minimum(found.high, most)
    return dataclasses.replace(found, low=low, high=high)


def default_ks(samples: int) -> list[int]:
    """Return 1, 2, 4, ... up to `samples`, and `samples` itself."""
    return sorted({1 << power for power in range(samples.bit_length())} | {samples})


def check_ks(ks: Sequence[int], samples: int) -> list[int]:
    """Return `ks` ascending, each once; raises InvalidValueError unless 1 <= k <= samples."""
    allowed = f"an integer from 1 to the {samples} samples of a problem"
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
    passes = np.where(np.isnan(rewards), np.nan, rewards >= threshold)
    return {"max@k": max_at_k(rewards, list(ks)), "pass@k": max_at_k(passes, list(ks))}


def t_quantile(chance: float, df: npt.ArrayLike) -> FloatArray:
    """Return the t that Student's variable with `df` degrees of freedom stays below."""
    from scipy import special

    found: FloatArray = special.stdtrit(df, chance)
    return found


def mean_and_error(values: FloatArray) -> tuple[FloatArray, FloatArray, npt.NDArray[np.int64]]:
    """Return the mean over rows of values (P, K), its error, and the rows with a value: (K,) each.

    The mean is NaN without a value, the error below two. Raises InvalidValueError without rows.
    """
    fits = values.ndim == 2 and len(values) > 0
    require(fits, "values", "of shape (P, K) with P > 0", values.shape)
    known = ~np.isnan(values)
    count = known.sum(axis=0)
    mean = np.where(known, values, 0.0).sum(axis=0) / np.where(count, count, np.nan)
    squares = np.where(known, values - mean, 0.0) ** 2
    error = np.sqrt(squares.sum(axis=0) / np.where(count > 1, count * (count - 1), np.nan))
    return mean, error, count


def student_mean(values: FloatArray) -> Interval:
    """Return the mean of values (P, K) with Student's t-interval, raising as `mean_and_error`."""
    mean, error, problems = mean_and_error(values)
    half = error * t_quantile((1 + LEVEL) / 2, np.maximum(problems - 1, 1))
    return Interval(mean=mean, low=mean - half, high=mean + half, problems=problems)


def mean_interval(values: FloatArray, *, resamples: int = RESAMPLES) -> Interval:
    """Return the mean of values (P, K) over problems with the interval that suits their number.

    A column with 30 values or more has the percentile bootstrap's, of the same resampled problems.
    One with fewer has that of `student_mean`, cut at 0 and 1 where all values lie between: over 5
    problems the bootstrap's holds the true max@1 in 83% of all cases, Student's in 94%. Raises as
    `mean_and_error`.
    """
    mean, _, problems = mean_and_error(values)
    many = problems >= FEW_PROBLEMS
    # SciPy takes 17 MiB, and is loaded only where some interval is Student's.
    found = Interval(mean, mean, mean, problems) if many.all() else student_mean(values)
    found = within(found, 0.0, 1.0) if in_unit(values) else found
    if not many.any():
        return found
    tail = (1 - LEVEL) / 2
    means = _resampled_means(values, resamples)[:, many]
    low, high = found.low.copy(), found.high.copy()
    low[many], high[many] = np.nanquantile(means, [tail, 1 - tail], axis=0)
    return dataclasses.replace(found, low=low, high=high)


def _resampled_means(values: FloatArray, resamples: int) -> FloatArray:
    """Return the means over resampled problems, (resamples, K); NaN where none has a value."""
    known, count = ~np.isnan(values), len(values)
    filled = np.where(known, values, 0.0)
    means = np.full((resamples, values.shape[1]), np.nan)
    generator = np.random.default_rng(0)
    for start in range(0, resamples, _BLOCK):
        out = means[start : start + _BLOCK]
        rows = generator.integers(count, size=(len(out), count))
        rows += count * np.arange(len(out))[:, None]
        times = np.bincount(rows.ravel(), minlength=rows.size).reshape(rows.shape).astype(float)
        # All values known, as nearly always: then every resample has all P problems.
        drawn = count if known.all() else times @ known
        np.divide(times @ filled, drawn, out=out, where=np.greater(drawn, 0))
    return means
