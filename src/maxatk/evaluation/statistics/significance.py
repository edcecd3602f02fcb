"""Is one model better than another? Paired tests over problems: arrays in, numbers out.

SciPy does the work; it is imported where it is used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from maxatk.errors import InvalidValueError, MissingDependencyError
from maxatk.evaluation.statistics.intervals import FloatArray

_DECIMALS = 9  # differences closer than this are ties, not rounding of a sum of floats
_EXACT = 100


@dataclasses.dataclass(frozen=True)
class SignedRank:
    """A two-sided Wilcoxon signed-rank test.

    `problems` have a value on both sides; `zeros` of them are equal on both and were dropped
    before ranking. `p` is 1.0 where no difference is left.
    """

    p: float
    problems: int
    zeros: int


def wilcoxon(values: FloatArray, baseline: FloatArray) -> SignedRank:
    """Return Wilcoxon's signed-rank test of `values` against `baseline`, paired over problems.

    Both are (P,); NaN on either side leaves the problem out. Two-sided; zero differences are
    dropped (Wilcoxon's own rule), equal ones share their mean rank. The p-value is that of the
    exact distribution up to 100 differences, ties or not, and of the normal approximation with the
    tie correction above. Source: "The Best of N Worlds", section 4.5, which names the test and
    leaves sides and zeros open; these are the defaults of `scipy.stats.wilcoxon`.

    Raises InvalidValueError for different shapes, MissingDependencyError without SciPy.
    """
    if values.shape != baseline.shape or values.ndim != 1:
        raise InvalidValueError(
            f"wilcoxon: needs two arrays of shape (P,), got {values.shape} and {baseline.shape}"
        )
    stats = _scipy_stats()
    differences = np.round(values - baseline, _DECIMALS)
    differences = differences[~np.isnan(differences)]
    moved = differences[differences != 0]
    if len(moved) > _EXACT:
        p = float(stats.wilcoxon(moved, method="approx").pvalue)
    else:
        p = _exact_p(moved, stats.rankdata(np.abs(moved)))
    return SignedRank(p=p, problems=len(differences), zeros=len(differences) - len(moved))


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
    [0, 1], MissingDependencyError without SciPy.
    """
    for p in p_values:
        if not 0 <= p <= 1:
            raise InvalidValueError(f"p_values: must lie in [0, 1], got {p!r}")
    if not p_values:
        return []
    adjusted: list[float] = _scipy_stats().false_discovery_control(list(p_values)).tolist()
    return adjusted


def _scipy_stats() -> Any:
    try:
        from scipy import stats
    except ImportError as error:
        raise MissingDependencyError(
            "comparing models needs the package 'scipy': pip install 'maxatk[report]'"
        ) from error
    return stats
