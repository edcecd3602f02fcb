"""Micro-batches as TRL buffers them: their groups, their rows, their importance ratios."""

from __future__ import annotations

from typing import Any

import torch

Batch = dict[str, Any]

# Keys that this package adds to TRL's batches; both survive TRL's shuffling and splitting.
GROUP_ROW = "maxatk_group_row"  # place of a sample in the rollout batch of all processes
BEHAVIOUR_LOGPS = "maxatk_behaviour_logps"  # what ratios are taken to, where it is not TRL's old


def in_whole_groups(slices: list[Batch], rows: torch.Tensor, group_size: int) -> list[Batch] | None:
    """Return slices with whole groups, dealt at random, of samples with `rows`; None for images."""
    per_slice = len(slices[0]["completion_ids"])
    if not _plain(slices, per_slice):
        return None
    groups = torch.argsort(rows).reshape(-1, group_size)
    places = groups[torch.randperm(len(groups))].reshape(-1).to(rows.device)
    return [_pick(slices, part) for part in places.split(per_slice)]


def of_most_signal(batch: Batch, count: int) -> Batch:
    """Return a micro-batch of `count` samples in order, of advantage 0 as the last resort."""
    rows = len(batch["completion_ids"])
    if count == rows or not _plain([batch], rows):
        return batch
    idle = (batch["advantages"] == 0).long()
    return _pick([batch], torch.argsort(idle, stable=True)[:count].sort().values)


def _plain(slices: list[Batch], rows: int) -> bool:
    """Say whether every entry is None, one number, or has one row a sample."""
    return all(
        value is None
        or (isinstance(value, torch.Tensor) and (value.ndim == 0 or len(value) == rows))
        for part in slices
        for value in part.values()
    )


def _pick(slices: list[Batch], places: torch.Tensor) -> Batch:
    """Return the micro-batch of some rows of all slices."""
    return {
        key: value
        if value is None or value.ndim == 0
        else torch.cat([part[key] for part in slices])[places.to(value.device)]
        for key, value in slices[0].items()
    }


def behaviour_logps(batch: Batch) -> torch.Tensor | None:
    """Return the log-probabilities that ratios are taken to; None where every step is on-policy."""
    return batch.get(BEHAVIOUR_LOGPS, batch.get("old_per_token_logps"))


def log_ratios(batch: Batch, now: torch.Tensor) -> torch.Tensor:
    """Return log pi_theta(y) - log pi_behaviour(y) (rows,) in nats; `now` is (rows, tokens)."""
    behaviour = behaviour_logps(batch)
    if behaviour is None:
        return torch.zeros(len(now), device=now.device)
    of_policy = batch["completion_mask"].bool()
    if batch.get("tool_mask") is not None:  # what tools and environments said is not in TRL's loss
        of_policy = of_policy & batch["tool_mask"].bool()
    return torch.where(of_policy, now - behaviour, 0.0).sum(dim=1)
