"""What the groups of a rollout batch come to: the part of a training's log that is max@k's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from maxatk.objectives import max_at_k
from maxatk.objectives.objective import root_mean_square
from maxatk.statistics.intervals import default_ks
from maxatk.statistics.symptoms import DISTINCT, SHARED, SILENT


def group_values(
    rewards: np.ndarray, advantages: np.ndarray, texts: Sequence[Sequence[str]], *, k: int
) -> dict[str, float]:
    """Return what is logged of groups: rewards and advantages (P, n), and the texts of each group.

    max@k for k = 1, 2, 4 .. n and the trained k; the root mean square of the advantages; the share
    of groups whose advantages are all 0; that of distinct completions in a group; of the samples
    above the least reward the share whose text is so in another group too.
    """
    n = rewards.shape[1]
    return {
        **{f"max@{size}": mean_max_at_k(rewards, size) for size in logged_ks(n, k)},
        "objective/k": float(k),
        "advantages/rms": root_mean_square(advantages),
        SILENT: float((advantages == 0).all(axis=1).mean()),
        DISTINCT: float(np.mean([len(set(group)) / len(group) for group in texts])),
        SHARED: _shared(rewards, texts),
    }


def _shared(rewards: np.ndarray, texts: Sequence[Sequence[str]]) -> float:
    gained = rewards > np.nanmin(rewards, initial=np.inf)
    found = [
        [text for text, own in zip(group, row, strict=False) if own]
        for group, row in zip(texts, gained, strict=True)
    ]
    groups = Counter(text for group in found for text in set(group))
    rewarded = [text for group in found for text in group]
    return sum(groups[text] > 1 for text in rewarded) / max(len(rewarded), 1)


def logged_ks(n: int, k: int) -> list[int]:
    """Return the k that a log has of groups of n: 1, 2, 4 .. n and the trained one, ascending."""
    return sorted({*default_ks(n), min(k, n)})


def mean_max_at_k(rewards: np.ndarray, k: int) -> float:
    """Return the mean max@k of the groups (P, n) with k scored samples; NaN where none has."""
    values = max_at_k(rewards, k)
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
