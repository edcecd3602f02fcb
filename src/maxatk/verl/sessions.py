"""Which rows of a batch are of one session: an agent loop of verl may return several outputs."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from omegaconf import open_dict
from verl.trainer.ppo.v1 import trainer_base

from maxatk.verl import options

_NAME = "compute_advantage_for_multi_trajectories"
_ESTIMATOR = "maxatk"


def session_of(key: str) -> int:
    """Return the session of a row in its group, from its key {uid}_{session}_{output}."""
    return int(key.rsplit("_", 2)[1])


def tell_estimator() -> None:
    """Let verl's own trainers tell the estimator the session of every row.

    verl hands the keys of the rows to this one function of its trainers, which makes one sample of
    a session for the estimator GRPO and counts the rows for any other.
    """
    original = getattr(trainer_base, _NAME)
    if hasattr(original, "__wrapped__"):  # has been done
        return

    @functools.wraps(original)
    def with_sessions(data: Any, *, batch_keys: Sequence[str], config: Any, **others: Any) -> Any:
        keys = {"batch_keys": batch_keys, "config": config}
        if others.get("adv_estimator") != _ESTIMATOR or not config.get("maxatk"):
            return original(data, **keys, **others)
        with open_dict(config):
            config.maxatk[options.SESSIONS] = [session_of(key) for key in batch_keys]
            try:
                return original(data, **keys, **others)
            finally:
                del config.maxatk[options.SESSIONS]

    setattr(trainer_base, _NAME, with_sessions)
