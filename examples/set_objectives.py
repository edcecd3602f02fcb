"""Objectives of whole sets of k samples, as `method: {statistic: set_objectives.py:poly_epo}`.

A statistic is given the rewards of k samples. If it asks for `answers` it is given an integer for
each of their answers too, equal for equal ones. In a training `answers` names the function that
reads the answer out of a completion.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence


def poly_epo(rewards: Sequence[float], answers: Sequence[int]) -> float:
    """Mean reward times diversity, the share of different answers. Poly-EPO (2604.17654)."""
    return sum(rewards) / len(rewards) * len(set(answers)) / len(answers)


def set_po(rewards: Sequence[float], answers: Sequence[int], weight: float = 0.1) -> float:
    """Mean reward plus weight times the share of pairs that differ. After SetPO (2602.01062)."""
    pairs = list(itertools.combinations(answers, 2))
    diversity = sum(one != other for one, other in pairs) / max(len(pairs), 1)
    return sum(rewards) / len(rewards) + weight * diversity
