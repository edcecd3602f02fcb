"""The buffer of a rollout batch: its micro-batches, in groups if they fit, and its saved state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from maxatk.folders import atomic_write

Batch = dict[str, Any]


def in_whole_groups(slices: list[Batch], rows: torch.Tensor, group_size: int) -> list[Batch] | None:
    """Return the same buffer with whole groups in every micro-batch, or None if they do not fit.

    `slices` are the micro-batches of one process in TRL's form, `rows` the places of their samples
    in the rollout batch of all processes. Groups come in a random order, as TRL's samples do.
    None also where the batch holds more than one row a sample (images).
    """
    per_slice = len(slices[0]["completion_ids"])
    order = torch.argsort(rows)
    firsts = rows[order][::group_size]
    whole = len(rows) % group_size == 0 and bool((firsts % group_size == 0).all())
    if per_slice % group_size or not whole or not _plain(slices, per_slice):
        return None
    groups = order.reshape(-1, group_size)
    places = groups[torch.randperm(len(groups))].reshape(-1).to(rows.device)
    return [
        {key: _pick(slices, key, part) for key in slices[0]} for part in places.split(per_slice)
    ]


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Write what a run needs to resume in the middle of a buffer, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as partial:
        torch.save(state, partial)


def load_state(path: Path, device: torch.device) -> dict[str, Any] | None:
    """Return what `save_state` wrote, or None where there is no such file."""
    if not path.is_file():
        return None
    state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    return state


def _plain(slices: list[Batch], rows: int) -> bool:
    """Say whether every entry is None, one number, or has one row a sample."""
    return all(
        value is None
        or (isinstance(value, torch.Tensor) and (value.ndim == 0 or len(value) == rows))
        for part in slices
        for value in part.values()
    )


def _pick(slices: list[Batch], key: str, places: torch.Tensor) -> Any:
    first = slices[0][key]
    if first is None or first.ndim == 0:
        return first
    return torch.cat([part[key] for part in slices])[places.to(first.device)]
