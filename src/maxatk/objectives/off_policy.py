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
from maxatk.objectives.group import Group, Places, centred
from maxatk.objectives.subsets import sums_after, sums_before
from maxatk.objectives.symmetric import joined_sums, prefix_means, stepwise_sums

# The least sum of the first-order weights of a constant reward, over that on-policy (k), by which
# the constant baseline divides: the expansion can make it vanish or turn negative.
_LEAST_TOTAL = 0.1

Pair: TypeAlias = tuple[FloatArray, FloatArray]
Corrected: TypeAlias = Callable[[Group], Pair]


class CorrectedCredits(NamedTuple):
    """The credits of a group's rewards, and of a constant reward of one."""

    rewards: Pair
    unit: Pair
    positive: bool  # those of one are


def first_order(group: Group) -> CorrectedCredits:
    """Return the expansion of section 3.3 and appendix E with the own delta_i set to 0, O(n).

    c_i = r_i (w_i + p_i sum_{l<i} delta_l)
        + sum_{j>i} r_j (p_j (1 + delta_j) + t_j sum_{l<j, l != i} delta_l),

    w, p and t being `subsets.max_weights`, `pair_weights` and `triple_weights`.
    """
    rewards = group.rewards
    deltas = group.deltas
    k = group.k
    n = rewards.shape[-1]
    pair = subsets.pair_weights(n, k)
    triple = subsets.triple_weights(n, k)
    earlier = sums_before(deltas)
    largest = subsets.max_weights(n, k) + pair * earlier
    of_larger = sums_after(rewards * (pair * (1 + deltas) + triple * earlier))
    # The sums of delta over the samples before j > i count i itself, which must not be there.
    values = rewards * largest + of_larger - deltas * sums_after(rewards * triple)
    # A constant reward has the same value in every subset: only how often two samples meet counts.
    deltas_of_others = deltas.sum(axis=-1, keepdims=True) - deltas
    units = k / n + (k * (k - 1) / (n * max(n - 1, 1))) * deltas_of_others
    slopes = group.on_policy(rule.credit)
    unit_slopes = np.full((1, 1), k / n)
    return CorrectedCredits((values, slopes), (units, unit_slopes), positive=False)


def exact(group: Group) -> CorrectedCredits:
    """Return eq. (10) for any weights, exactly, the own ratio removed: O(n k) a part.

    Rewards above the group's lowest and a constant reward are computed apart: neither sum cancels.
    """
    lowest = group.rewards[:, :1]
    gains = group.rewards - lowest
    ratios = 1 + group.deltas
    values = np.zeros_like(gains)
    units = np.zeros_like(gains)
    both = np.stack([gains, np.ones_like(gains)])
    for part in group.weights.parts(gains.shape[-1]):
        total = float(part.sum())
        of_largest, of_one = joined_sums(both, ratios, len(part))
        if part[:-1].any():
            # A member above or below a step has the subset's value, the weights above the step.
            value = np.cumsum(part[::-1])[::-1]
            values += stepwise_sums(np.diff(gains), ratios, value, part - value)
        else:
            values += total * of_largest
        units += total * of_one
    values += lowest * units
    # The exact weight is linear in the own ratio: its slope is the weight without it.
    return CorrectedCredits((values, values), (units, units), positive=True)


def credit(credits: CorrectedCredits, _group: Group) -> Pair:
    """Return the baseline "none": the credits themselves."""
    return credits.rewards


def mean(credits: CorrectedCredits, _group: Group) -> Pair:
    """Return the baseline "mean": c_i - mean of the c_j, of both sides of the pair."""
    values, slopes = credits.rewards
    return centred(values), centred(slopes)


def constant(credits: CorrectedCredits, group: Group) -> Pair:
    """Return the weights of r - c, w_i[r] - c w_i[1], such that a group's sum is 0.

    The sum has the own ratios, the weights that are returned have not. Where the sum of w[1] to
    first order is below `_LEAST_TOTAL` it is the baseline "mean" on-policy.
    """
    values, slopes = credits.rewards
    units, unit_slopes = credits.unit
    weighted = (values + group.deltas * slopes).sum(axis=-1, keepdims=True)
    total = (units + group.deltas * unit_slopes).sum(axis=-1, keepdims=True)
    trusted = credits.positive | (total >= _LEAST_TOTAL * group.k)
    shift = weighted / np.where(trusted, total, 1.0)
    values = values - shift * units
    slopes = slopes - shift * unit_slopes
    if not np.all(trusted):
        fallback = group.on_policy(rule.mean)
        values = np.where(trusted, values, fallback)
        slopes = np.where(trusted, slopes, fallback)
    return values, slopes


def of_credits(
    baseline: Callable[[CorrectedCredits, Group], Pair],
) -> Mapping[str, Corrected]:
    """Return a baseline that is made of credits, by the name of the correction."""
    return {
        "first_order": lambda group: baseline(first_order(group), group),
        "exact": lambda group: baseline(exact(group), group),
    }


def first_order_leave_one_out(group: Group) -> Pair:
    """Return LOO-1, sum over J of (1 + sum of delta over J) (r_i - max J)_+ / C(n, k).

    J are the (k-1)-subsets of the others: a prefix sum of steps, of which each counts with the
    weight of the subsets below it.
    """
    n = group.rewards.shape[-1]
    slopes = group.on_policy(rule.leave_one_out)
    if group.k == 1:
        return _above_others(group), slopes
    pairs = subsets.pair_weights(n, group.k) * sums_before(group.deltas)
    values = _climbed(group, subsets.max_weights(n, group.k) + pairs)
    return values, slopes


def exact_leave_one_out(group: Group) -> Pair:
    """Return LOO-1, sum over J of rho(J) gain(i, J) / C(n, k), J the (k-1)-subsets of the others.

    The gain is that of `rule.leave_one_out`: for max@k (r_i - max J)_+.
    """
    parts = group.weights.parts(group.rewards.shape[-1])
    values = functools.reduce(operator.add, (_exact_leave_one_out(group, part) for part in parts))
    return values, values


def _exact_leave_one_out(group: Group, part: FloatArray) -> FloatArray:
    """Return `exact_leave_one_out` of the weights of one subset size, (P, n)."""
    k = len(part)
    ratios = 1 + group.deltas
    if k == 1:
        return float(part[0]) * _above_others(group)
    if part[:-1].any():
        return stepwise_sums(np.diff(group.rewards), ratios, *rule.split(part))
    # A maximum: the samples below a step alone decide what it is worth to those above it.
    weights = part[-1] * subsets.max_weights(group.rewards.shape[-1], k)
    return _climbed(group, weights * prefix_means(ratios, k - 1))


def exact_replace_one(group: Group) -> Pair:
    """Return LOO-1 minus what replace_one subtracts more on-policy, made of the others only."""
    difference = group.on_policy(rule.leave_one_out) - group.on_policy(rule.replace_one)
    values = exact_leave_one_out(group)[0] - difference
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
    gains = group.rewards - group.rewards[:, :1]
    ratios = 1 + group.deltas
    # Summed from both sides: a total minus the own term would cancel where that term dominates.
    products = gains * ratios
    total = sums_before(ratios) + sums_after(ratios)
    mean_of_others = (sums_before(products) + sums_after(products)) / total
    above: FloatArray = (gains - mean_of_others) / gains.shape[-1]
    return above


def over_ties(corrected: Corrected, make_rule: rule.MakeRule, group: Group) -> Pair:
    """Return the pair of a baseline, tied scores of a selection averaged over their orders.

    What the ratios add to the rule, which averages exactly, is averaged over the order of the
    samples and its reverse: exact for two tied samples, to second order in delta for more.
    """
    if group.scores is None or not (group.scores[:, 1:] == group.scores[:, :-1]).any():
        return corrected(group)
    start, end = rule.ties(group.scores)
    forwards = np.broadcast_to(np.arange(start.shape[1]), start.shape)
    backwards = start + end - 1 - forwards  # the reverse of each tie
    values, slopes = _added_by_ratios(corrected, make_rule, group, forwards)
    values_back, slopes_back = _added_by_ratios(corrected, make_rule, group, backwards)
    average = group.on_policy(make_rule)
    return (values + values_back) / 2 + average, (slopes + slopes_back) / 2 + average


def _added_by_ratios(
    corrected: Corrected, make_rule: rule.MakeRule, group: Group, order: Places
) -> Pair:
    """Return what the ratios add to a rule where the samples (P, n) of a tie have this order."""
    prompts, n = order.shape
    first_places = np.arange(0, prompts * n, n)[:, None]
    untied_scores = np.broadcast_to(np.arange(float(n)), order.shape)
    ordered = dataclasses.replace(group.at(order + first_places), scores=untied_scores)
    without_ratios = ordered.on_policy(make_rule)
    values, slopes = corrected(ordered)
    # Both orders are their own inverse, so that they lead back as well.
    return (
        np.take_along_axis(values - without_ratios, order, 1),
        np.take_along_axis(slopes - without_ratios, order, 1),
    )
