"""The correction inside the loss: the ratios of whole groups from the loss's own forward pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.workers.utils.losses import ppo_loss
from verl.workers.utils.padding import no_padding_2_padding

from maxatk.objectives.objective import Objective
from maxatk.verl.rows import TrainedRows, advantages_of_rows

# Keys of a batch that tell the loss the k of the moment, without which advantages stay, and what
# they are multiplied by.
K_KEY = "maxatk_k"
FACTOR_KEY = "maxatk_factor"
# The column with the score that selects, at every response token of a row.
SELECTION_KEY = "maxatk_selection"
# verl's column with the number of a row's session in its group. An agent loop that returns several
# outputs has a row for each, all with the reward of the last.
SESSION = "session_id"


def group_loss(
    config: Any,
    objective: Objective,
    group_size: int,
    model_output: dict[str, torch.Tensor],
    data: TensorDict,
    dp_group: Any = None,
) -> tuple[torch.Tensor, dict[str, Any]]:
    """Set the advantages of a micro-batch of whole groups to those of its ratios; verl's loss."""
    k = tu.get_non_tensor_data(data, K_KEY, None)
    moved: dict[str, float] = {}
    if k is not None:
        now = no_padding_2_padding(model_output["log_probs"].detach(), data)
        unscaled, moved = corrected_rows(objective, data, now, k=int(k), group_size=group_size)
        factor = tu.get_non_tensor_data(data, FACTOR_KEY, 1.0)
        data["advantages"] = spread(data, factor * unscaled)
    loss, metrics = ppo_loss(config, model_output, data, dp_group)
    return loss, metrics | moved


def corrected_rows(
    objective: Objective, data: TensorDict, now: torch.Tensor, *, k: int, group_size: int
) -> tuple[np.ndarray, dict[str, float]]:
    """Return unscaled advantages (N,) under log-probabilities `now` (N, tokens), and metrics."""
    old = _padded(data["old_log_probs"])
    mask = _padded(data["response_mask"])
    differences = (now[:, : old.shape[1]].double() - old.double()) * mask
    log_ratios = differences.sum(-1).cpu().numpy()
    rows = trained_rows(data, group_size)
    rewards = row_rewards(data)
    advantages = advantages_of_rows(
        objective,
        rows,
        rewards,
        k=k,
        log_ratios=log_ratios,
        selection=row_selection(objective, data),
    )
    if not len(rows.places):  # a batch of nothing but the rows that fill it
        return advantages, {}
    scored = ~np.isnan(rows.groups(rewards, k).rewards)
    if not scored.any():
        return advantages, {}
    mean = float(np.abs(rows.log_ratios(log_ratios)[scored]).mean())
    return advantages, {"actor/maxatk/abs_log_ratio": mean}


def trained_rows(data: TensorDict, group_size: int) -> TrainedRows:
    """Return the rows of a batch that have a trained token, as samples of groups."""
    ids = [str(group_id) for group_id in data["uid"]]
    # Where verl has said no session, every row is one.
    sessions = [int(session) for session in data[SESSION]] if SESSION in data else None
    return TrainedRows(ids, group_size, sessions, response_lengths(data))


def row_rewards(data: TensorDict) -> np.ndarray:
    """Return the reward of every row (N,), float64."""
    rewards: np.ndarray = _padded(data["rm_scores"]).sum(-1).double().cpu().numpy()
    return rewards


def row_selection(objective: Objective, data: TensorDict) -> np.ndarray | None:
    """Return the score of every row that selects (N,), None where the objective has none."""
    if objective.selection is None:
        return None
    scores: np.ndarray = _padded(data[SELECTION_KEY])[:, 0].double().cpu().numpy()
    return scores


def response_lengths(data: TensorDict) -> np.ndarray:
    """Return the trained tokens of every row (N,), 0 for the rows that fill a batch."""
    lengths: np.ndarray = _padded(data["response_mask"]).sum(-1).cpu().numpy()
    return lengths


def spread(data: TensorDict, values: np.ndarray) -> torch.Tensor:
    """Return a column (N, tokens), nested, with the value of its row at every response token."""
    rows = data["response_mask"].unbind()
    columns = [
        torch.full_like(row, float(value), dtype=torch.float32)
        for row, value in zip(rows, values, strict=True)
    ]
    return torch.nested.as_nested_tensor(columns, layout=torch.jagged)


def _padded(nested: torch.Tensor) -> torch.Tensor:
    return nested.to_padded_tensor(0) if nested.is_nested else nested
