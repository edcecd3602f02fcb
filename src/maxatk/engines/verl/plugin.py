"""Entry point `verl.plugins`: the estimator "maxatk". verl hides its errors, `doctor` does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from verl.trainer.ppo.core_algos import register_adv_est

from maxatk.engines.verl import options
from maxatk.engines.verl.rows import advantages_of_rows
from maxatk.errors import InvalidValueError


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

    The trainer of this package tells them in `config`, verl's `algorithm`. Under one of verl's own
    `token_level_rewards` (rows, tokens) are summed to one reward a row; `index` holds group ids.

    Raises InvalidValueError for settings that are not allowed, and for what the estimator alone
    cannot do: a correction, a moving k, a selection and the scale "batch".
    """
    told = (config.get("maxatk") or {}).get(options.CURRENT)
    if told is None:
        told = _without_trainer(token_level_rewards, response_mask, config, index)
    spread = torch.tensor(list(told)).to(token_level_rewards)[:, None] * response_mask
    return spread, spread


def _without_trainer(
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    config: Mapping[str, Any],
    index: Sequence[object] | None,
) -> np.ndarray:
    """Return one advantage a row under a trainer of verl's own."""
    objective = options.read_objective(config)
    if setting := options.needs_trainer(objective):
        needed = f"needs trainer.v1.trainer_mode={options.MODE}"
        raise InvalidValueError(f"{options.WHERE}.{setting}: {needed}")
    if index is None:
        raise InvalidValueError("uid: the estimator 'maxatk' needs the group of every sample")
    real = response_mask.sum(dim=-1).cpu().numpy() > 0  # verl fills batches with empty rows
    ids = np.asarray([str(one) for one in index])
    largest = int(np.unique(ids[real], return_counts=True)[1].max())
    if problems := options.problems_of(objective, largest):
        raise InvalidValueError("\n".join(problems))
    rewards = np.where(real, token_level_rewards.sum(dim=-1).double().cpu().numpy(), np.nan)
    found = advantages_of_rows(objective, ids, rewards, k=objective.k, group_size=largest)
    return objective.scale().factor(largest) * found
