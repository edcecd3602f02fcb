"""A categorical policy, for which every expectation over groups is a finite sum."""

from __future__ import annotations

import itertools

import numpy as np

from maxatk.objectives import Method, advantages
from oracles import subsets


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def max_at_k(logits: np.ndarray, rewards: np.ndarray, k: int) -> float:
    """E max of k independent draws: the sum over the values v of v (F(v)^k - F(v-)^k)."""
    p = softmax(logits)
    values = np.unique(rewards)
    at_most = np.array([p[rewards <= v].sum() for v in values])
    return float(values @ np.diff(np.concatenate([[0.0], at_most]) ** k))


def gradient(logits: np.ndarray, rewards: np.ndarray, k: int) -> np.ndarray:
    """The gradient of `max_at_k` in the logits, through the simplex."""
    p = softmax(logits)
    values = np.unique(rewards)
    below = np.array([p[rewards <= v].sum() for v in values[:-1]])
    # max@k = largest - sum of (step of the values) * F^k, and arm a is in F of every v >= r_a.
    slope = np.array(
        [-(np.diff(values) * k * below ** (k - 1))[values[:-1] >= r].sum() for r in rewards]
    )
    return p * (slope - p @ slope)


def groups(arms: int, n: int) -> np.ndarray:
    """Every group of n draws as indices of arms, (arms**n, n)."""
    return np.array(list(itertools.product(range(arms), repeat=n)))


def scores(logits: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """grad log pi of every draw, (groups, n, arms)."""
    return np.eye(len(logits))[draws] - softmax(logits)


def statistic_gradient(
    logits: np.ndarray, arms: np.ndarray, method: Method, n: int, k: int, **columns
) -> np.ndarray:
    """grad E[m] of the method's statistic of a group of n fresh draws, exactly."""
    draws = groups(len(arms), n)
    chances = softmax(logits)[draws].prod(axis=1)
    beside = [columns.get(name) for name in ("selection", "answers")]
    values = []
    for draw in draws:
        drawn = [None if x is None else np.asarray(x)[draw] for x in beside]
        values.append(subsets.value(subsets.samples_of(arms[draw], *drawn), method, k))
    return np.einsum("g,gia->a", chances * values, scores(logits, draws))


def expected_update(
    logits: np.ndarray,
    arms: np.ndarray,
    method: Method,
    n: int,
    k: int,
    *,
    old: np.ndarray | None = None,
    form: str = "ppo",
    **columns,
) -> np.ndarray:
    """E[sum_i A_i grad log pi(y_i)] over groups of n draws of the policy `old`, exactly.

    Off-policy the advantages of the form "ppo" are multiplied by the own ratio, as a surrogate
    does. `columns` are further arguments of `advantages`, one value an arm.
    """
    draws = groups(len(arms), n)
    sampled = softmax(logits if old is None else old)
    ratios = (softmax(logits) / sampled)[draws]
    logs = None if old is None else np.log(ratios)
    drawn = {name: np.asarray(column)[draws] for name, column in columns.items()}
    got = advantages(arms[draws], method, k, log_ratios=logs, form=form, clamp=None, **drawn)
    weights = got * ratios if form == "ppo" else got
    return np.einsum("g,gi,gia->a", sampled[draws].prod(axis=1), weights, scores(logits, draws))
