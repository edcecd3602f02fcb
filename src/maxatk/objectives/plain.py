"""Credits that look at the rewards of the whole group: they have no k and no order weights.

Each function returns credit minus baseline, (P, n), for rewards in ascending order.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from maxatk.objectives.checks import FloatArray
from maxatk.objectives.group import Group, centred


def reward(group: Group) -> FloatArray:
    """Return the rewards."""
    return group.rewards


def reward_mean(group: Group) -> FloatArray:
    """Return the rewards minus their mean: eq. (5) before the division."""
    return group.centred_rewards


def reward_leave_one_out(group: Group) -> FloatArray:
    """Return the rewards minus the mean of the other samples' rewards (RLOO)."""
    n = group.rewards.shape[-1]
    above: FloatArray = group.centred_rewards * (n / max(n - 1, 1))
    return above


def best(group: Group) -> FloatArray:
    """Return the reward of the best samples, 0 for the others."""
    return np.where(_is_best(group), group.rewards, 0.0)


def best_mean(group: Group) -> FloatArray:
    """Return BoN-max-mean of appendix A: reward minus mean for the best samples, else 0."""
    return np.where(_is_best(group), group.centred_rewards, 0.0)


def best_second(group: Group) -> FloatArray:
    """Return BoN-max-second of appendix A: reward minus the second best distinct value, or 0."""
    is_best = _is_best(group)
    second = np.where(is_best, -np.inf, group.rewards).max(axis=-1, keepdims=True)
    gap = group.rewards - np.where(np.isfinite(second), second, group.rewards[:, -1:])
    return np.where(is_best, gap, 0.0)


def entropic_remove_one(group: Group) -> FloatArray:
    """Return log mean e^(b r) / b of all minus that of the others, b the inverse temperature.

    The others' sum is put together from both sides of the sample: nothing cancels.
    """
    n = group.rewards.shape[-1]
    shifted = group.beta * (group.rewards - group.rewards[:, -1:])
    before, after = (
        np.logaddexp.accumulate(
            np.pad(x, [(0, 0), (1, 0)], constant_values=-np.inf)[:, :-1], axis=1
        )
        for x in (shifted, shifted[:, ::-1])
    )
    others = np.logaddexp(before, after[:, ::-1])
    whole = np.logaddexp(others[:, :1], shifted[:, :1])
    value: FloatArray = (whole - others - np.log(n / (n - 1))) / group.beta
    return value


def entropic_mean(group: Group) -> FloatArray:
    """Return (e^(b r) / sum e^(b r) - 1/n) / b: RS-GRPO, whose convention is n times this."""
    weights = np.exp(group.beta * (group.rewards - group.rewards[:, -1:]))
    shares: FloatArray = weights / weights.sum(axis=-1, keepdims=True)
    relative: FloatArray = centred(shares) / group.beta
    return relative


def _is_best(group: Group) -> npt.NDArray[np.bool_]:
    top: npt.NDArray[np.bool_] = group.rewards == group.rewards[:, -1:]
    return top
