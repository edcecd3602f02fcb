"""Unbiased max@k and pass@k of verl's validation samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from maxatk.engines.groups import Groups
from maxatk.objectives import max_at_k


def validation_metrics(
    sources: Sequence[str], ids: Sequence[str], columns: Mapping[str, Sequence[Any]], *, k: int
) -> dict[str, float]:
    """Return the metrics of every data source: max@k, pass@k and the share that is unscored.

    Args:
        sources: Data source of every sample (N,).
        ids: Prompt of every sample (N,).
        columns: `reward` of every sample, and `passed` and `total` tests where the verifier of
            this package gave them; without them a sample passes with a reward of 1.
        k: The k that is trained for, beside 1, 2, 4 .. n.

    A prompt with fewer than k scored samples is left out of max@k.
    """
    rewards = np.asarray(columns["reward"], dtype=float)
    solved = np.where(np.isnan(rewards), np.nan, _solved(rewards, columns))
    names = np.asarray(sources)
    found = {}
    for source in dict.fromkeys(sources):
        here = np.flatnonzero(names == source)
        groups = Groups.of([ids[int(row)] for row in here])
        found[f"val-aux/{source}/reward/unscored"] = float(np.isnan(rewards[here]).mean())
        for name, values in (("max", rewards), ("pass", solved)):
            table = groups.table(values[here])
            for size in _sizes(groups.width, k):
                at_k = max_at_k(table, size)
                known = at_k[~np.isnan(at_k)]
                mean = float(known.mean()) if len(known) else float("nan")
                found[f"val-core/{source}/reward/{name}@{size}"] = mean
    return found


def _solved(rewards: np.ndarray, columns: Mapping[str, Sequence[Any]]) -> np.ndarray:
    passed, total = columns.get("passed"), columns.get("total")
    if passed is None or total is None:
        return rewards >= 1
    rows = zip(passed, total, strict=True)
    return np.asarray([p is not None and t is not None and p == t for p, t in rows])


def _sizes(n: int, k: int) -> list[int]:
    return sorted({2**i for i in range(n.bit_length()) if 2**i <= n} | {min(k, n), n})
