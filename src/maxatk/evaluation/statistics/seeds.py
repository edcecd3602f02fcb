"""How far a difference holds over training seeds: the mean of the seeds, t, and sign flips."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from maxatk.errors import InvalidValueError
from maxatk.evaluation.statistics.intervals import LEVEL, FloatArray, student_mean
from maxatk.evaluation.statistics.paired import PairedDifference
from maxatk.evaluation.statistics.student import student_p

FEWEST_SEEDS = 3
_MOST_FLIPPED = 20  # 2^20 sums
_ROUNDING = 1e-9  # of differences that would be equal without it


@dataclasses.dataclass(frozen=True)
class SeedDifference:
    """The difference of two models over training seeds.

    `by_seed` are the paired means over the prompts of each seed, `mean` is their mean. `low` and
    `high` are the ends of its 95% t-interval and `p` is that of the t-test, both with S - 1 degrees
    of freedom for S seeds; None for fewer than three seeds. `sign_flip_p` is the share of the 2^S
    choices of signs whose mean is at least as far from 0, None above 20 seeds.

    Where all seeds have the same difference, as few problems with few rewards make them have, t
    knows no spread: `low` and `high` are None, and `p` is that of the sign flips.
    """

    by_seed: tuple[float, ...]
    mean: float
    low: float | None
    high: float | None
    p: float | None
    sign_flip_p: float | None

    @property
    def above(self) -> int:
        """The number of seeds in which the first model is above the second."""
        return sum(difference > 0 for difference in self.by_seed)


def seed_difference(by_seed: Sequence[float]) -> SeedDifference:
    """Return what the differences of two models, one a seed, say of another seed.

    The models of a seed share their base model and prompts, so the seed is the unit that is
    repeated: prompts of one seed are not independent of each other. Raises InvalidValueError
    without seeds, and for a difference that is not finite.
    """
    if len(by_seed) == 0 or not all(math.isfinite(difference) for difference in by_seed):
        raise InvalidValueError(
            f"by_seed: must hold a finite difference of every seed, got {list(by_seed)!r}"
        )
    tested = len(by_seed) >= FEWEST_SEEDS
    found = student_mean(np.array([by_seed], dtype=np.float64).T, level=LEVEL)
    mean, half = float(found.mean[0]), float(found.high[0] - found.mean[0])
    bounded = tested and not _agree(by_seed)
    return SeedDifference(
        by_seed=tuple(float(difference) for difference in by_seed),
        mean=mean,
        low=mean - half if bounded else None,
        high=mean + half if bounded else None,
        p=_t_test_p(by_seed) if tested else None,
        sign_flip_p=sign_flip_p(by_seed),
    )


def seed_differences(by_seed: FloatArray, *, problems: int) -> PairedDifference:
    """Return `seed_difference` of several columns as one record.

    by_seed: (S, K), the means over the problems of every seed, three seeds or more. `problems` is
    their number, and `zeros` counts seeds. Raises InvalidValueError as `seed_difference`, and for
    fewer seeds.
    """
    if len(by_seed) < FEWEST_SEEDS:
        raise InvalidValueError(f"by_seed: needs {FEWEST_SEEDS} seeds or more, got {len(by_seed)}")
    found = [seed_difference(column.tolist()) for column in by_seed.T]
    return PairedDifference(
        mean=np.array([one.mean for one in found]),
        low=np.array([one.low for one in found], dtype=np.float64),
        high=np.array([one.high for one in found], dtype=np.float64),
        problems=np.full(len(found), problems),
        p=np.array([one.p for one in found], dtype=np.float64),
        zeros=(by_seed == 0).sum(axis=0),
    )


def sign_flip_p(by_seed: Sequence[float]) -> float | None:
    """Return the exact two-sided p of flipping the signs of the seeds; None above 20 seeds.

    It assumes no more than that a seed favours either model alike if they are equal. The smallest
    value it can have is `smallest_sign_flip_p`.
    """
    if len(by_seed) > _MOST_FLIPPED:
        return None
    sums = np.zeros(1)
    for difference in by_seed:
        sums = np.concatenate([sums + difference, sums - difference])
    found = abs(math.fsum(by_seed))
    slack = _ROUNDING * sum(map(abs, by_seed))
    return float(np.mean(np.abs(sums) >= found - slack))


def smallest_sign_flip_p(seeds: int) -> float:
    """Return the p of seeds that all agree, 2^(1 - S): with five no test is below 0.0625."""
    return 2.0 ** (1 - seeds)


def _agree(by_seed: Sequence[float]) -> bool:
    return max(by_seed) - min(by_seed) <= _ROUNDING * max(map(abs, by_seed))


def _t_test_p(by_seed: Sequence[float]) -> float:
    differences = np.array(by_seed, dtype=np.float64)
    if _agree(by_seed):
        return smallest_sign_flip_p(len(differences)) if differences.any() else 1.0
    error = differences.std(ddof=1) / math.sqrt(len(differences))
    return student_p(float(differences.mean() / error), len(differences) - 1)
