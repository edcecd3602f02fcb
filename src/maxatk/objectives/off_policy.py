"""Credits of samples of an older policy, and their baselines.

The credit c_i multiplies rho_i grad log pi(y_i) in the gradient of max@k: the weight of eq. (10)
without the sample's own ratio, since a surrogate carries rho_i. Every correction weighs the
(k-1)-subsets J of the others by some omega(J), and c_i = (1/C(n,k)) sum_J omega(J) m(J with i):

    first_order (of the paper, for max@k): 1 + sum of delta over J
    exact (any order weights): product of rho over J

With the own ratio in it the weight is c_i + delta_i slope_i, where the slope is c_i itself for the
products and the on-policy credit for the first order. So every function of a baseline returns a
pair (P, n): credit minus baseline without the own ratio, and its slope in the own delta.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from maxatk.objectives import rule
from maxatk.objectives.checks import FloatArray
from maxatk.objectives.group import Group
from maxatk.objectives.subsets import (
    max_weights,
    pair_weights,
    sums_after,
    sums_before,
    triple_weights,
)
from maxatk.objectives.symmetric import joined_sums, prefix_means, stepwise_sums

LEAST_TOTAL = 0.1
"""The least sum of the first-order weights of a constant reward, over that on-policy (k), by which
the constant baseline divides: the expansion can make it vanish or turn negative."""

Pair: TypeAlias = tuple[FloatArray, FloatArray]
Corrected: TypeAlias = Callable[[Group], Pair]


@dataclasses.dataclass(frozen=True)
class Credits:
    """The credits (P, n) of a group's rewards, those of a constant reward of one, and their slopes.

    `unit_slopes` may be (1, 1); `positive` tells that the credits of a constant cannot vanish.
    """

    values: FloatArray
    units: FloatArray
    slopes: FloatArray
    unit_slopes: FloatArray
    positive: bool


def first_order(group: Group) -> Credits:
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
    slopes = group.on_policy(rule.credit)
    return Credits(values, units, slopes, np.full((1, 1), k / n), False)


def exact(group: Group) -> Credits:
    """Return eq. (10) for any weights, exactly, the own ratio removed: O(n k) a part.

    The credits of the rewards above the group's lowest and those of a constant reward are computed
    apart and put together: for a maximum, without a sign in it, neither sum cancels.
    """
    gains, ratios = group.rewards - group.rewards[:, :1], group.ratios
    values, units = np.zeros_like(gains), np.zeros_like(gains)
    for part in group.order.parts(gains.shape[-1]):
        k, total = len(part), float(part.sum())
        own, one = joined_sums(np.stack([gains, np.ones_like(gains)]), ratios, k)
        if part[:-1].any():
            # A member above or below a step has the subset's value, the weights above the step.
            value = np.cumsum(part[::-1])[::-1]
            values += stepwise_sums(np.diff(gains), ratios, value, part - value)
        else:
            values += total * own
        units += total * one
    values += group.rewards[:, :1] * units
    return Credits(values, units, values, units, True)


def constant(credits: Credits, group: Group) -> Pair:
    """Return w[r] - c w[1] with one constant c a group such that its sum vanishes.

    w[r] are the weights of the rewards with the own ratio in them, and w[1] those of a constant
    reward; the values have the own ratio removed again. It is 0 for equal rewards whatever the
    ratios, and the baseline "mean" where all are 1, or a first-order sum is below `LEAST_TOTAL`.
    """
    total = (credits.units + group.deltas * credits.unit_slopes).sum(axis=-1, keepdims=True)
    trusted = credits.positive | (total >= LEAST_TOTAL * group.k)
    weighted = (credits.values + group.deltas * credits.slopes).sum(axis=-1, keepdims=True)
    shift = weighted / np.where(trusted, total, 1.0)
    values = credits.values - shift * credits.units
    slopes = credits.slopes - shift * credits.unit_slopes
    if not np.all(trusted):
        fallback = group.on_policy(rule.mean)
        values, slopes = (np.where(trusted, own, fallback) for own in (values, slopes))
    return values, slopes


def of_both(baseline: Callable[[Credits, Group], Pair]) -> Mapping[str, Corrected]:
    """Return a baseline that is made of credits, by the name of the correction."""
    return {
        "first_order": lambda group: baseline(first_order(group), group),
        "exact": lambda group: baseline(exact(group), group),
    }


def over_ties(corrected: Corrected, plain: rule.RuleOf, group: Group) -> Pair:
    """Return the pair of a baseline, tied scores of a selection averaged over their orders.

    Without ratios, by the rule `plain`, the average over all orders is known. What the ratios add
    is averaged over the order of the samples and its reverse: exact for two tied samples, of
    second order in delta for more. Any fixed order is unbiased.
    """
    if group.scores is None or not (group.scores[:, 1:] == group.scores[:, :-1]).any():
        return corrected(group)
    start, end = rule.ties(group.scores)
    prompts, n = start.shape
    places, rows = np.arange(n), np.arange(0, prompts * n, n)[:, None]
    untied = np.broadcast_to(np.arange(float(n)), start.shape)
    both = []
    for order in (np.broadcast_to(places, start.shape), start + end - 1 - places):
        own = dataclasses.replace(group.at(order + rows), scores=untied)
        without = own.on_policy(plain)
        # The reverse of a tie is its own inverse, and so is the order of the samples.
        both.append([np.take_along_axis(x - without, order, 1) for x in corrected(own)])
    average = group.on_policy(plain)
    values, slopes = ((one + other) / 2 + average for one, other in zip(*both, strict=True))
    return values, slopes


def first_order_leave_one_out(group: Group) -> Pair:
    """Return LOO-1 with the weight 1 + sum of delta of the (k-1)-subsets below each step."""
    n, plain = group.rewards.shape[-1], group.on_policy(rule.leave_one_out)
    if group.k == 1:
        return _above_others(group), plain
    below = max_weights(n, group.k) + pair_weights(n, group.k) * sums_before(group.deltas)
    return _climbed(group, below), plain


def exact_leave_one_out(group: Group) -> Pair:
    """Return LOO-1: (1/C(n,k)) sum over the others' (k-1)-subsets J of rho(J) times the gain of i.

    The gain is that of `rule.leave_one_out`, for max@k (r_i - max J)_+. There the steps of the
    sorted rewards below r_i, each weighed by the subsets J below the step, make a prefix sum:
    never negative, exactly 0 for ties. Blind to a shift of the rewards for any weights.
    """
    n, values = group.rewards.shape[-1], np.zeros_like(group.rewards)
    for part in group.order.parts(n):
        k = len(part)
        if k == 1:
            values += float(part[0]) * _above_others(group)
        elif part[:-1].any():
            values += stepwise_sums(np.diff(group.rewards), group.ratios, *rule.split(part))
        else:
            below = part[-1] * max_weights(n, k) * prefix_means(group.ratios, k - 1)
            values += _climbed(group, below)
    return values, values


def exact_replace_one(group: Group) -> Pair:
    """Return LOO-1 minus what replace_one would subtract more from it on-policy.

    That difference is made of the other samples only: the gradient stays unbiased.
    """
    more = group.on_policy(rule.leave_one_out) - group.on_policy(rule.replace_one)
    values = exact_leave_one_out(group)[0] - more
    return values, values


def _climbed(group: Group, weights: FloatArray) -> FloatArray:
    """Return the weighted steps of the rewards up to each sample, summed: (P, n)."""
    steps = rule.steps_of(group.rewards)
    steps[:, 0] = 0.0
    steps *= weights
    np.cumsum(steps, axis=-1, out=steps)
    return steps


def _above_others(group: Group) -> FloatArray:
    """Return (r_i - mean of the others) / n, the mean weighed by their ratios: LOO-1 for k = 1.

    Dividing by the sum of the ratios keeps the mean within the rewards.
    """
    gains, ratios = group.rewards - group.rewards[:, :1], group.ratios
    n = gains.shape[-1]
    # Summed from both sides: a total minus the own term would cancel where that term dominates.
    products = gains * ratios
    total = sums_before(ratios) + sums_after(ratios)
    above: FloatArray = (gains - (sums_before(products) + sums_after(products)) / total) / n
    return above
