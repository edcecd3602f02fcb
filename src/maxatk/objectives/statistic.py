"""Statistics of k samples beyond weighted orders: any function of them, and those of answers.

A statistic of answers is a sum over the classes d of samples with the same answer: the mean of the
rewards of a class times a chance, which depends on the counts n_d alone.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from maxatk.check import require
from maxatk.errors import InvalidValueError, unknown_name
from maxatk.objectives.checks import FloatArray, as_k, refuse_k_above
from maxatk.objectives.group import Group
from maxatk.objectives.subsets import hit_shares, shares_of_draws

Counts: TypeAlias = tuple[int, ...]
Chances: TypeAlias = Callable[[Counts, int], FloatArray]
Codes: TypeAlias = npt.NDArray[np.intp]
Rest: TypeAlias = Literal["replace_one", "remove_one"]

_ENTRIES = 2**18  # of the products that a sweep over the classes holds: 2 MiB


def influence(
    statistic: Callable[[Sequence[Any]], float],
    rewards: Sequence[Sequence[Any]],
    baseline: Rest = "replace_one",
    *,
    k: int | None = None,
    draws: int = 256,
    seed: int = 0,
) -> FloatArray:
    """Return the advantages (P, n) of any statistic of k samples, unbiased for its gradient.

    Args:
        statistic: Maps k samples (k - 1 for "remove_one"), in any order, to a number.
        rewards: P groups of n samples, of whatever `statistic` takes.
        baseline: "replace_one" subtracts the mean over replacing the sample by each of the other
            k - 1 (for k = 1 of the group), "remove_one" the statistic of the k - 1: O(k^2) and O(k)
            calls a subset.
        k: Size of the subsets; None for the whole group.
        draws: Subsets that are drawn a group where there are more; fewer are all taken.
        seed: Of the draws.

    Raises InvalidValueError for groups of different sizes, k > n and an unknown baseline.
    """
    if baseline not in get_args(Rest):
        raise unknown_name("baseline", str(baseline), get_args(Rest))
    groups = [list(group) for group in rewards]
    sizes = {len(group) for group in groups}
    if len(sizes) != 1:
        raise InvalidValueError(f"rewards: groups must have one size, got {sorted(sizes)}")
    n = sizes.pop()
    size = n if k is None else as_k(k)
    refuse_k_above(size, n)
    if n == 1 and baseline == "replace_one":
        raise InvalidValueError("rewards: in groups of one sample there is none to replace it by")
    rng = np.random.default_rng(seed)
    result = np.zeros((len(groups), n))
    for row, group in zip(result, groups, strict=True):
        subsets: Sequence[Sequence[int]]
        if math.comb(n, size) <= as_k(draws, field="draws"):
            subsets = list(itertools.combinations(range(n), size))
        else:
            subsets = [rng.choice(n, size, replace=False).tolist() for _ in range(draws)]
        for subset in subsets:
            whole = statistic([group[i] for i in subset])
            for i in subset:
                others = [group[j] for j in subset if j != i]
                if baseline == "remove_one":
                    rest = statistic(others)
                else:
                    donors = others or [group[j] for j in range(n) if j != i]
                    replaced = [statistic([*others, donor]) for donor in donors]
                    rest = sum(replaced) / len(replaced)
                row[i] += (whole - rest) / len(subsets)
    return result


def leave_one_out(statistic: Callable[..., float], group: Group) -> FloatArray:
    """Return `influence` of a statistic of k rewards, or of k rewards and their answers: (P, n)."""
    columns = [group.rewards] if group.answers is None else [group.rewards, group.answers]

    def of_samples(samples: Sequence[Any]) -> float:
        found = statistic(*map(list, zip(*samples, strict=True)))
        real = isinstance(found, (int, float, np.number)) and math.isfinite(found)
        require(real, "method: what the statistic returns", "a finite number", found)
        return float(found)

    rows = zip(*(column.tolist() for column in columns), strict=True)
    return influence(of_samples, [list(zip(*row, strict=True)) for row in rows], k=group.k)


def of_answers(chances: Chances, k: int, group: Group) -> FloatArray:
    """Return the statistic of k samples of each group, (P,)."""
    rows = _classes(group)
    return np.array([chances(tuple(counts.tolist()), k) @ worth for _, _, counts, worth in rows])


def formulas(chances: Chances) -> Mapping[str, Callable[[Group], FloatArray]]:
    """Return the statistic of all minus its baseline, of a group, by the name of the baseline."""

    def replaced(others: Counts, k: int) -> FloatArray:
        mean = np.zeros(len(others))
        for d in np.flatnonzero(others):
            more = (*others[:d], others[d] + 1, *others[d + 1 :])
            mean += others[d] * chances(more, k)
        return mean / sum(others)

    return {
        "replace_one": functools.partial(_above, chances, replaced),
        "remove_one": functools.partial(_above, chances, chances),
    }


def distinct_chances(counts: Counts, k: int) -> FloatArray:
    """Return the chance of each class to be in a k-subset, 1 - C(n - n_d, k) / C(n, k)."""
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
    the ties t, and the share 1/(1+t) of the winner is the integral of u^t over [0, 1], by the
    Gauss-Legendre rule exactly. Running products in z from below and above serve every winner.
    """
    rate = np.array([(k + 0.5) / (sum(counts) + 1)])
    drawn = {count: shares_of_draws(count, rate)[0] for count in {*counts}}
    chance = dict.fromkeys(counts, 0.0)
    for votes, nodes, shares in _rounds(counts, k):
        rivals = [_rival(drawn[count], votes, nodes, k) for count in counts]
        nobody = np.zeros((len(votes), len(nodes), k - votes[0] + 1))
        nobody[..., 0] = 1.0
        below = list(itertools.accumulate(rivals[:-1], _product, initial=nobody))
        above = nobody
        for d in reversed(range(len(counts))):
            if d == 0 or counts[d - 1] < counts[d]:  # classes of one count have one chance
                for v, one, other in zip(votes[votes <= counts[d]], below[d], above, strict=False):
                    lost = shares @ (one[:, : k - v + 1] * other[:, k - v :: -1]).sum(axis=-1)
                    chance[counts[d]] += drawn[counts[d]][v] * lost
            above = _product(above, rivals[d])
    found: FloatArray = np.array([chance[count] for count in counts])
    total: float = found.sum()  # 1, but for the scale that the rate leaves
    return found / total


def _rounds(counts: Counts, k: int) -> Iterator[tuple[Codes, FloatArray, FloatArray]]:
    """Yield the votes that a winner can have, in rounds that need the same nodes, with those."""
    least = np.arange(k + 1)
    reaching = len(counts) - np.searchsorted(counts, least)
    size = np.minimum(reaching, k // np.maximum(least, 1)) // 2 + 1
    possible = range(-(-k // len(counts)), min(counts[-1], k) + 1)
    for needed, same in itertools.groupby(possible, key=size.__getitem__):
        nodes, shares = np.polynomial.legendre.leggauss(needed)
        votes, at_once = np.array(list(same)), _ENTRIES // (len(counts) * needed * (k + 1)) + 1
        for start in range(0, len(votes), at_once):
            yield votes[start : start + at_once], (nodes + 1) / 2, shares / 2


def _rival(drawn: FloatArray, votes: Codes, nodes: FloatArray, k: int) -> FloatArray:
    """Return the polynomials of a class that loses or ties, (votes, nodes, degree + 1)."""
    taken = np.arange(min(votes[-1], k - votes[0], len(drawn) - 1) + 1)
    kept = np.where(taken == votes[:, None, None], nodes[:, None], taken < votes[:, None, None])
    return kept * drawn[taken]


def _product(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return the products of polynomials on the last axis, cut at the length of the first."""
    product = one * other[..., :1]
    for power in range(1, other.shape[-1]):
        product[..., power:] += one[..., :-power] * other[..., power : power + 1]
    return product


def _above(chances: Chances, without: Chances, group: Group) -> FloatArray:
    """Return the statistic minus that of the chances `without` a sample, for every sample (P, n).

    Without it its class is worth the mean of its other rewards, also if others replace it.
    """
    result = np.zeros_like(group.rewards)
    for row, (rewards, classes, counts, worth) in zip(result, _classes(group), strict=True):
        whole = chances(tuple(counts.tolist()), group.k) @ worth
        for d in range(len(counts)):
            own, others = classes == d, counts - (np.arange(len(counts)) == d)
            chance = without(tuple(others.tolist()), group.k)
            change = (worth[d] - rewards[own]) / max(others[d], 1)
            row[own] = whole - chance @ worth - chance[d] * change
    return result


def _classes(group: Group) -> Iterator[tuple[FloatArray, Codes, Codes, FloatArray]]:
    """Yield of each group the rewards and classes of the samples, counts and worths of classes."""
    if group.answers is None:
        raise InvalidValueError("answers: must have the shape of the rewards, got None")
    for rewards, codes in zip(group.rewards, group.answers, strict=True):
        _, own, counts = np.unique(codes, return_inverse=True, return_counts=True)
        yield rewards, own, counts, np.bincount(own, rewards) / counts
