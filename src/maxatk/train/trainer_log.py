"""What the trainer logs beside TRL's metrics: groups, ratios, outcomes of the verifier, and time.

TRL averages the values of each key between two lines of the log.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from maxatk.objectives import effective_sample_size, max_at_k
from maxatk.objectives.scale import root_mean_square
from maxatk.records import Outcome

Metrics = dict[str, list[float]]
OUTCOMES = {"time_limit": Outcome.TIME_LIMIT, "infra_error": Outcome.INFRA_ERROR}


class Clock:
    """Measures parts of a training step; a part inside another counts for the inner one only."""

    def __init__(self) -> None:
        self.total = 0.0

    @contextlib.contextmanager
    def measure(self, name: str, metrics: Metrics) -> Iterator[None]:
        """Append the seconds spent inside, without those of inner parts, as `seconds/<name>`."""
        start, before = time.perf_counter(), self.total
        yield
        spent = time.perf_counter() - start - (self.total - before)
        self.total += spent
        metrics["seconds/" + name].append(spent)


def log_groups(
    metrics: Metrics, rewards: np.ndarray, fresh: np.ndarray, texts: Sequence[str], *, k: int
) -> None:
    """Log the groups of one rollout batch: rewards (P, n), advantages (P * n,), their texts.

    max@k for k = 1, 2, 4 .. n and the trained k; the trained k itself; the root mean square of the
    advantages as the loss gets them; the share of groups whose advantages are all 0; the share of
    distinct completions within a group.
    """
    prompts, n = rewards.shape
    ks = {2**i for i in range(n.bit_length()) if 2**i <= n} | {min(k, n), n}
    for size in sorted(ks):
        values = max_at_k(rewards, size)  # NaN for a group with fewer scored samples
        known = values[np.isfinite(values)]
        metrics[f"max@{size}"].append(float(known.mean()) if len(known) else float("nan"))
    metrics["objective/k"].append(float(k))
    metrics["advantages/rms"].append(root_mean_square(fresh))
    silent = (fresh.reshape(-1, n) == 0).all(axis=1)
    metrics["frac_groups_without_signal"].append(float(silent.mean()))
    distinct = [len(set(texts[row * n : (row + 1) * n])) / n for row in range(prompts)]
    metrics["completions/distinct"].append(float(np.mean(distinct)))


def log_deviations(metrics: Metrics, log_ratios: np.ndarray, *, clamp: float | None) -> None:
    """Log how far the policy has moved from the one that sampled: log ratios in nats, any shape."""
    deviation = np.abs(np.expm1(np.clip(log_ratios, -50, 50)))
    metrics["ratio/mean_abs_delta"].append(float(deviation.mean()))
    metrics["ratio/max_abs_delta"].append(float(deviation.max()))
    bound = np.inf if clamp is None else clamp
    metrics["ratio/clamped"].append(float((deviation > bound).mean()))


def log_ratios(metrics: Metrics, log_ratios: np.ndarray, *, k: int, clamp: float | None) -> None:
    """Log the same of whole groups (P, n), and the effective size of their subset weights."""
    log_deviations(metrics, log_ratios, clamp=clamp)
    share = effective_sample_size(log_ratios, min(k, log_ratios.shape[1]), clamp=clamp)
    metrics["ratio/effective_samples"].append(float(share.mean()))


def log_outcomes(metrics: Metrics, reward: Any, accelerator: Any) -> None:
    """Log the shares of tests that met the time limit or a failure of the verifier.

    `reward` is a reward function; one that does not count outcomes (see `CodeReward`) is left out.
    """
    counts = getattr(reward, "outcomes", None)
    if counts is None:
        return
    names = list(OUTCOMES)
    own = [float(counts[OUTCOMES[name]]) for name in names] + [float(sum(counts.values()))]
    *shares, total = accelerator.reduce(
        torch.tensor(own, dtype=torch.float64, device=accelerator.device)
    ).tolist()
    for name, count in zip(names, shares, strict=True):
        metrics[f"verifier/{name}"].append(count / max(total, 1.0))
