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
        return Rule(
            group=self.group + other.group,
            up=self.up + other.up,
            down=self.down + other.down,
            level=self.level + other.level,
        )

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
    """Return the baseline "none": the credit c_i of eq. (9) itself, for any weights.

    c_i = sum of m(I) / C(n, k) over the k-subsets I that hold sample i, which is m(all) minus
    (n - k)/n m(without i).
    """
    k = len(weights)
    # A sample below a step takes one of the lower ranks, so that the members of its subset above
    # the step have the weights from the second on.
    shared = k / n * lifted(weights[1:], n - 1)
    down = -shared - sums_after(shared)
    without = (n - k) / n * lifted(weights, n - 1)
    return Rule(lifted(weights, n), without - down, down, k / n * float(weights.sum()))


def mean(weights: FloatArray, n: int) -> Rule:
    """Return the baseline "mean": c_i - mean of the c_j = (1 - k/n) (m(all) - m(without i)).

    It is `remove_one` times 1 - k/n, and 0 for k = n.
    """
    return remove_one((1 - len(weights) / n) * weights, n)


def remove_one(weights: FloatArray, n: int) -> Rule:
    """Return the baseline "remove_one": m(all) - m(without i), for n > k.

    A step is worth B to the group without one sample. Of that the m samples below it pay the
    share (n - m) / n and those above it are paid m / n, so that the advantages sum to 0.
    """
    without = lifted(weights, n - 1)
    below = np.arange(1, n)
    return Rule(lifted(weights, n), without * below / n, without * (n - below) / n)


def replace_one(weights: FloatArray, n: int) -> Rule:
    """Return the baseline "replace_one": m(all) - sum over j != i of m(i replaced by j) / (n - 1).

    At k = 1 it is RLOO, at k = n `leave_one_out`.
    """
    group = lifted(weights, n)
    up, down = split(group)
    return Rule(group, up[1:], down[:-1])


def leave_one_out(weights: FloatArray, n: int) -> Rule:
    """Return the baseline "leave_one_out", LOO-1: `replace_one` inside each subset that holds i.

    A_i = sum over I of (m(I) - mean over j of m(I with r_j in the place of r_i)) / C(n, k), I being
    the k-subsets with i and j the other members: for max@k sum over I of (r_i - max of the
    others)_+ / C(n, k). A subset of one has no others, and those of the group stand in (RLOO).
    Source: appendix A; Walder & Karkhanis (2505.15201).
    """
    if len(weights) == 1:
        return replace_one(weights, n)
    up, down = (lifted(share, n) for share in split(weights))
    return Rule(lifted(weights, n), up[1:], down[:-1])


def others_credit(weights: FloatArray, n: int) -> Rule:
    """Return the baseline "others_credit", PKPO's sloo: c_i - mean credit of the others alone.

    That mean is k/(n-1) m(without i), so a reward of one that all share keeps k/n - k/(n-1). For
    k = n the others form no subset, and there is no baseline. Source: 2505.15201.
    """
    k = len(weights)
    credited = credit(weights, n)
    if k == n:
        return credited
    others_weights = k / (n - 1) * lifted(weights, n - 1)
    above = sums_after(others_weights)
    level = credited.level - k / (n - 1) * float(weights.sum())
    return Rule(credited.group, credited.up - above, credited.down + above + others_weights, level)


def split(weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the shares of weights (k,) for the samples above and for those below a step.

    They are (m-1) w_m / (k-1) and (k-m) w_m / (k-1), which sum to w_m. For the step below rank m
    the first is the gain of a member above it over its mean replacement by each of the others.
    """
    k = len(weights)
    if k == 1:
        return np.zeros(1), np.zeros(1)
    lower = np.arange(k)  # how many members are below each
    higher = k - 1 - lower
    return weights * lower / (k - 1), weights * higher / (k - 1)


MakeRule: TypeAlias = Callable[[FloatArray, int], Rule]
"""The rule of a baseline, of the weights w (k,) of one subset size and the size n of a group."""


@functools.lru_cache(64)  # of some 30 n bytes each (short groups: 8 n^2)
def rule_of(weights: OrderWeights, make_rule: MakeRule, n: int) -> Rule:
    """Return the rule of a statistic and a baseline for groups of n >= weights.size."""
    rules = [make_rule(part, n) for part in weights.parts(n)]
    return functools.reduce(operator.add, rules)


def advantages_of(rewards: FloatArray, scores: FloatArray | None, rule: Rule) -> FloatArray:
    """Return the advantages (P, n) of rewards in ascending order, or in that of their scores."""
    if scores is not None and (scores[:, 1:] == scores[:, :-1]).any():
        return _selected_of(rewards, scores, rule)
    steps = steps_of(rewards)
    if rewards.shape[1] <= SHORT:
        return steps @ rule.matrix
    lowest = steps @ rule.lowest if rule.lowest.any() else None
    # In place from here on: a large batch is read and written as few times as possible.
    steps *= rule.climb
    np.cumsum(steps, axis=-1, out=steps)
    if lowest is not None:
        steps += lowest[:, None]
    return steps


def steps_of(rewards: FloatArray) -> FloatArray:
    """Return the first reward and the steps between neighbours, (P, n)."""
    steps = np.empty(rewards.shape)
    flat = rewards.ravel()
    # As one long row, which is faster than P short ones; the joints are overwritten.
    np.subtract(flat[1:], flat[:-1], out=steps.ravel()[1:])
    steps[:, 0] = rewards[:, 0]
    return steps


def _selected_of(rewards: FloatArray, scores: FloatArray, rule: Rule) -> FloatArray:
    """Return the advantages (P, n) of rewards in ascending order of scores with ties, (P, n).

    They are averaged over all orders of ties, in which each member of a tie has each of its places
    equally often: in m(all) it weighs the mean of W over the places of its tie.
    """
    n = rewards.shape[1]
    start, end = ties(scores)
    size = end - start
    total = (rewards * selected_weights(rule.group, scores)).sum(axis=1, keepdims=True)
    # The baseline of i weighs the other n - 1 samples by B, whose first j weights sum to upto[j].
    # A tie below i keeps its places in B; one above i moves down by one place, which i leaves.
    upto = np.cumsum(rule.climb)
    below = _row_sums(rewards * (upto[np.minimum(end, n - 1)] - upto[start]) / size)
    above = _row_sums(rewards * (upto[end - 1] - upto[np.maximum(start - 1, 0)]) / size)
    baseline = np.take_along_axis(below, start, 1)
    baseline += above[:, -1:] - np.take_along_axis(above, end, 1)
    # The other members of i's own tie have its places but the last.
    tied = _row_sums(rewards)
    tied_others = np.take_along_axis(tied, end, 1) - np.take_along_axis(tied, start, 1) - rewards
    tied_weight = (upto[end - 1] - upto[start]) / np.maximum(size - 1, 1)
    advantages: FloatArray = total - baseline - tied_others * tied_weight
    return advantages


def selected_weights(weights: FloatArray, scores: FloatArray) -> FloatArray:
    """Return the weights (P, n) of ascending scores: tied ones have the mean of theirs."""
    start, end = ties(scores)
    upto = np.concatenate([[0.0], np.cumsum(weights)])
    shared: FloatArray = (upto[end] - upto[start]) / (end - start)
    return shared


def ties(scores: FloatArray) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return where the tie of each ascending score starts and where it ends, (P, n) both.

    For scores 1, 2, 2, 5 the starts are 0, 1, 1, 3 and the ends, exclusive, 1, 3, 3, 4.
    """
    places = np.arange(scores.shape[1])
    differs = scores[:, 1:] != scores[:, :-1]
    edge = np.ones((len(scores), 1), dtype=bool)
    # The start of a tie is the largest place up to here that differs from the one before it.
    first = np.where(np.hstack([edge, differs]), places, 0)
    start = np.maximum.accumulate(first, axis=1)
    # The end, likewise, is found from the right.
    last = np.where(np.hstack([differs, edge]), places, places[-1])
    end = np.minimum.accumulate(last[:, ::-1], axis=1)[:, ::-1] + 1
    return start, end


def _row_sums(values: FloatArray) -> FloatArray:
    """Return the sums of the first 0 to n values of each row, (P, n) to (P, n + 1)."""
    return np.pad(np.cumsum(values, axis=1), [(0, 0), (1, 0)])
