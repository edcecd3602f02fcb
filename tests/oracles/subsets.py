"""max@k and its advantages by enumeration of all subsets, straight from their definitions.

Everything takes one group of scored samples as plain sequences, in any order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np

from maxatk.objectives import Method


def max_at_k(rewards: Sequence[float], k: int) -> float:
    return float(np.mean([max(subset) for subset in itertools.combinations(rewards, k)]))


def omega(correction: str, deltas: Sequence[float], members: Iterable[int]) -> float:
    """The weight of a set of samples under a correction."""
    if correction == "exact":
        return math.prod(1 + deltas[j] for j in members)
    return 1 + sum(deltas[j] for j in members) if correction == "first_order" else 1.0


def own_omega(
    correction: str, deltas: Sequence[float], others: tuple[int, ...], i: int, form: str
) -> float:
    """The weight of a subset in sample i's sum: with i's own ratio for "reinforce" only."""
    if form == "ppo":
        return omega(correction, deltas, others)
    if correction == "none":
        return 1 + deltas[i]
    return omega(correction, deltas, (*others, i))


def sums(rewards, deltas, k, correction, form, value):
    """(1/C(n,k)) sum over the (k-1)-subsets J of the others of omega * value(i, J), for every i."""
    n = len(rewards)
    result = np.zeros(n)
    for i in range(n):
        rest = [j for j in range(n) if j != i]
        for others in itertools.combinations(rest, k - 1):
            result[i] += own_omega(correction, deltas, others, i, form) * value(i, others)
    return result / math.comb(n, k)


def credits(rewards, deltas, k, correction="none", form="ppo"):
    def largest(i, others):
        return max(rewards[j] for j in (*others, i))

    return sums(rewards, deltas, k, correction, form, largest)


def leave_one_out(rewards, deltas, k, correction, form):
    if k == 1:
        return leave_one_out_single(rewards, deltas, correction, form)

    def gain(i, others):
        before = max(rewards[j] for j in others)
        return max(before, rewards[i]) - before

    return sums(rewards, deltas, k, correction, form, gain)


def leave_one_out_single(rewards, deltas, correction, form):
    n = len(rewards)

    def above(ratios):
        others = [[j for j in range(n) if j != i] for i in range(n)]
        means = [
            np.average([rewards[j] for j in o], weights=[ratios[j] for j in o]) for o in others
        ]
        return (np.array(rewards) - means) / n

    if n == 1:
        return np.zeros(1)
    plain = above(np.ones(n))
    value = plain if correction == "none" else above(1 + np.array(deltas))
    slope = plain if correction == "first_order" else value
    return value if form == "ppo" else value + np.array(deltas) * slope


def constant(rewards, deltas, k, correction, form):
    ones = [1.0] * len(rewards)
    total = credits(ones, deltas, k, correction, "reinforce").sum()
    if correction == "first_order" and total < 0.1 * k:
        return mean(rewards, deltas, k, "none", form)
    c = credits(rewards, deltas, k, correction, "reinforce").sum() / total
    return credits(rewards, deltas, k, correction, form) - c * credits(
        ones, deltas, k, correction, form
    )


def mean(rewards, deltas, k, correction, form):
    value = centred(credits(rewards, deltas, k, correction))
    slope = centred(credits(rewards, deltas, k)) if correction == "first_order" else value
    return value if form == "ppo" else value + np.array(deltas) * slope


def centred(values):
    return values - np.mean(values)


def on_rewards(rewards, method: Method):
    r = np.array(rewards, dtype=float)
    n, top = len(r), max(r)
    second = max([x for x in r if x != top], default=top)
    baseline = {
        "none": np.zeros(n),
        "mean": np.full(n, r.mean()),
        "leave_one_out": np.array([np.delete(r, i).mean() if n > 1 else r[0] for i in range(n)]),
        "second_best": np.full(n, second),
    }[method.baseline]
    return np.where((r == top) | (method.credit == "reward"), r - baseline, 0.0)


def advantages(rewards, deltas, k, method: Method, form="ppo"):
    """The advantages of one group whose ratios are 1 + deltas (clamped already)."""
    deltas = np.asarray(deltas, dtype=float)
    if method.baseline != "none" and len(set(rewards)) == 1:
        return np.zeros(len(rewards))
    values = {f: numerators(rewards, deltas, k, method, f) for f in ("ppo", "reinforce")}
    if method.scale == "none":
        return values[form]
    plain = credits(rewards, deltas, k) if method.credit == "max_at_k" else np.array(rewards)
    spread = np.std(plain, ddof=1) if len(rewards) > 1 else 0.0
    if method.correction != "none" and spread < 1e-6:
        return np.zeros(len(rewards))
    largest = max(spread, np.std(values["ppo"], ddof=1) if len(rewards) > 1 else 0.0)
    return values[form] / (largest + 1e-4)


def numerators(rewards, deltas, k, method: Method, form):
    if method.credit != "max_at_k":
        return on_rewards(rewards, method) * (1 if form == "ppo" else 1 + deltas)
    if method.baseline == "none":
        return credits(rewards, deltas, k, method.correction, form)
    rule = {"mean": mean, "leave_one_out": leave_one_out, "constant": constant}[method.baseline]
    return rule(rewards, deltas, k, method.correction, form)
