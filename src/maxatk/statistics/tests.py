"""Is one model better than another over the same problems? Arrays in, numbers out.

SciPy does the work; it is imported where it is used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from maxatk.errors import InvalidValueError
from maxatk.statistics.intervals import (
    LEVEL,
    FloatArray,
    Interval,
    mean_and_error,
    t_quantile,
    t_tails,
)

_ROUNDING = 1e-9  # a difference closer to zero is none, but the rounding of a sum of floats
_DECIMALS = 9  # differences closer than this are ties, not rounding of a sum of floats
_EXACT = 100


@dataclasses.dataclass(frozen=True)
class PairedDifference(Interval):
    """The means of a difference over problems with their intervals, and the test of each: (K,).

    `p` is two-sided, and 1 where fewer than two problems have a value on both sides. `zeros` counts
    the problems whose values are equal.
    """

    p: FloatArray
    zeros: npt.NDArray[np.int64]


def paired_difference(values: FloatArray, baseline: FloatArray) -> PairedDifference:
    """Return the mean of `values - baseline` over problems with its t-interval and its t-test.

    Both are (P, K), row by row the same problem: pairing removes the differences between
    problems, which two separate intervals would count as noise. Problems with NaN on either side
    are left out. p is never below 2^(1 - m) for m problems that differ, the smallest that flipping
    their signs can give: a difference that rests on fewer than six problems is not told from
    chance at the level 0.05, however few others moved. Where all differences are the same, or only
    one is known, there is no interval (NaN), and p is that smallest one.

    Raises InvalidValueError for different shapes and without problems.
    """
    if values.shape != baseline.shape:
        raise InvalidValueError(
            f"paired_difference: shapes differ: {values.shape} and {baseline.shape}"
        )
    differences = values - baseline
    mean, error, problems = mean_and_error(differences)
    zeros = equal_problems(differences)
    signs = smallest_sign_flip_p(problems - zeros)
    low, high, p = t_test(mean, error, problems - 1, signs=signs)
    return PairedDifference(mean, low, high, problems, p=np.maximum(p, signs), zeros=zeros)


def equal_problems(differences: FloatArray) -> npt.NDArray[np.int64]:
    """Return how many of the differences (P, K) are zero but for rounding: (K,)."""
    zeros: npt.NDArray[np.int64] = (np.abs(differences) < _ROUNDING).sum(axis=0)  # NaN is not
    return zeros


def t_test(
    mean: FloatArray, error: FloatArray, df: npt.ArrayLike, *, signs: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the ends of the 95% t-intervals of means and their two-sided p: (K,) each.

    `error` are their standard errors with `df` degrees of freedom. Where there is no spread,
    Student's t says nothing: the ends are NaN, and p is `signs`, that of flipping the signs.
    """
    df = np.maximum(df, 1)
    spread = np.where(error > _ROUNDING, error, np.nan)
    half = t_quantile((1 + LEVEL) / 2, df) * spread
    p = np.where(np.isnan(spread), signs, t_tails(mean / spread, df))
    return mean - half, mean + half, p


def smallest_sign_flip_p(moved: npt.ArrayLike) -> FloatArray:
    """Return the two-sided p of flipping the signs of so many differences that all agree.

    2^(1 - m), and 1 for none: the smallest that so many can give.
    """
    smallest: FloatArray = np.minimum(1.0, 2.0 ** (1 - np.asarray(moved, dtype=np.float64)))
    return smallest


def wilcoxon(values: FloatArray, baseline: FloatArray) -> float:
    """Return the p of Wilcoxon's signed-rank test of `values` against `baseline`, two-sided.

    Both are (P,), paired over problems; NaN on either side leaves the problem out. Zero differences
    are dropped (Wilcoxon's own rule), equal ones share their mean rank. The p-value is that of the
    exact distribution up to 100 differences, ties or not, and of the normal approximation with the
    tie correction above. It is 1 where no difference is left. Source: "The Best of N Worlds",
    section 4.5, which names the test and leaves sides and zeros open; these are the defaults of
    `scipy.stats.wilcoxon`.

    Raises InvalidValueError for different shapes.
    """
    if values.shape != baseline.shape or values.ndim != 1:
        raise InvalidValueError(
            f"wilcoxon: needs two arrays of shape (P,), got {values.shape} and {baseline.shape}"
        )
    from scipy import stats

    differences = np.round(values - baseline, _DECIMALS)
    differences = differences[~np.isnan(differences)]
    moved = differences[differences != 0]
    if len(moved) > _EXACT:
        return float(stats.wilcoxon(moved, method="approx").pvalue)
    return _exact_p(moved, stats.rankdata(np.abs(moved)))


def _exact_p(moved: FloatArray, ranks: FloatArray) -> float:
    # The rank sum of the positive ones when every sign is a fair coin. Ranks of ties are halves:
    # doubled, all are whole.
    doubled = np.round(2 * ranks).astype(np.int64)
    chances = np.ones(1)
    for rank in doubled:
        chances = 0.5 * (np.pad(chances, (0, rank)) + np.pad(chances, (rank, 0)))
    found = int(doubled[moved > 0].sum())
    return float(min(1.0, 2 * min(chances[: found + 1].sum(), chances[found:].sum())))


def adjusted_p_values(p_values: Sequence[float]) -> list[float]:
    """Return Benjamini-Hochberg adjusted p-values, in the order given.

    Calling every comparison with an adjusted p-value of at most q a discovery keeps the expected
    share of false ones among the discoveries at most q, for independent or positively dependent
    tests. Source: Benjamini and Hochberg (1995). Raises InvalidValueError for a p-value outside
    [0, 1].
    """
    from scipy import stats

    for p in p_values:
        if not 0 <= p <= 1:
            raise InvalidValueError(f"p_values: must lie in [0, 1], got {p!r}")
    if not p_values:
        return []
    adjusted: list[float] = stats.false_discovery_control(list(p_values)).tolist()
    return adjusted
