"""Credits of samples of an older policy, and their baselines.

The credit c_i is what multiplies rho_i grad log pi(y_i) in the gradient of max@k: the weight of
eq. (10) with the sample's own ratio removed, so that a surrogate that carries rho_i counts it
once. Every correction weighs a (k-1)-subset J of the other samples by some omega(J):

    first_order: 1 + sum of delta over J        exact: product of rho over J

and c_i = (1/C(n,k)) sum_J omega(J) m(J with i). The first order is that of the paper, for max@k;
the exact one takes any order weights. What the sample's own delta_i adds is linear
too: the weight with the own ratio in it is c_i + delta_i slope_i, where the slope is c_i itself
for the products and the on-policy credit for the first-order expansion.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

from maxatk.objectives.checks import FloatArray
from maxatk.objectives.group import Group, RawAdvantage
from maxatk.objectives.plain import centred
from maxatk.objectives.rule import split
from maxatk.objectives.subsets import (
    max_weights,
    pair_weights,
    sums_after,
    sums_before,
    triple_weights,
)
from maxatk.objectives.symmetric import joined_sums, prefix_means, stepwise_sums

LEAST_TOTAL = 0.1
"""The constant baseline divides by the sum of the weights of a constant reward, k on-policy. The
first-order expansion can make it vanish or turn negative: a group below this share of k is
treated as on-policy."""


@dataclasses.dataclass(frozen=True)
class Credits:
    """The credits of a group's rewards, those of a constant reward of one, and their slopes.

    All are (P, n), or (1, 1) where one number stands for every sample. `positive` tells that the
    credits of a constant cannot vanish.
    """

    values: FloatArray
    units: FloatArray
    slopes: FloatArray
    unit_slopes: FloatArray
    positive: bool


def first_order_credits(group: Group) -> Credits:
    """Return the expansion of section 3.3 and appendix E with the own delta_i set to 0, O(n)."""
    rewards, deltas, k = group.rewards, group.deltas, group.k
    n = rewards.shape[-1]
    pair, triple, earlier = pair_weights(n, k), triple_weights(n, k), sums_before(deltas)
    diagonal = max_weights(n, k) + pair * earlier
    others = sums_after(rewards * (pair * (1 + deltas) + triple * earlier))
    # The sums of delta over the samples before j > i count i itself, which must not be there.
    values = rewards * diagonal + others - deltas * sums_after(rewards * triple)
    rest = deltas.sum(axis=-1, keepdims=True) - deltas
    units = k / n + (k * (k - 1) / (n * max(n - 1, 1))) * rest
    return Credits(values, units, group.credits, np.full((1, 1), k / n), False)


def exact_credits(group: Group) -> Credits:
    """Return eq. (10) for any weights, exactly, the own ratio removed: O(n k) a part.

    The credits of the rewards above the group's lowest and those of a constant reward are computed
    apart and put together: for a maximum, without a sign in it, neither sum cancels.
    """
    gains, ratios = group.gains, 1 + group.deltas
    values, units = np.zeros_like(gains), np.zeros_like(gains)
    for part in group.order.parts(gains.shape[-1]):
        k, total = len(part), float(part.sum())
        own, one = joined_sums(np.stack([gains, np.ones_like(gains)]), ratios, k)
        if part[:-1].any():
            # A member above or below a step has the subset's value, the weights above the step.
            value = np.cumsum(part[::-1])[::-1]
            own = stepwise_sums(np.diff(gains), ratios, value, part - value)
        values += own if part[:-1].any() else total * own
        units += total * one
    values += group.rewards[:, :1] * units
    return Credits(values, units, values, units, True)


def no_baseline(credits: Credits, _: Group) -> RawAdvantage:
    """Return the credits, eq. (10), without a baseline."""
    return RawAdvantage(credits.values, credits.slopes)


def mean(credits: Credits, _: Group) -> RawAdvantage:
    """Return the credits minus their mean over the group."""
    return RawAdvantage(centred(credits.values), centred(credits.slopes))


def constant(credits: Credits, group: Group) -> RawAdvantage:
    """Return w[r] - c w[1] with one constant c a group such that its sum vanishes.

    w[r] are the weights with the own ratio in them, linear in the rewards r, and w[1] those of a
    constant reward; the values have the own ratio removed again. It is 0 for equal rewards
    whatever the ratios, and the baseline "mean" where all ratios are 1. Where the first-order sum
    of w[1] falls below `LEAST_TOTAL` of its on-policy value the group is treated as on-policy.
    """
    total = _sum(credits.units + group.deltas * credits.unit_slopes)
    trusted = credits.positive | (total >= LEAST_TOTAL * group.k)
    weighted = _sum(credits.values + group.deltas * credits.slopes)
    shift = weighted / np.where(trusted, total, 1.0)
    values = credits.values - shift * credits.units
    slopes = credits.slopes - shift * credits.unit_slopes
    if not np.all(trusted):
        fallback = group.on_policy("mean")
        values, slopes = (np.where(trusted, own, fallback) for own in (values, slopes))
    return RawAdvantage(values, slopes)


def first_order_leave_one_out(group: Group) -> RawAdvantage:
    """Return LOO-1 with the weight 1 + sum of delta of the (k-1)-subsets below each step."""
    n, plain = group.rewards.shape[-1], group.on_policy("leave_one_out")
    if group.k == 1:
        return RawAdvantage(_above_others(group), plain)
    below = max_weights(n, group.k) + pair_weights(n, group.k) * sums_before(group.deltas)
    return RawAdvantage(_climbed(group, below), plain)


def exact_leave_one_out(group: Group) -> RawAdvantage:
    """Return LOO-1: (1/C(n,k)) sum over the others' (k-1)-subsets J of rho(J) times the gain of i.

    The gain is that of `rule.leave_one_out`, for max@k (r_i - max J)_+. There the steps of the
    sorted rewards below r_i, each weighed by the subsets J that lie below the step, make a prefix
    sum: never negative, exactly 0 for ties. Blind to a shift of the rewards for any weights. A
    part with k = 1 is `_above_others`.
    """
    n, ratios = group.rewards.shape[-1], np.broadcast_to(1 + group.deltas, group.rewards.shape)
    values = np.zeros(group.rewards.shape)
    for part in group.order.parts(n):
        k = len(part)
        if k == 1:
            values += part[0] * _above_others(group)
        elif part[:-1].any():
            values += stepwise_sums(np.diff(group.rewards), ratios, *split(part))
        else:
            below = part[-1] * max_weights(n, k) * prefix_means(ratios, k - 1)
            values += _climbed(group, below)
    return RawAdvantage(values, values)


def exact_replace_one(group: Group) -> RawAdvantage:
    """Return LOO-1 minus what replace_one would subtract more from it on-policy.

    That difference is made of the other samples only, so that the gradient stays unbiased; the
    ratios would add nothing to it but time.
    """
    more = group.on_policy("leave_one_out") - group.on_policy("replace_one")
    values = exact_leave_one_out(group).values - more
    return RawAdvantage(values, values)


def _climbed(group: Group, weights: FloatArray) -> FloatArray:
    """Return the weighted steps of the rewards up to each sample, summed: (P, n)."""
    climbed = group.steps * weights
    climbed[:, 0] = 0.0
    np.cumsum(climbed, axis=-1, out=climbed)
    return climbed


def _above_others(group: Group) -> FloatArray:
    """Return (r_i - mean of the others) / n, the mean weighed by their ratios: LOO-1 for k = 1.

    Dividing by the sum of the ratios keeps the mean within the rewards; it does not contain
    sample i, so the gradient stays unbiased.
    """
    gains, ratios = group.gains, np.broadcast_to(1 + group.deltas, group.rewards.shape)
    n = gains.shape[-1]
    if n == 1:
        return np.zeros_like(gains)
    # Summed from both sides: a total minus the own term would cancel where that term dominates.
    products = gains * ratios
    total = sums_before(ratios) + sums_after(ratios)
    above: FloatArray = (gains - (sums_before(products) + sums_after(products)) / total) / n
    return above


def _sum(values: FloatArray) -> FloatArray:
    total: FloatArray = values.sum(axis=-1, keepdims=True)
    return total


Corrected = Callable[[Group], RawAdvantage]


def _of(
    credits: Callable[[Group], Credits], baseline: Callable[[Credits, Group], RawAdvantage]
) -> Corrected:
    return lambda group: baseline(credits(group), group)


CORRECTIONS: Mapping[str, Mapping[str, Corrected]] = {
    "first_order": {
        "none": _of(first_order_credits, no_baseline),
        "mean": _of(first_order_credits, mean),
        "constant": _of(first_order_credits, constant),
        "leave_one_out": first_order_leave_one_out,
    },
    "exact": {
        "none": _of(exact_credits, no_baseline),
        "mean": _of(exact_credits, mean),
        "constant": _of(exact_credits, constant),
        "leave_one_out": exact_leave_one_out,
        "replace_one": exact_replace_one,
    },
}
"""The corrections by name: each baseline that goes with it, and its formula."""
