"""Statistics of the answers of k samples: the plurality answer, and the different answers.

Both are sums over the classes d of samples with the same answer: the mean of the rewards of a
class, its worth v_d, times a chance, which depends on the counts n_d of the classes alone.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from maxatk.errors import InvalidValueError
from maxatk.objectives.checks import FloatArray
from maxatk.objectives.group import Group
from maxatk.objectives.subsets import hit_shares, shares_of_draws

Counts: TypeAlias = tuple[int, ...]
Chances: TypeAlias = Callable[[Counts, int], FloatArray]
Codes: TypeAlias = npt.NDArray[np.intp]

_ENTRIES = 2**18  # of the products that a sweep over the classes holds: 2 MiB


def of_answers(chances: Chances, k: int, group: Group) -> FloatArray:
    """Return the statistic of k samples of each group, sum_d chance_d v_d, (P,)."""
    statistics = [
        chances(tuple(counts.tolist()), k) @ worth for _, _, counts, worth in _classes(group)
    ]
    return np.array(statistics)


def formulas(chances: Chances) -> Mapping[str, Callable[[Group], FloatArray]]:
    """Return the statistic of all minus its baseline, of a group, by the name of the baseline."""

    def replaced(others: Counts, k: int) -> FloatArray:
        """Return the mean chances over putting a copy of one of the others beside them."""
        mean = np.zeros(len(others))
        for d in np.flatnonzero(others):
            with_copy = (*others[:d], others[d] + 1, *others[d + 1 :])
            mean += others[d] * chances(with_copy, k)
        return mean / sum(others)

    return {
        "replace_one": functools.partial(_above, chances, replaced),
        "remove_one": functools.partial(_above, chances, chances),
    }


def _above(chances: Chances, without: Chances, group: Group) -> FloatArray:
    """Return the statistic minus that of the chances `without` a sample, for every sample (P, n).

    Without it its class is worth the mean of its other rewards, also if others replace it.
    """
    advantages = np.zeros_like(group.rewards)
    for row, (rewards, classes, counts, worth) in zip(advantages, _classes(group), strict=True):
        of_all = chances(tuple(counts.tolist()), group.k) @ worth
        for d in range(len(counts)):
            members = classes == d
            other_counts = counts - (np.arange(len(counts)) == d)
            chance = without(tuple(other_counts.tolist()), group.k)
            # What the worth of the class changes by when the reward of the member leaves its mean.
            change = (worth[d] - rewards[members]) / max(other_counts[d], 1)
            row[members] = of_all - chance @ worth - chance[d] * change
    return advantages


def _classes(group: Group) -> Iterator[tuple[FloatArray, Codes, Codes, FloatArray]]:
    """Yield of each group the rewards and classes of the samples, counts and worths of classes."""
    if group.answers is None:
        raise InvalidValueError("answers: must have the shape of the rewards, got None")
    for rewards, codes in zip(group.rewards, group.answers, strict=True):
        _, classes, counts = np.unique(codes, return_inverse=True, return_counts=True)
        worth = np.bincount(classes, rewards) / counts
        yield rewards, classes, counts, worth


def distinct_chances(counts: Counts, k: int) -> FloatArray:
    """Return the chance of each class to be in a k-subset, 1 - C(n - n_d, k) / C(n, k)."""
    return hit_shares(sum(counts), k)[list(counts)]


def majority_chances(counts: Counts, k: int) -> FloatArray:
    """Return the chance of each class to win the vote of a k-subset, ties at random, (classes,)."""
    present = [d for d in np.argsort(counts, kind="stable") if counts[d]]
    chances = np.zeros(len(counts))
    chances[present] = _majority_chances(tuple(counts[d] for d in present), k)
    return chances


@functools.lru_cache(4096)
def _majority_chances(counts: Counts, k: int) -> FloatArray:
    """Return `majority_chances` of ascending counts >= 1.

    Draws from each class are binomial with a rate near k/n, given that they sum to k. Where the
    winner has v votes, another class gives sum_{j<v} P(j) z^j + u P(v) z^v: the power of u counts
    the ties t, and the share 1/(1+t) of the winner is the integral of u^t over [0, 1], by the
    Gauss-Legendre rule exactly. Running products in z from below and above serve every winner.
    """
    rate = np.array([(k + 0.5) / (sum(counts) + 1)])
    drawn = {count: shares_of_draws(count, rate)[0] for count in {*counts}}
    chance = dict.fromkeys(counts, 0.0)
    for votes, nodes, shares in _rounds(counts, k):
        rivals = [_rival(drawn[count], votes, nodes, k) for count in counts]
        # Polynomials in z, (votes, nodes, degree + 1): no rival at all is the constant one.
        no_rival = np.zeros((len(votes), len(nodes), k - votes[0] + 1))
        no_rival[..., 0] = 1.0
        # below[d] is the product of the rivals before class d; `above`, of those after it, grows
        # as d falls.
        below = list(itertools.accumulate(rivals[:-1], _product, initial=no_rival))
        above = no_rival
        for d in reversed(range(len(counts))):
            count = counts[d]
            is_first_of_its_count = d == 0 or counts[d - 1] < count
            if is_first_of_its_count:  # classes of one count have one chance
                # A class cannot win with more votes than it has samples.
                possible = votes[votes <= count]
                for v, lower, upper in zip(possible, below[d], above, strict=False):
                    # The rivals share the k - v other votes: the coefficient of z^(k-v) of the
                    # product, at each node u.
                    coefficient = (lower[:, : k - v + 1] * upper[:, k - v :: -1]).sum(axis=-1)
                    chance[count] += drawn[count][v] * (shares @ coefficient)
            above = _product(above, rivals[d])
    chances: FloatArray = np.array([chance[count] for count in counts])
    total: float = chances.sum()  # 1, but for the scale that the rate leaves
    return chances / total


def _rounds(counts: Counts, k: int) -> Iterator[tuple[Codes, FloatArray, FloatArray]]:
    """Yield the votes that a winner can have, in rounds that need the same nodes, with those.

    A round is the votes (votes,), and the nodes and shares (nodes,) of the integral over [0, 1].
    """
    all_votes = np.arange(k + 1)
    # Of v votes there can be as many ties as classes have v samples, and as v goes into k. The
    # rule of s nodes is exact up to the degree 2 s - 1.
    classes_with = len(counts) - np.searchsorted(counts, all_votes)
    most_tied = np.minimum(classes_with, k // np.maximum(all_votes, 1))
    nodes_needed = most_tied // 2 + 1
    fewest = -(-k // len(counts))  # k votes over so many classes, rounded up
    most = min(counts[-1], k)
    rounds = itertools.groupby(range(fewest, most + 1), key=nodes_needed.__getitem__)
    for needed, votes_of_round in rounds:
        nodes, shares = np.polynomial.legendre.leggauss(needed)  # over [-1, 1]
        votes = np.array(list(votes_of_round))
        at_once = _ENTRIES // (len(counts) * needed * (k + 1)) + 1
        for start in range(0, len(votes), at_once):
            yield votes[start : start + at_once], (nodes + 1) / 2, shares / 2


def _rival(drawn: FloatArray, votes: Codes, nodes: FloatArray, k: int) -> FloatArray:
    """Return the polynomials of a class that loses or ties, (votes, nodes, degree + 1)."""
    most = min(votes[-1], k - votes[0], len(drawn) - 1)
    taken = np.arange(most + 1)
    winner = votes[:, None, None]
    # The factor of z^taken: 1 below the winner's votes, the node u at a tie, 0 above.
    factor = np.where(taken == winner, nodes[:, None], taken < winner)
    return factor * drawn[taken]


def _product(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return the products of polynomials on the last axis, cut at the length of the first."""
    product = one * other[..., :1]
    for power in range(1, other.shape[-1]):
        product[..., power:] += one[..., :-power] * other[..., power : power + 1]
    return product
