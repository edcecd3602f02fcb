"""The reward that a verdict is worth."""

from __future__ import annotations

from maxatk.records import Verdict


def as_reward(verdict: Verdict, *, binary: bool) -> float | None:
    """Return passed / declared tests, or 1.0 and 0.0 for all and not all; None if unscorable."""
    reward = verdict.reward
    return float(reward == 1.0) if binary and reward is not None else reward
