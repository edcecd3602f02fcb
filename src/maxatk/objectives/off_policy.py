"""Credits of samples of an older policy, and their baselines.

The credit c_i = (1/C(n,k)) sum_J omega(J) m(J with i) is the weight of eq. (10) without the own
ratio. omega(J) of the (k-1)-subsets J of the others is 1 + sum of delta over J ("first_order", for
max@k) or the product of rho over J ("exact"). With the own ratio the weight is c_i + delta_i
slope_i: functions return a pair (P, n), credit minus baseline without it, and the slope.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from maxatk.objectives import rule, subsets
from maxatk.objectives.checks import FloatArray
from maxatk.objectives.group import Group
from maxatk.objectives.subsets import sums_after, sums_before
from maxatk.objectives.symmetric import joined_sums, prefix_means, stepwise_sums

# The least sum of the first-order weights of a constant reward, over that on-policy (k), by which
# the constant baseline divides: the expansion can make it vanish or turn negative.
_LEAST_TOTAL = 0.1

Pair: TypeAlias = tuple[FloatArray, FloatArray]
Corrected: TypeAlias = Callable[[Group], Pair]


class Credits(NamedTuple):
    """The credits of a group's rewards, and of a constant reward of one."""

    rewards: Pair
    unit: Pair
    positive: bool  # those of one are


def first_order(group: Group) -> Credits:
    """Return the expansion of section 3.3 and appendix E with the own delta_i set to 0, O(n)."""
    rewards, deltas, k = group.rewards, group.deltas, group.k
    n = rewards.shape[-1]
    pair, triple = subsets.pair_weights(n, k), subsets.triple_weights(n, k)
    earlier = sums_before(deltas)
    diagonal = subsets.max_weights(n, k) + pair * earlier
    others = sums_after(rewards * (pair * (1 + deltas) + triple * earlier))
    # The sums of delta over the samples before j > i count i itself, which must not be there.
    values = rewards * diagonal + others - deltas * sums_after(rewards * triple)
    rest = deltas.sum(axis=-1, keepdims=True) - deltas
    units = k / n + (k * (k - 1) / (n * max(n - 1, 1))) * rest
    slopes, unit_slopes = group.on_policy(rule.credit), np.full((1, 1), k / n)
    return Credits((values, slopes), (units, unit_slopes), positive=False)


def exact(group: Group) -> Credits:
    """Return eq. (10) for any weights, exactly, the own ratio removed: O(n k) a part.

    Rewards above the group's lowest and a constant reward are computed apart: neither sum cancels.
    """
    gains, ratios = group.rewards - group.rewards[:, :1], 1 + group.deltas
    values, units = np.zeros_like(gains), np.zeros_like(gains)
    for part in group.weights.parts(gains.shape[-1]):
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
    return Credits((values, values), (units, units), positive=True)


def constant(credits: Credits, group: Group) -> Pair:
    """Return the weights of r - c, such that a group's sum with the own ratios is 0, without those.

    Where a first-order sum is below `_LEAST_TOTAL` it is the baseline "mean" on-policy.
    """
    both = credits.rewards, credits.unit
    weighted, total = (
        (own + group.deltas * slope).sum(axis=-1, keepdims=True) for own, slope in both
    )
    trusted = credits.positive | (total >= _LEAST_TOTAL * group.k)
    shift = weighted / np.where(trusted, total, 1.0)
    values, slopes = (own - shift * unit for own, unit in zip(*both, strict=True))
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

    What the ratios add to the exact rule `plain` is averaged over the order of the samples and its
    reverse: exact for two tied samples, to second order in delta for more.
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
    pairs = subsets.pair_weights(n, group.k) * sums_before(group.deltas)
    return _climbed(group, subsets.max_weights(n, group.k) + pairs), plain


def exact_leave_one_out(group: Group) -> Pair:
    """Return LOO-1: (1/C(n,k)) sum over the others' (k-1)-subsets J of rho(J) times the gain of i.

    The gain is that of `rule.leave_one_out`, a prefix sum: for max@k (r_i - max J)_+.
    """
    n, ratios = group.rewards.shape[-1], 1 + group.deltas

    def of(part: FloatArray) -> FloatArray:
        k = len(part)
        if k == 1:
            return float(part[0]) * _above_others(group)
        if part[:-1].any():
            return stepwise_sums(np.diff(group.rewards), ratios, *rule.split(part))
        weights = part[-1] * subsets.max_weights(n, k)
        return _climbed(group, weights * prefix_means(ratios, k - 1))

    values = functools.reduce(operator.add, map(of, group.weights.parts(n)))
    return values, values


def exact_replace_one(group: Group) -> Pair:
    """Return LOO-1 minus what replace_one subtracts more on-policy, made of the others only."""
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
    """Return (r_i - mean of the others) / n, the mean weighed by their ratios: LOO-1 for k = 1."""
    gains, ratios = group.rewards - group.rewards[:, :1], 1 + group.deltas
    # Summed from both sides: a total minus the own term would cancel where that term dominates.
    products = gains * ratios
    total = sums_before(ratios) + sums_after(ratios)
    mean = (sums_before(products) + sums_after(products)) / total
    above: FloatArray = (gains - mean) / gains.shape[-1]
    return above
