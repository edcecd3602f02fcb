"""Credit minus baseline, for every legal pair of the two.

A function here returns the difference, never the baseline alone: the leave-one-out difference is
a sum of terms that are not negative, which subtracting two near numbers would lose. To add a
pair, write a function of a `Group` and a correction and give it a line in `NUMERATORS`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from before.objectives.checks import FloatArray
from before.objectives.credits import CREDITS, MASSES, Correction, Group, on_policy_credits
from before.objectives.subsets import sums_after, sums_before

CreditName: TypeAlias = Literal["reward", "best", "max_at_k"]
Baseline: TypeAlias = Literal["none", "mean", "second_best", "leave_one_out", "constant"]

LEAST_TOTAL = 0.1
"""The constant baseline divides by the sum of the weights of a constant reward, k on-policy. The
first-order expansion can make it vanish or turn negative: a group below this share of k is
treated as on-policy."""


@dataclasses.dataclass(frozen=True)
class Numerator:
    """Credit minus baseline, (P, n), and its slope in the sample's own delta, (P, n).

    `values` has the own ratio removed; `values + deltas * slopes` has it included.
    """

    values: FloatArray
    slopes: FloatArray


def reward(group: Group, _: Correction) -> Numerator:
    """Return the rewards."""
    return _multiplied(group.rewards)


def reward_mean(group: Group, _: Correction) -> Numerator:
    """Return the rewards minus their mean: eq. (5) before the division."""
    return _multiplied(_centred(group.rewards))


def reward_leave_one_out(group: Group, _: Correction) -> Numerator:
    """Return the rewards minus the mean of the other samples' rewards (RLOO)."""
    n = group.rewards.shape[-1]
    return _multiplied(_centred(group.rewards) * (n / max(n - 1, 1)))


def best(group: Group, _: Correction) -> Numerator:
    """Return the reward of the best samples, 0 for the others."""
    return _multiplied(np.where(_is_best(group), group.rewards, 0.0))


def best_mean(group: Group, _: Correction) -> Numerator:
    """Return BoN-max-mean of appendix A: reward minus mean for the best samples, else 0."""
    return _multiplied(np.where(_is_best(group), _centred(group.rewards), 0.0))


def best_second(group: Group, _: Correction) -> Numerator:
    """Return BoN-max-second of appendix A: reward minus the second best distinct value, or 0."""
    is_best = _is_best(group)
    second = np.where(is_best, -np.inf, group.rewards).max(axis=-1, keepdims=True)
    gap = group.rewards - np.where(np.isfinite(second), second, group.rewards[:, -1:])
    return _multiplied(np.where(is_best, gap, 0.0))


def max_at_k(group: Group, correction: Correction) -> Numerator:
    """Return the credits, eq. (9) or (10), without a baseline."""
    credit = CREDITS[correction](group)
    return Numerator(credit.values, credit.slopes)


def max_at_k_mean(group: Group, correction: Correction) -> Numerator:
    """Return the credits minus their mean over the group."""
    plain = max_at_k(group, correction)
    return Numerator(_centred(plain.values), _centred(plain.slopes))


def max_at_k_leave_one_out(group: Group, correction: Correction) -> Numerator:
    """Return LOO-1: (1/C(n,k)) sum over the others' (k-1)-subsets J of omega(J) (r_i - max J)_+.

    The positive part adds up the steps of the sorted rewards below r_i, each weighed by the
    subsets J that lie below the step: a prefix sum. It is never negative for the corrections none
    and exact, exactly 0 for ties, and blind to a shift of the rewards. For k = 1 the maximum of
    the empty J does not exist: see `_leave_one_out_single`.
    """
    if group.k == 1:
        return _leave_one_out_single(group, correction)
    values = group.climbed(MASSES[correction](group))
    if correction != "first_order":
        return Numerator(values, values)
    return Numerator(values, group.climbed(MASSES["none"](group)))


def max_at_k_constant(group: Group, correction: Correction) -> Numerator:
    """Return w[r] - c w[1] with one constant c a group such that its sum vanishes.

    w[r] are the weights with the own ratio in them, linear in the rewards r, and w[1] those of a
    constant reward; the values have the own ratio removed again. It is 0 for equal rewards
    whatever the ratios, and `max_at_k_mean` where all ratios are 1. Where the first-order sum of
    w[1] falls below `LEAST_TOTAL` of its on-policy value the group is treated as on-policy.
    """
    credit = CREDITS[correction](group)
    total = _sum(credit.units + group.deltas * credit.unit_slopes)
    trusted = (correction == "exact") | (total >= LEAST_TOTAL * group.k)
    weighted = _sum(credit.values + group.deltas * credit.slopes)
    constant = weighted / np.where(trusted, total, 1.0)
    values = credit.values - constant * credit.units
    slopes = credit.slopes - constant * credit.unit_slopes
    fallback = max_at_k_mean(group, "none")
    return Numerator(
        np.where(trusted, values, fallback.values), np.where(trusted, slopes, fallback.slopes)
    )


def _leave_one_out_single(group: Group, correction: Correction) -> Numerator:
    """Return (r_i - mean of the others) / n; off-policy the mean is weighed by their ratios.

    Dividing by the sum of the ratios keeps the mean within the rewards; it does not contain
    sample i, so the gradient stays unbiased.
    """
    values = _above_others(group.gains, 1 + group.deltas)
    if correction == "exact":
        return Numerator(values, values)
    plain = _above_others(group.gains, np.ones((1, 1)))
    return Numerator(plain if correction == "none" else values, plain)


def _above_others(gains: FloatArray, ratios: FloatArray) -> FloatArray:
    n = gains.shape[-1]
    if n == 1:
        return np.zeros_like(gains)
    # Summed from both sides: a total minus the own term would cancel where that term dominates.
    products, ratios = gains * ratios, np.broadcast_to(ratios, gains.shape)
    total = sums_before(ratios) + sums_after(ratios)
    above: FloatArray = (gains - (sums_before(products) + sums_after(products)) / total) / n
    return above


def _multiplied(values: FloatArray) -> Numerator:
    return Numerator(values, values)


def _centred(values: FloatArray) -> FloatArray:
    centred: FloatArray = values - values.mean(axis=-1, keepdims=True)
    return centred


def _sum(values: FloatArray) -> FloatArray:
    total: FloatArray = values.sum(axis=-1, keepdims=True)
    return total


def _is_best(group: Group) -> npt.NDArray[np.bool_]:
    top: npt.NDArray[np.bool_] = group.rewards == group.rewards[:, -1:]
    return top


def _rewards(group: Group) -> FloatArray:
    return group.rewards


def _max_at_k_on_policy(group: Group) -> FloatArray:
    return on_policy_credits(group).values


NUMERATORS: Mapping[tuple[CreditName, Baseline], Callable[[Group, Correction], Numerator]] = {
    ("reward", "none"): reward,
    ("reward", "mean"): reward_mean,
    ("reward", "leave_one_out"): reward_leave_one_out,
    ("best", "none"): best,
    ("best", "mean"): best_mean,
    ("best", "second_best"): best_second,
    ("max_at_k", "none"): max_at_k,
    ("max_at_k", "mean"): max_at_k_mean,
    ("max_at_k", "leave_one_out"): max_at_k_leave_one_out,
    ("max_at_k", "constant"): max_at_k_constant,
}
"""Every legal pair of credit and baseline; a pair that is not here is refused by `Method`."""

SPREADS: Mapping[CreditName, Callable[[Group], FloatArray]] = {
    "reward": _rewards,
    "best": _rewards,
    "max_at_k": _max_at_k_on_policy,
}
"""The on-policy values (P, n), up to a constant, whose spread the scale "std" looks at."""
