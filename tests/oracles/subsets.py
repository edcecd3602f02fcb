"""Statistics and advantages by enumeration of all subsets, straight from their definitions.

Everything takes one group of scored samples as plain sequences, in any order. A sample is a
`Sample`: its reward, the score that subsets are ordered by (the reward, unless given), and an
answer.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from maxatk.objectives import Method, OrderWeights
from oracles import answers_of


class Sample(NamedTuple):
    reward: float
    score: float
    answer: float = 0.0


Statistic = Callable[[Sequence[Sample]], float]


def samples_of(rewards, scores=None, answers=None):
    scores = rewards if scores is None else scores
    answers = [0.0] * len(rewards) if answers is None else answers
    return [Sample(*x) for x in zip(rewards, scores, answers, strict=True)]


def max_at_k(rewards: Sequence[float], k: int) -> float:
    return float(np.mean([max(subset) for subset in itertools.combinations(rewards, k)]))


def weighed(weights: Sequence[float]) -> Statistic:
    """The weighted sum of the rewards in the order of the scores, over all orders of ties."""

    def statistic(samples):
        order = sorted(samples, key=lambda sample: sample.score)
        value = 0.0
        place = 0
        for _, tied in itertools.groupby(order, key=lambda sample: sample.score):
            rewards = [sample.reward for sample in tied]
            value += sum(rewards) / len(rewards) * sum(weights[place : place + len(rewards)])
            place += len(rewards)
        return value

    return statistic


def worth(samples):
    """The mean reward of every answer."""
    answers = {sample.answer for sample in samples}
    return {a: np.mean([s.reward for s in samples if s.answer == a]) for a in answers}


def majority(samples):
    """What the most frequent answer is worth, the mean over those that tie."""
    votes = Counter(sample.answer for sample in samples)
    winners = [answer for answer in votes if votes[answer] == max(votes.values())]
    return float(np.mean([worth(samples)[answer] for answer in winners]))


def distinct(samples):
    return float(sum(worth(samples).values()))


def log_mean_exp(samples, beta):
    return math.log(np.mean([math.exp(beta * sample.reward) for sample in samples])) / beta


def largest(k: int, share: float = 1.0) -> tuple[int, Statistic]:
    return k, weighed([0.0] * (k - 1) + [share])


def parts(method: Method, k: int, n: int) -> list[tuple[int, Statistic]]:
    """Subset sizes and statistics of subsets whose means sum to the statistic of the group."""
    if isinstance(method.credit, OrderWeights):
        weights = method.credit
        if weights.values:
            return [(len(weights.values), weighed(weights.values))]
        if weights.maxima:
            return [largest(size, share) for size, share in weights.maxima]
        return parts(Method(credit="harmonic"), k, n)
    if method.credit == "harmonic":
        sizes = [largest(j, 1 / j) for j in range(1, n + 1)]
        return [(n, lambda samples: sum(mean_over_subsets(samples, *part) for part in sizes))]
    if method.credit == "entropic":
        return [(n, lambda samples: log_mean_exp(samples, method.inverse_temperature))]
    return {
        "majority": [(k, majority)],
        "distinct": [(k, distinct)],
        "max_at_k": [largest(k)],
        "min_at_k": [(k, weighed([1.0] + [0.0] * (k - 1)))],
        "any_k": [largest(j, 1 / k) for j in range(1, k + 1)],
    }[method.credit]


def mean_over_subsets(samples, size, statistic):
    return sum(map(statistic, itertools.combinations(samples, size))) / math.comb(
        len(samples), size
    )


def value(samples, method: Method, k: int) -> float:
    """The statistic of a group."""
    return value_of(tuple(sorted(samples)), method, k)


@functools.lru_cache(100_000)  # replaced samples make the same groups again and again
def value_of(samples: tuple[Sample, ...], method: Method, k: int) -> float:
    if method.credit == "reward":
        return float(np.mean([sample.reward for sample in samples]))
    return sum(mean_over_subsets(samples, *part) for part in parts(method, k, len(samples)))


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


def sums(n, deltas, k, correction, form, term):
    """(1/C(n,k)) sum over the (k-1)-subsets J of the others of omega * term(i, J), for every i."""
    result = np.zeros(n)
    for i in range(n):
        rest = [j for j in range(n) if j != i]
        for others in itertools.combinations(rest, k - 1):
            result[i] += own_omega(correction, deltas, others, i, form) * term(i, others)
    return result / math.comb(n, k)


def credits(samples, deltas, part, correction="none", form="ppo"):
    size, statistic = part

    def term(i, others):
        return statistic([samples[j] for j in (*others, i)])

    return sums(len(samples), deltas, size, correction, form, term)


def leave_one_out(samples, deltas, part, correction, form):
    """Each subset's statistic minus its mean over replacing i by the others of the subset."""
    size, statistic = part
    if size == 1:
        return leave_one_out_single(samples, deltas, part, correction, form)

    def term(i, others):
        subset = [samples[j] for j in others]
        return statistic([*subset, samples[i]]) - np.mean([statistic([*subset, x]) for x in subset])

    return sums(len(samples), deltas, size, correction, form, term)


def leave_one_out_single(samples, deltas, part, correction, form):
    n = len(samples)
    statistic = part[1]
    values = np.array([statistic([sample]) for sample in samples])

    def above(ratios):
        others = [[j for j in range(n) if j != i] for i in range(n)]
        means = [
            np.average(values[places], weights=[ratios[j] for j in places]) for places in others
        ]
        return (values - means) / n

    if n == 1:
        return np.zeros(1)
    plain = above(np.ones(n))
    result = plain if correction == "none" else above(1 + np.array(deltas))
    slope = plain if correction == "first_order" else result
    return result if form == "ppo" else result + np.array(deltas) * slope


def constant(samples, deltas, part, correction, form):
    size = part[0]
    one = (size, lambda _: 1.0)
    total = credits(samples, deltas, one, correction, "reinforce").sum()
    if correction == "first_order" and total < 0.1 * size:
        return mean(samples, deltas, part, "none", form)
    c = credits(samples, deltas, part, correction, "reinforce").sum() / total
    credit = credits(samples, deltas, part, correction, form)
    return credit - c * credits(samples, deltas, one, correction, form)


def mean(samples, deltas, part, correction, form):
    result = centred(credits(samples, deltas, part, correction))
    slope = centred(credits(samples, deltas, part)) if correction == "first_order" else result
    return result if form == "ppo" else result + np.array(deltas) * slope


def others_credit(samples, deltas, part, correction, form):
    credit = credits(samples, deltas, part, correction, form)
    size = part[0]
    for i in range(len(samples)):
        others = [*samples[:i], *samples[i + 1 :]]
        if size <= len(others):
            credit[i] -= credits(others, np.zeros(len(others)), part).mean()
    return credit


def replace_one(samples, method, k):
    """m(all) minus the mean of m with i replaced by each of the others."""
    n = len(samples)
    whole = value(samples, method, k)
    result = np.zeros(len(samples))
    for i in range(n if n > 1 else 0):
        others = [*samples[:i], *samples[i + 1 :]]
        result[i] = whole - np.mean([value([*others, x], method, k) for x in others])
    return result


def exact_replace_one(samples, deltas, method, k, form):
    """LOO-1 with ratios, minus what replace_one subtracts more than LOO-1 without them."""
    nothing = np.zeros(len(samples))
    by_part = parts(method, k, len(samples))
    more = -replace_one(samples, method, k)
    result = np.zeros(len(samples))
    for part in by_part:
        more += leave_one_out(samples, nothing, part, "none", "ppo")
        result += leave_one_out(samples, deltas, part, "exact", form)
    return result - more * (1 if form == "ppo" else 1 + deltas)


def remove_one(samples, method, k):
    """m(all) - m(without i)."""
    whole = value(samples, method, k)
    all_others = [[*samples[:i], *samples[i + 1 :]] for i in range(len(samples))]
    return np.array([whole - value(others, method, k) for others in all_others])


def centred(values):
    return values - np.mean(values)


def on_rewards(rewards, method: Method):
    r = np.array(rewards, dtype=float)
    n = len(r)
    top = max(r)
    second = max([x for x in r if x != top], default=top)
    baseline = {
        "none": np.zeros(n),
        "mean": np.full(n, r.mean()),
        "leave_one_out": np.array([np.delete(r, i).mean() if n > 1 else r[0] for i in range(n)]),
        "second_best": np.full(n, second),
    }[method.baseline]
    return np.where((r == top) | (method.credit == "reward"), r - baseline, 0.0)


WHOLE = {"replace_one": replace_one, "remove_one": remove_one}
BY_PART = {
    "none": credits,
    "mean": mean,
    "leave_one_out": leave_one_out,
    "constant": constant,
    "others_credit": others_credit,
}
KEEP_LEVEL = ("none", "others_credit")


def advantages(rewards, deltas, k, method: Method, form="ppo", scores=None):
    """The advantages of one group whose ratios are 1 + deltas (clamped already).

    The answers are those of `oracles.answers_of`.
    """
    deltas = np.asarray(deltas, dtype=float)
    samples = samples_of(rewards, scores, answers_of(method, rewards))
    keeps_level = method.baseline in KEEP_LEVEL or method.credit == "distinct"
    if not keeps_level and len(set(rewards)) == 1:
        return np.zeros(len(rewards))
    of_form = unscaled(tuple(samples), tuple(deltas), k, method, form)
    if method.scale == "none":
        return of_form.copy()
    of_ppo = unscaled(tuple(samples), tuple(deltas), k, method, "ppo")
    return of_form * scale(samples, k, method, of_ppo)


def unscaled(samples, deltas, k, method: Method, form):
    return raw_of(samples, deltas, k, dataclasses.replace(method, scale="none"), form)


@functools.lru_cache(10_000)  # methods that differ by their scale come one after another
def raw_of(samples, deltas, k, method: Method, form):
    return raw_advantages(samples, np.array(deltas), k, method, form)


def scale(samples, k, method, raw):
    rewards = np.array([sample.reward for sample in samples])
    n = len(rewards)
    if method.scale == "none":
        return 1.0
    if method.scale == "mean":
        return 1 / rewards.mean() if rewards.mean() else 0.0
    if method.scale == "subset_std":
        statistic = parts(method, k, n)[0][1]
        spread = np.std([statistic(subset) for subset in itertools.combinations(samples, k)])
        return n / (k * spread) if spread > 1e-12 else 0.0
    plain = raw_advantages(
        samples, np.zeros(n), k, Method(credit=method.credit, baseline="none"), "ppo"
    )
    spread, largest = (np.std(values, ddof=1) if n > 1 else 0.0 for values in (plain, raw))
    if method.credit == "best":
        spread = np.std(rewards, ddof=1) if n > 1 else 0.0
    if method.correction != "none" and spread < 1e-6:
        return 0.0
    return 1 / (max(spread, largest) + 1e-4)


def raw_advantages(samples, deltas, k, method: Method, form):
    ratios = 1 if form == "ppo" else 1 + deltas
    if method.credit in ("reward", "best"):
        return on_rewards([sample.reward for sample in samples], method) * ratios
    if method.credit == "entropic" and method.baseline == "mean":
        weights = np.exp(method.inverse_temperature * np.array([s.reward for s in samples]))
        return centred(weights / weights.sum()) / method.inverse_temperature * ratios
    if method.correction == "exact" and method.baseline == "replace_one":
        return exact_replace_one(samples, deltas, method, k, form)
    if method.baseline in WHOLE:
        return WHOLE[method.baseline](samples, method, k) * ratios
    rule = BY_PART[method.baseline]
    by_part = parts(method, k, len(samples))
    if method.correction == "none":
        nothing = np.zeros(len(samples))
        return ratios * sum(rule(samples, nothing, part, "none", "ppo") for part in by_part)
    return sum(rule(samples, deltas, part, method.correction, form) for part in by_part)
