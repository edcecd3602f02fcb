"""A categorical policy, for which max@k and its gradient have a closed form."""

from __future__ import annotations

import numpy as np


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
