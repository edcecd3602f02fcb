"""Entry point `verl.plugins`: the estimator "maxatk". verl hides its errors, `doctor` does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from verl.trainer.ppo.core_algos import register_adv_est

from maxatk.errors import InvalidValueError
from maxatk.training import Learner
from maxatk.verl import options
from maxatk.verl.rows import TrainedRows, advantages_of_rows


@register_adv_est("maxatk")
def maxatk_advantage(
    *,
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    config: Mapping[str, Any],
    index: Sequence[object] | None = None,
    **_: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return on-policy advantages and returns, both (rows, tokens), of a batch of whole groups.

    The trainer of this package has computed them and puts them into `config`, verl's `algorithm`.
    Under a trainer of verl's own `token_level_rewards` (rows, tokens) are summed to one reward a
    row; `index` holds group ids. Rows of one session are one sample; a row without a trained token
    is none and gets 0.

    Raises InvalidValueError for settings that are not allowed, such as a penalty in the rewards,
    and for what the estimator alone cannot do: a correction, a moving k, a selection and the scale
    "batch".
    """
    keys = config.get("maxatk")
    row_advantages = keys.get(options.CURRENT) if isinstance(keys, Mapping) else None
    if row_advantages is None:
        row_advantages = _without_trainer(token_level_rewards, response_mask, config, index)
    column = torch.tensor(list(row_advantages)).to(token_level_rewards)[:, None]
    advantages = column * response_mask
    return advantages, advantages


def _without_trainer(
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    config: Mapping[str, Any],
    index: Sequence[object] | None,
) -> np.ndarray:
    """Return one advantage a row under a trainer of verl's own."""
    objective = options.read_objective(config)
    setting = options.needs_trainer(objective)
    if setting:
        needed = f"needs trainer.v1.trainer_mode={options.MODE}"
        raise InvalidValueError(f"{options.WHERE}.{setting}: {needed}")
    penalty = options.penalty_in_rewards(config)
    if penalty:
        raise InvalidValueError(penalty)
    if index is None:
        raise InvalidValueError("uid: the estimator 'maxatk' needs the group of every sample")
    ids = [str(group_id) for group_id in index]
    sessions = (config.get("maxatk") or {}).get(options.SESSIONS)
    if sessions is not None:
        sessions = list(sessions)  # from a list of OmegaConf
    tokens = response_mask.sum(dim=-1).cpu().numpy()
    # Which rows are whose does not depend on the group size, which is known only from them.
    samples_of_groups = TrainedRows(ids, 1, sessions, tokens).members
    if not samples_of_groups:
        return np.zeros(len(ids))
    # The estimator is not told `rollout.n`; the largest group is the one that lost no sample.
    largest = max(len(samples) for samples in samples_of_groups)
    problems = options.problems_of(objective, largest)
    if problems:
        raise InvalidValueError("\n".join(problems))
    rewards = token_level_rewards.sum(dim=-1).double().cpu().numpy()
    rows = TrainedRows(ids, largest, sessions, tokens)
    unscaled = advantages_of_rows(objective, rows, rewards, k=objective.k)
    return Learner(objective).factor(largest) * unscaled
