"""How far a difference holds over S training seeds, P problems and K values of k."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from maxatk.check import require
from maxatk.statistics.intervals import FloatArray, mean_and_error
from maxatk.statistics.tests import PairedDifference, equal_problems, smallest_sign_flip_p, t_test

FEWEST_SEEDS = 3
_ENOUGH = f"of {FEWEST_SEEDS} seeds or more"
_MOST_FLIPPED = 20  # 2^20 sums
_ROUNDING = 1e-9  # of sums that would be equal without it


def over_seeds(differences: Sequence[FloatArray]) -> PairedDifference:
    """Return the mean difference over seeds that each have problems of their own, and its t-test.

    differences: (P, K) of every seed, NaN where a model has no value. The test is that of the S
    means over problems: it speaks of other seeds with other problems of the same kind. Where a seed
    has no value there is no mean (NaN) and p is 1; where all seeds have the same difference there
    is no interval, and p is that of the sign flips. Raises InvalidValueError below three seeds.
    """
    require(len(differences) >= FEWEST_SEEDS, "differences", _ENOUGH, len(differences))
    by_seed = np.array([mean_and_error(of_seed)[0] for of_seed in differences])
    mean, error, seeds = mean_and_error(by_seed)
    whole = seeds == len(differences)
    signs = smallest_sign_flip_p(seeds - equal_problems(by_seed))
    mean, error = np.where(whole, mean, np.nan), np.where(whole, error, np.nan)
    low, high, p = t_test(mean, error, seeds - 1, signs=np.where(whole, signs, 1.0))
    rows = np.concatenate(list(differences))
    problems = (~np.isnan(rows)).sum(axis=0)
    return PairedDifference(mean, low, high, problems, p=p, zeros=equal_problems(rows))


def over_seeds_and_problems(differences: FloatArray) -> PairedDifference:
    """Return the mean difference over seeds that share their problems, and its crossed t-test.

    differences: (S, P, K). The variance of the mean is s_seed^2 / S + s_problem^2 / P -
    s_rest^2 / (S P) of the spreads of the seeds' means, of the problems' means and of what neither
    explains, and never less than that of either alone. A problem without a value in some seed is
    left out. p is never below that of flipping the signs of the problems that differ; below two
    problems it is 1, without an interval. Source: the two-way random-effects model without
    replication, Satterthwaite (1946). Raises InvalidValueError below three seeds.
    """
    seeds = len(differences)
    require(seeds >= FEWEST_SEEDS, "differences", _ENOUGH, seeds)
    whole = np.where(np.isnan(differences).any(axis=0), np.nan, differences)
    of_problems = whole.mean(axis=0)
    mean, problem_error, problems = mean_and_error(of_problems)
    of_seeds = np.array([mean_and_error(one)[0] for one in whole])
    rest = whole - of_problems - of_seeds[:, None] + mean
    rest_df = (seeds - 1) * np.where(problems > 1, problems - 1, np.nan)
    # The parts of the variance of the mean: each the mean square of its kind over S P.
    by_problem = problem_error**2
    by_seed = mean_and_error(of_seeds)[1] ** 2
    by_rest = np.nansum(rest**2, axis=(0, 1)) / rest_df / (seeds * problems)
    variance = np.maximum(by_problem + by_seed - by_rest, np.maximum(by_problem, by_seed))
    squares = by_problem**2 / (problems - 1) + by_seed**2 / (seeds - 1) + by_rest**2 / rest_df
    df = variance**2 / np.where(squares > 0, squares, np.nan)
    df = np.fmax(df, np.minimum(seeds, problems) - 1)
    zeros = equal_problems(of_problems)
    signs = smallest_sign_flip_p(problems - zeros)
    agreed = np.maximum(signs, smallest_sign_flip_p(seeds))
    low, high, p = t_test(mean, np.sqrt(variance), df, signs=agreed)
    return PairedDifference(mean, low, high, problems, p=np.maximum(p, signs), zeros=zeros)


def sign_flip_p(by_seed: Sequence[float]) -> float | None:
    """Return the exact two-sided p of flipping the signs of seeds; None above 20, or with NaN."""
    if len(by_seed) > _MOST_FLIPPED or not all(map(math.isfinite, by_seed)):
        return None
    sums = np.zeros(1)
    for difference in by_seed:
        sums = np.concatenate([sums + difference, sums - difference])
    found = abs(math.fsum(by_seed))
    slack = _ROUNDING * sum(map(abs, by_seed))
    return float(np.mean(np.abs(sums) >= found - slack))
