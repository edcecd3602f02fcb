"""Micro-batches as TRL buffers them: their groups, their rows, their importance ratios."""

from __future__ import annotations

from typing import Any, TypeAlias

import torch

MicroBatch: TypeAlias = dict[str, Any]

# Keys that this package adds to TRL's batches; both survive TRL's shuffling and splitting.
GROUP_ROW = "maxatk_group_row"  # place of a sample in the rollout batch of all processes
BEHAVIOUR_LOGPS = "maxatk_behaviour_logps"  # what ratios are taken to, where it is not TRL's old


def in_whole_groups(
    slices: list[MicroBatch], rows: torch.Tensor, group_size: int
) -> list[MicroBatch] | None:
    """Return slices that hold whole groups, dealt at random; None for batches with images.

    `rows` are the places of the samples in the rollout batch, where a group's are neighbours.
    """
    per_slice = len(slices[0]["completion_ids"])
    if not _has_one_row_a_sample(slices, per_slice):
        return None
    groups = torch.argsort(rows).reshape(-1, group_size)
    dealt = groups[torch.randperm(len(groups))]
    places = dealt.reshape(-1).to(rows.device)
    return [_pick(slices, part) for part in places.split(per_slice)]


def of_most_signal(batch: MicroBatch, count: int) -> MicroBatch:
    """Return a micro-batch of `count` samples in order, of advantage 0 as the last resort."""
    rows = len(batch["completion_ids"])
    if count == rows or not _has_one_row_a_sample([batch], rows):
        return batch
    is_idle = (batch["advantages"] == 0).long()
    chosen = torch.argsort(is_idle, stable=True)[:count]
    return _pick([batch], chosen.sort().values)


def _has_one_row_a_sample(slices: list[MicroBatch], rows: int) -> bool:
    """Return whether every entry is None, one number, or has one row a sample."""
    for batch in slices:
        for entry in batch.values():
            if entry is None:
                continue
            if not isinstance(entry, torch.Tensor):
                return False
            if entry.ndim > 0 and len(entry) != rows:  # such as the patches of images
                return False
    return True


def _pick(slices: list[MicroBatch], places: torch.Tensor) -> MicroBatch:
    """Return the micro-batch of some rows of all slices."""
    picked = {}
    for key, first in slices[0].items():
        if first is None or first.ndim == 0:
            picked[key] = first
        else:
            rows = torch.cat([batch[key] for batch in slices])
            picked[key] = rows[places.to(first.device)]
    return picked


def behaviour_logps(batch: MicroBatch) -> torch.Tensor | None:
    """Return the log-probabilities that ratios are taken to; None where every step is on-policy."""
    return batch.get(BEHAVIOUR_LOGPS, batch.get("old_per_token_logps"))


def log_ratios(batch: MicroBatch, now: torch.Tensor) -> torch.Tensor:
    """Return log pi_theta(y) - log pi_behaviour(y) (rows,) in nats; `now` is (rows, tokens)."""
    behaviour = behaviour_logps(batch)
    if behaviour is None:
        return torch.zeros(len(now), device=now.device)
    return torch.where(of_policy(batch), now - behaviour, 0.0).sum(dim=1)


def of_policy(batch: MicroBatch) -> torch.Tensor:
    """Return which tokens (rows, tokens) the policy has drawn, those of TRL's loss."""
    drawn: torch.Tensor = batch["completion_mask"].bool()
    if batch.get("tool_mask") is not None:  # what tools and environments said
        drawn = drawn & batch["tool_mask"].bool()
    return drawn
