"""The scales: what credit minus baseline is divided by, one function each.

Divisors have the shape (P, 1). One of 0 marks a group without signal: its advantages are 0.
"""

from __future__ import annotations

import math

import numpy as np

from maxatk.objectives import rule
from maxatk.objectives.checks import FloatArray
from maxatk.objectives.group import Group, centred, root_sum_of_squares
from maxatk.objectives.methods import Method

_STD_DDOF = 1  # n - 1, as TRL's GRPOTrainer; eq. (5) is silent
_STD_EPSILON = 1e-4  # added to the std, in the unit of the credits: as TRL
_LEAST_STD = 1e-6  # under a correction, on-policy credits that spread less have no signal


def divisors_of(group: Group, method: Method, values: FloatArray) -> FloatArray:
    """Return what a method with a scale divides credit minus baseline, `values` (P, n), by."""
    if method.scale == "std":
        return std(group, method, values)
    if method.scale == "mean":
        return mean_reward(group)
    return std_of_subsets(group)


def std(group: Group, method: Method, values: FloatArray) -> FloatArray:
    """Return max(std of the on-policy credits, std of `values`) + 1e-4, with n - 1, as TRL.

    `values` are credit minus baseline, whose std a correction changes. It is 0 where the credits
    spread so little that nothing but rounding, or the noise of a correction, would be scaled up.
    """
    is_ordered = method.credit_row.order is not None
    credits = group.on_policy(rule.mean) if is_ordered else group.centred_rewards
    of_credits = _std(credits)
    larger = of_credits
    if values is not credits:  # the baseline "mean" on-policy: they have been measured
        larger = np.maximum(of_credits, _std(centred(values)))
    divisor: FloatArray = larger + _STD_EPSILON
    if not is_ordered:
        return divisor
    if method.correction != "none":
        # Ratios spread values even where the rewards hardly do: the credits alone have a signal.
        least = np.maximum(_LEAST_STD, _rounding_of_credits(group))
        return np.where(of_credits < least, 0.0, divisor)
    if method.keeps_level:  # equal rewards have values, which are divided by 1e-4 alone
        return divisor
    return np.where(larger < _rounding_of_credits(group), 0.0, divisor)


def _std(deviations: FloatArray) -> FloatArray:
    """Return the standard deviation of groups (P, n) of deviations from their means, (P, 1)."""
    n = deviations.shape[-1]
    return root_sum_of_squares(deviations) / math.sqrt(max(n - _STD_DDOF, 1))


def _rounding_of_credits(group: Group) -> FloatArray:
    """Return the spread below which that of credits, sums of n rewards, is rounding, (P, 1)."""
    n = group.rewards.shape[-1]
    return np.asarray(np.ptp(n * np.finfo(float).eps * group.rewards, axis=-1, keepdims=True))


def mean_reward(group: Group) -> FloatArray:
    """Return the mean reward, as MaxRL has it (2602.02710), and 0 where it is rounding."""
    mean = group.rewards.mean(axis=-1, keepdims=True)
    return np.where(np.abs(mean) <= _rounding_of_sums(group), 0.0, mean)


def std_of_subsets(group: Group) -> FloatArray:
    """Return k/n times the std of the statistic over the k-subsets (2508.10751).

    It is 0 where the rewards differ by the rounding of a sum alone, which it would scale up.
    """
    n = group.rewards.shape[-1]
    shares = group.weights.of_group(n)
    if group.scores is not None:
        shares = rule.selected_weights(shares, group.scores)
    # Measured down from the best reward: equal rewards are 0, and rounding leaves no spread.
    below = group.rewards[:, -1:] - group.rewards
    mean = (below * shares).sum(axis=1, keepdims=True)
    spread = group.k / n * root_sum_of_squares((below - mean) * np.sqrt(shares))
    are_equal = np.ptp(group.rewards, axis=-1, keepdims=True) <= _rounding_of_sums(group)
    return np.where(are_equal, 0.0, spread)


def _rounding_of_sums(group: Group) -> FloatArray:
    """Return what rounding makes of a sum that is as large as the rewards, (P, 1)."""
    n = group.rewards.shape[-1]
    largest = np.abs(group.rewards).max(axis=-1, keepdims=True)
    return np.asarray(n * np.finfo(float).eps * largest)
