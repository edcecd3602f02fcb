"""The one rule: advantage = statistic of the group - baseline made of the other samples.

Let m be a statistic of a group and b_i any function of the samples other than i. Then
A_i = m - b_i has E[sum_i A_i grad log pi(y_i)] = grad E[m], because E[b_i grad log pi(y_i)] = 0.

Where m and b_i are weighted sums of ascending rewards (W and B), only the steps between
neighbours enter. The step from the m-th to the (m+1)-th reward pays `up` to every sample above
it and charges `down` to every sample below it:

    A_i = level r_(1) + sum_{m < i} up_m step_m - sum_{m >= i} down_m step_m,
    A_{i+1} - A_i = (up_m + down_m) step_m = B_m step_m at m = i: one prefix sum.

Each function of a baseline takes the weights w (k,) of one subset size; `rule_of` sums over the
sizes of a mixture.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from maxatk.objectives.checks import FloatArray
from maxatk.objectives.order import OrderWeights, lifted
from maxatk.objectives.subsets import sums_after

SHORT = 64
"""Up to this many samples a product with an (n, n) matrix is faster than a running sum."""


@dataclasses.dataclass(frozen=True, eq=False)
class Rule:
    """What the steps of n ascending rewards are worth to the samples above and below them.

    `group` (n,) is W, `up` and `down` (n-1,) sum to B; `level` is sum W - sum B, the value of a
    reward of one that all samples share.
    """

    group: FloatArray
    up: FloatArray
    down: FloatArray
    level: float = 0.0

    def __add__(self, other: Rule) -> Rule:
        up, down = self.up + other.up, self.down + other.down
        return Rule(self.group + other.group, up, down, self.level + other.level)

    @functools.cached_property
    def climb(self) -> FloatArray:
        """Return what each step adds to the advantage of the next sample, (n,), 0 for the first."""
        return np.concatenate([[0.0], self.up + self.down])

    @functools.cached_property
    def lowest(self) -> FloatArray:
        """Return what the lowest reward and the steps are worth to the lowest sample, (n,)."""
        return np.concatenate([[self.level], -self.down])

    @functools.cached_property
    def matrix(self) -> FloatArray:
        """Return the matrix (n, n) from the lowest reward and the steps to the advantages."""
        up = np.concatenate([[self.level], self.up])
        below = np.tri(len(up), k=-1, dtype=bool)
        return np.where(below, self.lowest[:, None], up[:, None])


def credit(weights: FloatArray, n: int) -> Rule:
    """Return eq. (9) for any weights: the subsets that hold i, C(n,k)^-1 sum_{I with i} m(I)."""
    k = len(weights)
    shared = k / n * lifted(weights[1:], n - 1)
    down = -shared - sums_after(shared)
    others = (n - k) / n * lifted(weights, n - 1)
    return Rule(lifted(weights, n), others - down, down, k / n * float(weights.sum()))


def mean(weights: FloatArray, n: int) -> Rule:
    """Return the credits minus their mean: remove_one times 1 - k/n, and 0 for k = n."""
    return remove_one((1 - len(weights) / n) * weights, n)


def remove_one(weights: FloatArray, n: int) -> Rule:
    """Return m(all) - m(without i), for n > k: what is below a step pays for what is above."""
    others, below = lifted(weights, n - 1), np.arange(1, n)
    return Rule(lifted(weights, n), others * below / n, others * (n - below) / n)


def replace_one(weights: FloatArray, n: int) -> Rule:
    """Return m(all) minus the mean over replacing sample i by each of the others."""
    group = lifted(weights, n)
    up, down = split(group)
    return Rule(group, up[1:], down[:-1])


def leave_one_out(weights: FloatArray, n: int) -> Rule:
    """Return LOO-1: each subset's statistic minus its mean over replacing i by the subset's others.

    A subset of one has no others: those of the group stand in (RLOO).
    """
    if len(weights) == 1:
        return replace_one(weights, n)
    up, down = (lifted(share, n) for share in split(weights))
    return Rule(lifted(weights, n), up[1:], down[:-1])


def others_credit(weights: FloatArray, n: int) -> Rule:
    """Return PKPO's sloo: the credit minus the mean credit of the other samples as a group.

    That mean is k/(n-1) times the statistic of the others. A constant reward of one keeps
    k/n - k/(n-1); for k = n there is no baseline. Source: 2505.15201.
    """
    own, k = credit(weights, n), len(weights)
    if k == n:
        return own
    others = k / (n - 1) * lifted(weights, n - 1)
    above = sums_after(others)
    level = own.level - k / (n - 1) * float(weights.sum())
    return Rule(own.group, own.up - above, own.down + above + others, level)


def split(weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the shares of weights (k,) for the samples above and for those below a step.

    They are (m-1) w_m / (k-1) and (k-m) w_m / (k-1), which sum to w_m: the first is what a member
    gains over the mean of replacing it by each of the others, for the step below rank m.
    """
    k = len(weights)
    if k == 1:
        return np.zeros(1), np.zeros(1)
    rank = np.arange(k)
    return weights * rank / (k - 1), weights * (k - 1 - rank) / (k - 1)


RuleOf: TypeAlias = Callable[[FloatArray, int], Rule]


@functools.lru_cache(64)  # of some 30 n bytes each (short groups: 8 n^2)
def rule_of(weights: OrderWeights, baseline: RuleOf, n: int) -> Rule:
    """Return the rule of a statistic and a baseline for groups of n >= weights.size."""
    return functools.reduce(operator.add, (baseline(part, n) for part in weights.parts(n)))


def advantages_of(rewards: FloatArray, scores: FloatArray | None, rule: Rule) -> FloatArray:
    """Return the advantages (P, n) of rewards in ascending order, or in that of their scores."""
    if scores is not None and (scores[:, 1:] == scores[:, :-1]).any():
        return _selected_of(rewards, scores, rule)
    steps = steps_of(rewards)
    if rewards.shape[1] <= SHORT:
        return steps @ rule.matrix
    lowest = steps @ rule.lowest if rule.lowest.any() else None
    steps *= rule.climb
    np.cumsum(steps, axis=-1, out=steps)
    if lowest is not None:
        steps += lowest[:, None]
    return steps


def steps_of(rewards: FloatArray) -> FloatArray:
    """Return the first reward and the steps between neighbours, (P, n)."""
    flat, steps = rewards.ravel(), np.empty(rewards.shape)
    # As one long row, which is faster than P short ones; the joints are overwritten.
    np.subtract(flat[1:], flat[:-1], out=steps.ravel()[1:])
    steps[:, 0] = rewards[:, 0]
    return steps


def _selected_of(rewards: FloatArray, scores: FloatArray, rule: Rule) -> FloatArray:
    """Return the advantages (P, n) of rewards in ascending order of scores with ties, (P, n).

    They are averaged over all orders of ties: members of one share the mean of W over its places.
    Without sample i, the ties below keep their places in B, those above move down by one, and its
    own tie loses the last one.
    """
    n = rewards.shape[1]
    start, end = ties(scores)
    size, others = end - start, np.cumsum(rule.climb)
    total = (rewards * selected_weights(rule.group, scores)).sum(axis=1, keepdims=True)
    below = _row_sums(rewards * (others[np.minimum(end, n - 1)] - others[start]) / size)
    above = _row_sums(rewards * (others[end - 1] - others[np.maximum(start - 1, 0)]) / size)
    tied = _row_sums(rewards)
    own = (others[end - 1] - others[start]) / np.maximum(size - 1, 1)
    baseline = np.take_along_axis(below, start, 1)
    baseline += above[:, -1:] - np.take_along_axis(above, end, 1)
    rest = np.take_along_axis(tied, end, 1) - np.take_along_axis(tied, start, 1) - rewards
    advantages: FloatArray = total - baseline - rest * own
    return advantages


def selected_weights(weights: FloatArray, scores: FloatArray) -> FloatArray:
    """Return the weights (P, n) of ascending scores: tied ones have the mean of theirs."""
    start, end = ties(scores)
    whole = np.concatenate([[0.0], np.cumsum(weights)])
    shared: FloatArray = (whole[end] - whole[start]) / (end - start)
    return shared


def ties(scores: FloatArray) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return where the tie of each ascending score starts and where it ends, (P, n) both."""
    at = np.arange(scores.shape[1])
    steps = scores[:, 1:] != scores[:, :-1]
    edge = np.ones((len(scores), 1), dtype=bool)
    start = np.maximum.accumulate(np.where(np.hstack([edge, steps]), at, 0), axis=1)
    last = np.where(np.hstack([steps, edge]), at, at[-1])
    return start, np.minimum.accumulate(last[:, ::-1], axis=1)[:, ::-1] + 1


def _row_sums(values: FloatArray) -> FloatArray:
    return np.pad(np.cumsum(values, axis=1), [(0, 0), (1, 0)])
