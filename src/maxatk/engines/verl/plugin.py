"""Entry point `verl.plugins`: the advantage estimator "maxatk", registered by `import verl`.

verl swallows every error of a plug-in, so this module imports little and `maxatk doctor` says
whether it got there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from verl.trainer.ppo.core_algos import register_adv_est

from maxatk.engines.verl.options import CURRENT, MODE, WHERE, Options, read_options
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

    `token_level_rewards` (rows, tokens) are summed to one reward a row; `index` holds the group id
    of every row; `config` is `algorithm` of verl's configuration. Rows that could not be scored
    (NaN) get 0. A correction is exact at the first optimizer step of a rollout batch only, so
    without the trainer of this package it is refused, and so is a moving k.

    Raises InvalidValueError for settings that are missing, unknown or not allowed.
    """
    options = read_options(config)
    current = (config.get("maxatk") or {}).get(CURRENT)
    if index is None:
        raise InvalidValueError("uid: the estimator 'maxatk' needs the group of every sample")
    real = response_mask.sum(dim=-1).cpu().numpy() > 0  # verl fills batches with empty rows
    if current is None:
        current = _without_trainer(options, np.asarray([str(one) for one in index])[real])
    rewards = token_level_rewards.sum(dim=-1).double().cpu().numpy()
    found = options.advantages(
        index,
        np.where(real, rewards, np.nan),
        k=current["k"],
        group_size=current["group_size"],
    )
    spread = torch.from_numpy(found).to(token_level_rewards)[:, None] * response_mask
    return spread, spread


def _without_trainer(options: Options, ids: np.ndarray) -> dict[str, int]:
    """Return the k and the size of a group under a trainer of verl's own, which tells neither."""
    moving = options.k_schedule != "constant"
    if options.corrects or moving:
        what = f"k_schedule={options.k_schedule}" if moving else f"method={options.method}"
        raise InvalidValueError(f"{WHERE}.{what}: needs trainer.v1.trainer_mode={MODE}")
    largest = int(np.unique(ids, return_counts=True)[1].max())
    if options.k > largest:
        raise InvalidValueError(
            f"{WHERE}.k: must be at most actor_rollout_ref.rollout.n, got {options.k} for groups "
            f"of {largest}"
        )
    return {"k": options.k, "group_size": largest}
