"""What TRL tells a reward function beside prompts and completions, and takes from it for its log.

TRL hands over the trainer's bound methods `log_metric` and `log_extra`. Other trainers need not:
then nothing is known of their settings, and nothing is logged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from maxatk.errors import InvalidValueError
from maxatk.objectives.checks import FloatArray

BEFORE = "reward before best_of"
"""The column of TRL's logged completions with the rewards that `best_of` was given."""

_ALLOWED = {
    "scale_rewards": ("none", False),
    "multi_objective_aggregation": ("sum_then_normalize",),
}


def refuse_environments(columns: Mapping[str, Any]) -> None:
    """Raise InvalidValueError beside an environment of TRL whose own reward would be added."""
    for environment in columns.get("environments") or ():
        if callable(getattr(environment, "get_reward", None)):
            name = type(environment).__name__
            raise InvalidValueError(
                f"best_of: {name}.get_reward: TRL would add this reward to the values, which are "
                "advantages; allowed: an environment without get_reward, and best_of of a function "
                "that reads the reward from the column `environments`"
            )


def refuse_division(columns: Mapping[str, Any]) -> None:
    """Raise InvalidValueError for a trainer that shows that it divides by the deviation."""
    settings = _settings(columns)
    for name, allowed in _ALLOWED.items():
        value = getattr(settings, name, None)
        if value is not None and value not in allowed:
            raise InvalidValueError(
                f"best_of: {name}: must be {allowed[0]!r}, got {value!r}: a division by the "
                "deviation changes the weight of every group"
            )


def is_training(columns: Mapping[str, Any]) -> bool:
    """Say whether these samples are trained on, and are not those of an evaluation set."""
    return bool(getattr(getattr(_trainer(columns), "model", None), "training", True))


def samples_shown(columns: Mapping[str, Any]) -> int | None:
    """Return the samples a prompt that the trainer's settings show; None where they show none."""
    settings = _settings(columns)
    samples = getattr(settings, "num_generations", None)
    if not is_training(columns):
        samples = getattr(settings, "num_generations_eval", None) or samples
    return samples if isinstance(samples, int) else None


def log_rewards(
    columns: Mapping[str, Any],
    rewards: FloatArray,
    *,
    samples: FloatArray,
    best: FloatArray,
    silent: npt.NDArray[np.bool_],
    k: int,
) -> None:
    """Log the rewards of rows (N,) and of samples (P, n), and what groups came to.

    Of these (P,) it is max@k and whether they have no signal. The mean reward is that of samples: a
    rollout of four rows counts once.
    """
    log_extra = columns.get("log_extra")
    if log_extra is not None:
        log_extra(BEFORE, rewards.tolist())
    log_metric = columns.get("log_metric")
    if log_metric is None:
        return
    metrics = {"reward": samples, f"max@{k}": best, "frac_groups_without_signal": silent}
    for name, values in metrics.items():
        finite = values[np.isfinite(values)]
        if finite.size:
            log_metric(f"best_of/{name}", float(finite.mean()))


def _trainer(columns: Mapping[str, Any]) -> Any:
    """Return the trainer, which a bound method that TRL hands over shows; None where none does."""
    return getattr(columns.get("log_metric"), "__self__", None)


def _settings(columns: Mapping[str, Any]) -> Any:
    return columns.get("args") or getattr(_trainer(columns), "args", None)
