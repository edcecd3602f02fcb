"""Statistics of the answers of k samples: the plurality answer, and the different answers met.

Samples with the same answer are a class, worth the mean of its rewards. Both statistics are a sum
over the classes of a chance times that worth, and the chances look at the counts n_d alone:

- majority: that class d wins the vote of a k-subset, ties at random;
- distinct: that a k-subset holds class d at all, 1 - C(n - n_d, k) / C(n, k).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from maxatk.objectives.checks import FloatArray
from maxatk.objectives.group import Group
from maxatk.objectives.subsets import hit_shares, shares_of_draws

Counts: TypeAlias = tuple[int, ...]
Chances: TypeAlias = Callable[[Counts, int], FloatArray]
Codes: TypeAlias = npt.NDArray[np.intp]


def statistic_of(chances: Chances, rewards: FloatArray, codes: Codes, k: int) -> float:
    """Return the statistic of one group: rewards (n,) and the class of each sample (n,)."""
    _, counts, worth = _classes(rewards, codes)
    return float(chances(tuple(counts.tolist()), k) @ worth)


def replace_one(chances: Chances, rewards: FloatArray, codes: Codes, k: int) -> FloatArray:
    """Return m(all) minus the mean over replacing a sample by each of the others, (n,)."""
    if len(rewards) == 1:
        return np.zeros(1)

    def replaced(others: npt.NDArray[np.int64]) -> FloatArray:
        mean = np.zeros(len(others))
        for d in np.flatnonzero(others):
            others[d] += 1
            mean += (others[d] - 1) * chances(tuple(others.tolist()), k)
            others[d] -= 1
        return mean / int(others.sum())

    return _above(chances, replaced, rewards, codes, k)


def remove_one(chances: Chances, rewards: FloatArray, codes: Codes, k: int) -> FloatArray:
    """Return m(all) - m(without the sample), (n,); the group has more than k samples."""
    return _above(chances, lambda others: chances(tuple(others.tolist()), k), rewards, codes, k)


def distinct_chances(counts: Counts, k: int) -> FloatArray:
    """Return the chance of each class to be in a k-subset, (classes,)."""
    return hit_shares(sum(counts), k)[list(counts)]


def majority_chances(counts: Counts, k: int) -> FloatArray:
    """Return the chance of each class to win the vote of a k-subset, (classes,)."""
    met = [d for d in np.argsort(counts, kind="stable") if counts[d]]
    chances = np.zeros(len(counts))
    chances[met] = _majority_chances(tuple(counts[d] for d in met), k)
    return chances


@functools.lru_cache(4096)
def _majority_chances(counts: Counts, k: int) -> FloatArray:
    """Return `majority_chances` of ascending counts >= 1.

    Draws from each class are binomial with a rate near k/n, given that they sum to k. Where the
    winner has v votes, another class gives sum_{j<v} P(j) z^j + u P(v) z^v: the power of u counts
    the ties t, and the share 1/(1+t) of the winner is the integral of u^t over [0, 1], which the
    Gauss-Legendre rule gives exactly. The rule and all v are one batch of products in z.
    """
    n, rate = sum(counts), (k + 0.5) / (sum(counts) + 1)
    drawn = {count: np.zeros(k + 1) for count in {*counts, n}}
    for count, chances in drawn.items():
        chances[: count + 1] = shares_of_draws(count, np.array([rate]))[0, : k + 1]
    nodes, shares = np.polynomial.legendre.leggauss(len(counts) // 2 + 1)
    votes, taken = np.arange(1, k + 1)[:, None, None], np.arange(k + 1)
    ties = np.where(taken == votes, (nodes[:, None] + 1) / 2, taken < votes)  # (k, nodes, k + 1)
    chance = {}
    for count in {*counts}:
        rivals = list(counts)
        rivals.remove(count)
        product = np.zeros(ties.shape)
        product[..., 0] = 1.0
        for rival in rivals:
            product = _product(product, drawn[rival] * ties, min(rival, k))
        lost = product[taken[:-1], :, k - taken[1:]] @ shares / 2
        chance[count] = drawn[count][1:] @ lost / drawn[n][k]
    return np.array([chance[count] for count in counts])


def _product(one: FloatArray, other: FloatArray, degree: int) -> FloatArray:
    """Return the products of polynomials on the last axis, cut at its length."""
    product = one * other[..., :1]
    for power in range(1, degree + 1):
        product[..., power:] += one[..., :-power] * other[..., power : power + 1]
    return product


def _classes(rewards: FloatArray, codes: Codes) -> tuple[Codes, npt.NDArray[np.int64], FloatArray]:
    """Return the class of each sample, 0 up to the group's classes, their counts and worths."""
    _, own, counts = np.unique(codes, return_inverse=True, return_counts=True)
    return own, counts, np.bincount(own, rewards) / counts


def _above(
    chances: Chances,
    without: Callable[[npt.NDArray[np.int64]], FloatArray],
    rewards: FloatArray,
    codes: Codes,
    k: int,
) -> FloatArray:
    """Return the statistic minus that of the chances `without` a sample, for every sample (n,).

    Without sample i its class is worth the mean of its other rewards, also on average over the
    samples that replace i.
    """
    classes, counts, worth = _classes(rewards, codes)
    whole = chances(tuple(counts.tolist()), k) @ worth
    result = np.empty(len(rewards))
    for d in range(len(counts)):
        own = classes == d
        counts[d] -= 1
        chance = without(counts)
        counts[d] += 1
        change = (worth[d] - rewards[own]) / max(counts[d] - 1, 1)
        result[own] = whole - chance @ worth - chance[d] * change
    return result


def _of_groups(
    rule: Callable[[Chances, FloatArray, Codes, int], FloatArray], chances: Chances
) -> Callable[[Group], FloatArray]:
    def advantages(group: Group) -> FloatArray:
        rows = zip(group.rewards, group.codes, strict=True)
        values = [rule(chances, rewards, codes, group.k) for rewards, codes in rows]
        return np.array(values).reshape(group.rewards.shape)

    return advantages


MAJORITY: Mapping[str, Callable[[Group], FloatArray]] = {
    "replace_one": _of_groups(replace_one, majority_chances),
    "remove_one": _of_groups(remove_one, majority_chances),
}
"""The baselines of the credit "majority"."""

DISTINCT: Mapping[str, Callable[[Group], FloatArray]] = {
    "replace_one": _of_groups(replace_one, distinct_chances),
    "remove_one": _of_groups(remove_one, distinct_chances),
}
"""The baselines of the credit "distinct"."""
