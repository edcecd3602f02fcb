"""The one rule: advantage = statistic of the group - baseline made of the other samples.

Let m be a statistic of a group and b_i any function of the samples other than i. Then
A_i = m - b_i has E[sum_i A_i grad log pi(y_i)] = grad E[m], because E[b_i grad log pi(y_i)] = 0.

Where m and b_i are weighted sums of ascending rewards (W and B), only the steps between
neighbours enter. The step from the m-th to the (m+1)-th reward pays `up` to every sample above
it and charges `down` to every sample below it:

    A_i = level r_(1) + sum_{m < i} up_m step_m - sum_{m >= i} down_m step_m,
    A_{i+1} - A_i = (up_m + down_m) step_m = B_m step_m at m = i: one prefix sum.

`split` divides a weight between those above and those below: the member of rank m of a subset
is replaced by each of the other k - 1 in turn. `replace_one` splits the weights of the whole
group, `leave_one_out` those of each k-subset.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from maxatk.objectives.checks import FloatArray
from maxatk.objectives.order import OrderWeights, lifted
from maxatk.objectives.subsets import sums_after

SHORT = 64
"""Up to this many samples a product with an (n, n) matrix is faster than a running sum."""

_KEPT = 64  # rules kept, of some 30 n bytes (short groups: 8 n^2)


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

    @functools.cached_property
    def others(self) -> FloatArray:
        """Return B (n-1,), the weights of the other samples in ascending order."""
        return self.up + self.down

    @functools.cached_property
    def climb(self) -> FloatArray:
        """Return what each step adds to the advantage of the next sample, (n,), 0 for the first."""
        return np.concatenate([[0.0], self.others])

    @functools.cached_property
    def matrix(self) -> FloatArray:
        """Return the matrix (n, n) from the lowest reward and the steps to the advantages."""
        n = len(self.group)
        above = np.tri(n, dtype=bool).T
        up, down = (np.concatenate([[0.0], side])[:, None] for side in (self.up, self.down))
        matrix = np.where(above, up, -down)
        matrix[0] = self.level
        return matrix


def steps_of(rewards: FloatArray) -> FloatArray:
    """Return the first reward and the steps between neighbours, (P, n)."""
    flat, steps = rewards.ravel(), np.empty(rewards.shape)
    # As one long row, which is faster than P short ones; the joints are overwritten.
    np.subtract(flat[1:], flat[:-1], out=steps.ravel()[1:])
    steps[:, 0] = rewards[:, 0]
    return steps


def advantages_of(steps: FloatArray, rule: Rule) -> FloatArray:
    """Return the advantages (P, n) of rewards in ascending order, or in that of a score."""
    if steps.shape[1] <= SHORT:
        return steps @ rule.matrix
    values = steps * rule.climb
    np.cumsum(values, axis=-1, out=values)
    if rule.level or rule.down.any():
        values += (rule.level * steps[:, 0] - steps[:, 1:] @ rule.down)[:, None]
    return values


def selected_of(rewards: FloatArray, scores: FloatArray, rule: Rule) -> FloatArray:
    """Return the advantages (P, n) of rewards in ascending order of scores with ties, (P, n).

    Tied scores are ordered at random and averaged over all orders. A tie at the places s+1..e has
    the mean of W over them for each of its members. Without sample i, the ties below keep their
    places in B, those above move down by one, and its own tie loses the last one.
    """
    n = rewards.shape[1]
    start, end = _ties(scores)
    size = end - start
    whole, others = _sums(rule.group), _sums(rule.others)
    total = (rewards * (whole[end] - whole[start]) / size).sum(axis=1, keepdims=True)
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
    start, end = _ties(scores)
    whole = _sums(weights)
    shared: FloatArray = (whole[end] - whole[start]) / (end - start)
    return shared


def _ties(scores: FloatArray) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return where the tie of each ascending score starts and where it ends, (P, n) both."""
    at = np.arange(scores.shape[1])
    steps = scores[:, 1:] != scores[:, :-1]
    edge = np.ones((len(scores), 1), dtype=bool)
    start = np.maximum.accumulate(np.where(np.hstack([edge, steps]), at, 0), axis=1)
    last = np.where(np.hstack([steps, edge]), at, at[-1])
    return start, np.minimum.accumulate(last[:, ::-1], axis=1)[:, ::-1] + 1


def _sums(weights: FloatArray) -> FloatArray:
    return np.concatenate([[0.0], np.cumsum(weights)])


def _row_sums(values: FloatArray) -> FloatArray:
    return np.pad(np.cumsum(values, axis=1), [(0, 0), (1, 0)])


@functools.lru_cache(_KEPT)
def rule_of(weights: OrderWeights, baseline: str, n: int) -> Rule:
    """Return the rule of a statistic and a name in `RULES` for groups of n >= weights.size."""
    return RULES[baseline](weights, n)


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


def credit(weights: OrderWeights, n: int) -> Rule:
    """Return eq. (9) for any weights: the subsets that hold i, C(n,k)^-1 sum_{I with i} m(I)."""
    others, down, level = np.zeros(n - 1), np.zeros(n - 1), 0.0
    for part in weights.parts(n):
        k = len(part)
        if k < n:
            others += (n - k) / n * lifted(part, n - 1)
        if k > 1:
            shared = k / n * lifted(part[1:], n - 1)
            down -= shared + sums_after(shared)
        level += k / n * float(part.sum())
    return Rule(weights.of_group(n), others - down, down, level)


def mean(weights: OrderWeights, n: int) -> Rule:
    """Return the credits minus their mean: remove_one times 1 - k/n, and 0 for k = n."""
    group, others = np.zeros(n), np.zeros(n - 1)
    for part in weights.parts(n):
        k = len(part)
        if k < n:
            group += (n - k) / n * lifted(part, n)
            others += (n - k) / n * lifted(part, n - 1)
    return _centred(group, others)


def remove_one(weights: OrderWeights, n: int) -> Rule:
    """Return m(all) - m(without i), for n above the size of the weights."""
    return _centred(weights.of_group(n), weights.of_group(n - 1))


def replace_one(weights: OrderWeights, n: int) -> Rule:
    """Return m(all) minus the mean over replacing sample i by each of the others."""
    group = weights.of_group(n)
    up, down = split(group)
    return Rule(group, up[1:], down[:-1])


def leave_one_out(weights: OrderWeights, n: int) -> Rule:
    """Return LOO-1: each subset's statistic minus its mean over replacing i by the subset's others.

    For max@k the latter is the maximum of the others, so that up_m = C(m, k-1) / C(n, k) and
    nobody is charged. A subset of one has no others: those of the group stand in (RLOO).
    """
    up, down = np.zeros(n), np.zeros(n)
    for part in weights.parts(n):
        if len(part) == 1:
            paid, charged = split(lifted(part, n))
        else:
            paid, charged = (lifted(share, n) for share in split(part))
        up += paid
        down += charged
    return Rule(weights.of_group(n), up[1:], down[:-1])


def others_credit(weights: OrderWeights, n: int) -> Rule:
    """Return PKPO's sloo: the credit minus the mean credit of the other samples as a group.

    That mean is k/(n-1) times the statistic of the others. A constant reward of one keeps
    k/n - k/(n-1); for k = n there is no baseline. Source: 2505.15201.
    """
    own = credit(weights, n)
    others, level = np.zeros(n - 1), own.level
    for part in weights.parts(n):
        k = len(part)
        if k < n:
            others += k / (n - 1) * lifted(part, n - 1)
            level -= k / (n - 1) * float(part.sum())
    above = sums_after(others)
    return Rule(own.group, own.up - above, own.down + above + others, level)


def _centred(group: FloatArray, others: FloatArray) -> Rule:
    """Return the rule of advantages that sum to zero: what is below pays for what is above."""
    n = len(group)
    below = np.arange(1, n)
    return Rule(group, others * below / n, others * (n - below) / n)


RULES: Mapping[str, Callable[[OrderWeights, int], Rule]] = {
    "none": credit,
    "mean": mean,
    "leave_one_out": leave_one_out,
    "replace_one": replace_one,
    "remove_one": remove_one,
    "others_credit": others_credit,
}
"""The baselines of an order-weight statistic by name."""
