"""The log of a training in words: a line for a row, and how the last rows differ from the first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maxatk.folders import known, known_values
from maxatk.training.keys import FAILED, REWARD, SILENT, UNSCORED, K, max_at
from maxatk.training.symptoms import MOST_WITHOUT_SIGNAL, LogRow, group_size

PARTS = 10  # the first and the last tenth of a log are compared

_LACKING = {UNSCORED: "without a reward", FAILED: "for which the reward failed"}


def log_line(row: LogRow) -> str:
    """Return what a row of the log says of rewards, max@k, KL, signal and length."""
    parts = []
    for name in (REWARD, *_shown_metrics(row)):
        value = known(row, name)
        parts.append(f"{name} unknown" if value is None else f"{name} {value:.3f}")
    kl = known(row, "kl")
    if kl is not None:  # with beta alone: otherwise there is no reference model
        parts.append(f"KL {kl:.4f}")
    silent = known(row, SILENT) or 0
    if silent > MOST_WITHOUT_SIGNAL:
        parts.append(f"{silent:.0%} of the groups without signal")
    cut_off = known(row, "completions/clipped_ratio")
    if cut_off is not None:
        parts.append(f"{cut_off:.1%} cut off by length")
    return ", ".join([*parts, *lacking([row])])


def lacking(rows: Sequence[LogRow]) -> list[str]:
    """Return the shares of completions without a reward, or with one that failed, in words."""
    sentences = []
    for key, sentence in _LACKING.items():
        shares = known_values(rows, key)
        if shares and np.mean(shares) > 0:
            sentences.append(f"{np.mean(shares):.1%} {sentence}")
    return sentences


def first_and_last(rows: Sequence[LogRow]) -> dict[str, tuple[float, float]]:
    """Return the means of max@1, max@k and max@n over the first and the last tenth of a log."""
    logged = [row for row in rows if REWARD in row]
    if len(logged) < 2:
        return {}
    part = max(1, len(logged) // PARTS)
    means = {}
    for name in _shown_metrics(logged[-1]):
        first = known_values(logged[:part], name)
        last = known_values(logged[-part:], name)
        if first and last:
            means[name] = (float(np.mean(first)), float(np.mean(last)))
    return means


def _shown_metrics(row: LogRow) -> list[str]:
    """Return the keys of max@1, max@k of the trained k, and max@n, as far as they are logged."""
    ks = {1, int(known(row, K) or 1), group_size([row])}
    return [max_at(k) for k in sorted(ks) if max_at(k) in row]
