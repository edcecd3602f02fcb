"""Is one model better, over P problems, S training seeds and K values of k? Arrays in and out."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from maxatk.check import at_least, require
from maxatk.statistics.intervals import (
    DECIMALS,
    LEVEL,
    ROUNDING,
    FloatArray,
    Interval,
    mean_and_error,
    t_quantile,
)

_EXACT = 100  # differences up to which Wilcoxon's p is exact
_MOST_FLIPPED = 20  # 2^20 sums

FEWEST_SEEDS = 3
_ENOUGH = f"of {FEWEST_SEEDS} seeds or more"


@dataclasses.dataclass(frozen=True)
class PairedDifference(Interval):
    """Means of a difference with their intervals, two-sided p and the equal problems: (K,) each."""

    p: FloatArray
    zeros: npt.NDArray[np.int64]


def paired_difference(values: FloatArray, baseline: FloatArray) -> PairedDifference:
    """Return the mean of `values - baseline` over problems with its t-interval and its t-test.

    Both are (P, K), row by row the same problem; problems with NaN on either side are left out. p
    is never below 2^(1 - m) for m problems that differ, the smallest that flipping their signs can
    give. Where all differences are the same, or only one is known, there is no interval (NaN), and
    p is that smallest one. Raises InvalidValueError for different shapes and without problems.
    """
    require(values.shape == baseline.shape, "values", f"of shape {baseline.shape}", values.shape)
    differences = values - baseline
    mean, error, problems = mean_and_error(differences)
    zeros = equal_problems(differences)
    signs = smallest_sign_flip_p(problems - zeros)
    low, high, p = t_test(mean, error, problems - 1, signs=signs)
    return PairedDifference(mean, low, high, problems, p=np.maximum(p, signs), zeros=zeros)


def equal_problems(differences: FloatArray) -> npt.NDArray[np.int64]:
    """Return how many of the differences (P, K) are zero but for rounding: (K,)."""
    zeros: npt.NDArray[np.int64] = (np.abs(differences) < ROUNDING).sum(axis=0)  # NaN is not
    return zeros


def t_test(
    mean: FloatArray, error: FloatArray, df: npt.ArrayLike, *, signs: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the ends of the 95% t-intervals of means and their two-sided p: (K,) each.

    `error` are their standard errors with `df` degrees of freedom. Where there is no spread,
    Student's t says nothing: the ends are NaN, and p is `signs`, that of flipping the signs.
    """
    from scipy import special

    df = np.maximum(df, 1)
    spread = np.where(error > ROUNDING, error, np.nan)
    half = t_quantile((1 + LEVEL) / 2, df) * spread
    t = np.abs(mean / spread)
    two_sided = 2 * special.stdtr(df, -t)
    p = np.where(np.isnan(spread), signs, two_sided)
    return mean - half, mean + half, p


def smallest_sign_flip_p(moved: npt.ArrayLike) -> FloatArray:
    """Return the two-sided p of flipping the signs of m differences that agree: 2^(1 - m), or 1."""
    smallest: FloatArray = np.minimum(1.0, 2.0 ** (1 - np.asarray(moved, dtype=np.float64)))
    return smallest


def fewest_problems(alpha: float) -> int:
    """Return the fewest problems that differ for which `smallest_sign_flip_p` is at most alpha."""
    return 1 + math.ceil(-math.log2(alpha))


def wilcoxon(values: FloatArray, baseline: FloatArray) -> float:
    """Return the p of Wilcoxon's signed-rank test of `values` against `baseline`, two-sided.

    Both are (P,); NaN and zero differences are left out, equal ones share their mean rank. p is
    exact up to 100 differences, and above that of the normal approximation with the tie correction.
    Source: "The Best of N Worlds", section 4.5. Raises InvalidValueError for different shapes.
    """
    require(values.shape == baseline.shape, "values", f"of shape {baseline.shape}", values.shape)
    require(values.ndim == 1, "values", "of shape (P,)", values.shape)
    from scipy import stats

    differences = np.round(values - baseline, DECIMALS)
    differences = differences[~np.isnan(differences)]
    moved = differences[differences != 0]
    if len(moved) > _EXACT:
        return float(stats.wilcoxon(moved, method="approx").pvalue)
    # The rank sum of the positive ones when every sign is a fair coin. Ranks of ties are halves:
    # doubled, all are whole.
    ranks = stats.rankdata(np.abs(moved))
    doubled = np.round(2 * ranks).astype(np.int64)
    chances = np.ones(1)
    for rank in doubled:
        if_negative = np.pad(chances, (0, rank))
        if_positive = np.pad(chances, (rank, 0))
        chances = 0.5 * (if_negative + if_positive)
    rank_sum = int(doubled[moved > 0].sum())
    at_most = chances[: rank_sum + 1].sum()
    at_least = chances[rank_sum:].sum()
    return float(min(1.0, 2 * min(at_most, at_least)))


def adjusted_p_values(p_values: Sequence[float]) -> list[float]:
    """Return Benjamini-Hochberg (1995) adjusted p-values, in the order given.

    Of those up to q at most the share q is false on average, if no two tests oppose each other.
    """
    from scipy import stats

    return stats.false_discovery_control(list(p_values)).tolist() if p_values else []


def variance_of_shared_choices(seeds: int) -> float:
    """Return by what the variance of a mean over S seeds grows where they choose for one another.

    Each seed is reported by the model that the other S - 1 choose. So every value has a part in the
    choice behind every other, and the spread of the values is smaller than their error. The factor
    is 1 + S / (S - 1), of the corrected resampled t-test with S splits of S - 1 to 1. Source:
    Nadeau and Bengio (2003), "Inference for the generalization error". Raises InvalidValueError
    below two seeds.
    """
    at_least("seeds", seeds, 2)
    return 1 + seeds / (seeds - 1)


def over_seeds(
    differences: Sequence[FloatArray], *, variance_factor: float = 1.0
) -> PairedDifference:
    """Return the mean difference over seeds that each have problems of their own, and its t-test.

    differences: (P, K) of every seed, NaN where a model has no value. The test is that of the S
    means over problems: it speaks of other seeds with other problems of the same kind. Where a seed
    has no value there is no mean (NaN) and p is 1; where all seeds have the same difference there
    is no interval, and p is that of the sign flips. The variance over seeds is taken times
    `variance_factor`, see `variance_of_shared_choices`. Raises InvalidValueError below three seeds.
    """
    require(len(differences) >= FEWEST_SEEDS, "differences", _ENOUGH, len(differences))
    by_seed = np.array([mean_and_error(of_seed)[0] for of_seed in differences])
    mean, error, seeds = mean_and_error(by_seed)
    error = math.sqrt(variance_factor) * error
    signs = smallest_sign_flip_p(seeds - equal_problems(by_seed))
    # The mean over some of the seeds would be that of other seeds at each k.
    has_all_seeds = seeds == len(differences)
    mean = np.where(has_all_seeds, mean, np.nan)
    error = np.where(has_all_seeds, error, np.nan)
    low, high, p = t_test(mean, error, seeds - 1, signs=np.where(has_all_seeds, signs, 1.0))
    all_problems = np.concatenate(list(differences))
    problems = (~np.isnan(all_problems)).sum(axis=0)
    zeros = equal_problems(all_problems)
    return PairedDifference(mean, low, high, problems, p=p, zeros=zeros)


def over_seeds_and_problems(
    differences: FloatArray, *, variance_factor: float = 1.0
) -> PairedDifference:
    """Return the mean difference over seeds that share their problems, and its crossed t-test.

    differences: (S, P, K). The variance of the mean is s_seed^2 / S + s_problem^2 / P -
    s_rest^2 / (S P) of the spreads of the seeds' means, of the problems' means and of what neither
    explains, and never less than that of either alone. s_seed^2 is taken times `variance_factor`,
    as in `over_seeds`. A problem without a value in some seed is left out. p is never below that of
    flipping the signs of the problems that differ; below two problems it is 1, without an interval.
    Source: the two-way random-effects model without replication, Satterthwaite (1946). Raises
    InvalidValueError below three seeds.
    """
    seeds = len(differences)
    require(seeds >= FEWEST_SEEDS, "differences", _ENOUGH, seeds)
    # Crossed: every problem has a value in every seed, or in none.
    crossed = np.where(np.isnan(differences).any(axis=0), np.nan, differences)
    mean, variance, df = _crossed_variance(crossed, variance_factor)
    of_problems = crossed.mean(axis=0)
    problems = (~np.isnan(of_problems)).sum(axis=0)
    zeros = equal_problems(of_problems)
    # The floor of every p is what the signs of the problems that differ can show. Without any
    # spread seeds and problems agree: then the fewer of them say how surely.
    by_problems = smallest_sign_flip_p(problems - zeros)
    by_the_fewer = np.maximum(by_problems, smallest_sign_flip_p(seeds))
    low, high, p = t_test(mean, np.sqrt(variance), df, signs=by_the_fewer)
    return PairedDifference(mean, low, high, problems, p=np.maximum(p, by_problems), zeros=zeros)


def _crossed_variance(
    crossed: FloatArray, variance_factor: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the mean of differences (S, P, K), its variance and degrees of freedom: (K,) each.

    A problem has a value in every seed, or NaN in all. In the model d_sp = m + a_s + b_p + e_sp the
    variance of the mean over S seeds and P problems is estimated by

        v = v_problem + v_seed - v_rest, and at least max(v_problem, v_seed),

    of v_problem = Var_p(d_.p) / P and v_seed = f Var_s(d_s.) / S, which both contain the rest, f
    being the `variance_factor`, and
    v_rest = sum_sp (d_sp - d_s. - d_.p + m)^2 / ((S - 1) (P - 1)) / (S P), which is taken off once.
    Satterthwaite's degrees of freedom are

        v^2 / (v_problem^2 / (P - 1) + v_seed^2 / (S - 1) + v_rest^2 / ((S - 1) (P - 1))),

    and at least those of the smaller side. The variance of fewer than two problems is NaN.
    """
    seeds = len(crossed)
    of_problems = crossed.mean(axis=0)  # (P, K)
    of_seeds = np.array([mean_and_error(of_seed)[0] for of_seed in crossed])  # (S, K)
    mean, problem_error, problems = mean_and_error(of_problems)
    _, seed_error, _ = mean_and_error(of_seeds)
    v_problem = problem_error**2
    v_seed = variance_factor * seed_error**2

    residuals = crossed - of_problems - of_seeds[:, None] + mean
    sum_of_squares = np.nansum(residuals**2, axis=(0, 1))
    seed_df = seeds - 1
    problem_df = problems - 1
    rest_df = seed_df * np.where(problem_df > 0, problem_df, np.nan)
    v_rest = sum_of_squares / rest_df / (seeds * problems)

    least = np.maximum(v_problem, v_seed)
    variance = np.maximum(v_problem + v_seed - v_rest, least)
    problem_term = v_problem**2 / problem_df
    seed_term = v_seed**2 / seed_df
    rest_term = v_rest**2 / rest_df
    denominator = problem_term + seed_term + rest_term
    df = variance**2 / np.where(denominator > 0, denominator, np.nan)
    return mean, variance, np.fmax(df, np.minimum(seeds, problems) - 1)


def sign_flip_p(by_seed: Sequence[float]) -> float | None:
    """Return the exact two-sided p of flipping the signs of seeds; None above 20, or with NaN."""
    if len(by_seed) > _MOST_FLIPPED or not all(map(math.isfinite, by_seed)):
        return None
    sums = np.zeros(1)
    for difference in by_seed:
        kept = sums + difference
        flipped = sums - difference
        sums = np.concatenate([kept, flipped])
    observed = abs(math.fsum(by_seed))
    slack = ROUNDING * sum(map(abs, by_seed))
    as_large = np.abs(sums) >= observed - slack
    return float(np.mean(as_large))
