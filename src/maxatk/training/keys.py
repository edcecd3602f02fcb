"""Names of what a training logs, equal for every trainer; docs/training-log.md explains each."""

from __future__ import annotations

REWARD = "reward"
K = "objective/k"
RMS = "advantages/rms"
SILENT = "frac_groups_without_signal"
SOLVED = "frac_groups_solved"
DISTINCT = "completions/distinct"
SHARED = "completions/rewarded_elsewhere"
UNSCORED = "frac_without_reward"
FAILED = "frac_reward_failed"

MEAN_DELTA = "ratio/mean_abs_delta"
MAX_DELTA = "ratio/max_abs_delta"
CLAMPED = "ratio/clamped"
EFFECTIVE = "ratio/effective_samples"


def max_at(k: int) -> str:
    """Return the key of the mean max@k of a step's groups."""
    return f"max@{k}"
