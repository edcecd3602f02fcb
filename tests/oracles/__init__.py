"""Slow, obvious implementations to compare the fast ones with."""

from __future__ import annotations

import numpy as np

PAPER = (
    "grpo",
    "bon_max_mean",
    "bon_max_second",
    "bon_loo1",
    "bon_mean",
    "bon_off_policy",
    "bon_off_policy_exact",
)
"""The methods of the paper; the table may have others."""


def answers_of(method, rewards):
    """Some answers, the same for the same reward, for a method that looks at answers."""
    if not method.credit_row.needs_answers:
        return None
    return np.nan_to_num(np.floor(2 * np.asarray(rewards, dtype=float))) % 3
