"""The test of one model against another over the same problems: one rule, used everywhere."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt

from maxatk.errors import InvalidValueError
from maxatk.evaluation.statistics.intervals import (
    FEW_PROBLEMS,
    LEVEL,
    RESAMPLES,
    FloatArray,
    Interval,
    mean_interval,
    resampled_means,
)
from maxatk.evaluation.statistics.student import student_p

_ROUNDING = 1e-9  # a difference closer to zero is none, but the rounding of a sum of floats


@dataclasses.dataclass(frozen=True)
class PairedDifference(Interval):
    """The means of a difference over problems with their intervals, and the test of each: (K,).

    `p` is two-sided, and 1 where no problem has a value on both sides. `zeros` counts the problems
    whose values are equal.
    """

    p: FloatArray
    zeros: npt.NDArray[np.int64]

    def columns(self, start: int, count: int) -> PairedDifference:
        """Return `count` of the differences, from the one at `start` on."""
        kept = {
            field.name: getattr(self, field.name)[start : start + count]
            for field in dataclasses.fields(self)
        }
        return PairedDifference(**kept)


def paired_difference(
    values: FloatArray,
    baseline: FloatArray,
    *,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> PairedDifference:
    """Return the mean of `values - baseline` over problems with its interval and its test.

    Both are (P, K), row by row the same problem: pairing removes the differences between
    problems, which two separate intervals would count as noise. Problems with NaN on either side
    are left out. The interval is that of `mean_interval`. The p-value goes with it: twice the
    share of resampled means beyond zero for 30 problems or more, that of Student's t-test for
    fewer. It is never below 2^(1 - m) for m problems that differ, the smallest p that flipping
    their signs can give: a difference that rests on fewer than six problems is not told from
    chance at the level 0.05, however few others moved.

    Raises InvalidValueError for different shapes and without problems.
    """
    if values.shape != baseline.shape:
        raise InvalidValueError(
            f"paired_difference: shapes differ: {values.shape} and {baseline.shape}"
        )
    differences = values - baseline
    equal = np.abs(differences) < _ROUNDING  # False where a side is NaN
    zeros = equal.sum(axis=0)
    many = (~np.isnan(differences)).sum(axis=0) >= FEW_PROBLEMS
    p = np.array([_student_p(column) for column in differences.T])
    means = None
    if many.any():
        means = resampled_means(differences, resamples=resamples, seed=seed)
        p[many] = _bootstrap_p(means[:, many])
    found = mean_interval(differences, level=level, means=means)
    smallest = 2.0 ** (1 - (found.problems - zeros))
    return PairedDifference(
        mean=found.mean,
        low=found.low,
        high=found.high,
        problems=found.problems,
        p=np.minimum(1.0, np.maximum(p, smallest)),
        zeros=zeros,
    )


def _bootstrap_p(means: FloatArray) -> FloatArray:
    """Return twice the smaller share of resampled means at or beyond zero, itself among them."""
    resamples = (~np.isnan(means)).sum(axis=0)
    below = (means <= _ROUNDING).sum(axis=0)
    above = (means >= -_ROUNDING).sum(axis=0)
    p: FloatArray = 2 * (np.minimum(below, above) + 1) / (resamples + 1)
    return p


def _student_p(differences: FloatArray) -> float:
    known = differences[~np.isnan(differences)]
    if len(known) < 2:
        return 1.0
    mean, error = known.mean(), known.std(ddof=1) / math.sqrt(len(known))
    if error < _ROUNDING:
        return 1.0 if abs(mean) < _ROUNDING else 0.0
    return student_p(float(mean / error), len(known) - 1)
