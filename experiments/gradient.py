"""Bias and variance of the gradients that the methods estimate, on small policies.

Bias: the expected update over all groups of a policy with four arms, exactly, against the gradient
of what the method is for. Variance: E|G - g|^2 of groups of a policy of six tokens with four
choices each, whose gradient is a sum over all 4096 sequences, relative to `bon_loo1`.
"""

from __future__ import annotations

import itertools
import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import numpy as np

from maxatk.diagnose.gradients import max_gradient
from maxatk.objectives import METHODS, OrderWeights, advantages, order_at_k

ARMS = np.array([0.0, 0.3, 0.7, 1.0])
TILTS = {"hard": [2.0, 1.0, 0.0, -1.0], "even": [0.0] * 4, "easy": [-1.0, 0.0, 1.0, 2.0]}
N = 5
K = 3
AIMS = {
    "grpo": OrderWeights.mean(1),
    "dr_grpo": OrderWeights.mean(1),
    "bon_max_mean": OrderWeights.max(N),
    "bon_max_second": OrderWeights.max(N),
    "bon_mean": OrderWeights.max(K),
    "pass_at_k_training": OrderWeights.max(K),
    "max_rl": OrderWeights.harmonic(),
}
"""What the rows without a claim are for; `rs_grpo` is for log E e^(b r) / b."""

PER_SAMPLE = ("grpo", "dr_grpo", "max_rl")  # their mean over the samples is meant

TOKENS = 6
CHOICES = 4
GROUPS = 3000
POLICIES = 6
SIZES = [(8, 2), (8, 4), (8, 7), (16, 4), (16, 8), (32, 8)]
RARE = {"uniform": None, "tests": None, "p = .5": 0.5, "p = .2": 0.2, "p = .05": 0.05}
COMPARED = ("bon_replace", "bon_centred", "pkpo_sloo")


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def bias() -> None:
    draws = np.array(list(itertools.product(range(4), repeat=N)))
    rewards = ARMS[draws]
    print(f"bias, n = {N}, k = {K}: length of the expected update over that of the gradient, angle")
    for name, method in METHODS.items():
        if method.unbiased_for or (name not in AIMS and name != "rs_grpo"):
            continue
        cells = []
        for logits in map(np.array, TILTS.values()):
            p = softmax(logits)
            chance = p[draws].prod(axis=1)
            scores = np.eye(4)[draws] - p
            if name in AIMS:
                value = order_at_k(rewards, AIMS[name])
                want = np.einsum("g,gia->a", chance * value, scores)
            else:
                want = p * (np.exp(ARMS) / (p @ np.exp(ARMS)) - 1)
            got = np.einsum("g,gi,gia->a", chance, advantages(rewards, method, K), scores)
            size = np.linalg.norm(got)
            wanted_size = np.linalg.norm(want)
            ratio = size / wanted_size / (N if name in PER_SAMPLE else 1)
            angle = np.degrees(np.arccos(min(got @ want / (size * wanted_size), 1.0)))
            cells.append(f"{ratio:7.2f} {angle:5.1f}")
        print(f"{name:<20}", " | ".join(cells))


def rewards_of(rate: float | None, name: str, chance: np.ndarray, rng) -> np.ndarray:
    """A reward of every sequence: its quantile, a fraction of five tests, or 0/1 with a rate."""
    order = np.argsort(rng.normal(size=len(chance)))
    quantile = np.empty(len(chance))
    quantile[order] = np.cumsum(chance[order])
    if name == "uniform":
        return quantile
    if rate is None:
        return np.floor(np.clip(quantile, 0, 0.9999) * 5) / 4 * (quantile > 0.5)
    return (quantile > 1 - rate).astype(float)


def variance() -> None:
    rng = np.random.default_rng(0)
    sequences = np.array(list(itertools.product(range(CHOICES), repeat=TOKENS)))
    at = np.arange(TOKENS)
    print(f"\nvariance over that of bon_loo1, {POLICIES} policies: {', '.join(COMPARED)}")
    for n, k in SIZES:
        cells = []
        for name, rate in RARE.items():
            totals = np.zeros(1 + len(COMPARED))
            for _ in range(POLICIES):
                p = softmax(rng.normal(size=(TOKENS, CHOICES)))
                chance = p[at, sequences].prod(axis=1)
                scores = (np.eye(CHOICES)[sequences] - p).reshape(len(sequences), -1)
                rewards = rewards_of(rate, name, chance, rng)
                want = max_gradient(rewards, chance, scores, k)
                drawn = rng.choice(len(sequences), size=(GROUPS, n), p=chance / chance.sum())
                for column, method in enumerate(("bon_loo1", *COMPARED)):
                    got = advantages(rewards[drawn], method, k)
                    estimate = np.einsum("gn,gnd->gd", got, scores[drawn])
                    error = ((estimate - want) ** 2).sum(axis=1).mean()
                    totals[column] += error / (want @ want)
            cells.append(" ".join(f"{ratio:.2f}" for ratio in totals[1:] / totals[0]))
        print(f"n = {n:2}, k = {k}: ", " | ".join(f"{c:>14}" for c in cells), flush=True)


if __name__ == "__main__":
    bias()
    variance()
