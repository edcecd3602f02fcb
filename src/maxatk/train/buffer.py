"""The buffer of a rollout batch: its micro-batches and groups, and their saved state."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import torch

from maxatk.folders import atomic_write
from maxatk.objectives.objective import Beside

Batch = dict[str, Any]


@dataclasses.dataclass
class Groups:
    """The groups of a rollout batch of all processes, and what its buffer holds of them.

    Args:
        rewards: One a sample, (groups, samples of a group).
        beside: What lies beside the rewards.
        k: The k of their objective.
        advantages_step: The optimizer step whose policy the advantages in the buffer belong to.
        whole: Whether every micro-batch holds whole groups.
    """

    rewards: np.ndarray = dataclasses.field(default_factory=lambda: np.empty((0, 0)))
    beside: Beside = dataclasses.field(default_factory=Beside)
    k: int = 1
    advantages_step: int = -1
    whole: bool = False

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds of them."""
        return {
            "rewards": torch.from_numpy(self.rewards),
            "beside": [_tensor(self.beside.selection), _tensor(self.beside.answers)],
            "k": self.k,
            "advantages_step": self.advantages_step,
            "whole_groups": self.whole,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Groups:
        """Return the groups of what `state` returned."""
        return cls(
            state["rewards"].cpu().numpy(),
            Beside(*(value if value is None else value.cpu().numpy() for value in state["beside"])),
            state["k"],
            state["advantages_step"],
            whole=state["whole_groups"],
        )


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


def rows_that_train(batch: Batch, least: int = 1) -> torch.Tensor:
    """Return the places of the samples whose advantage is not 0, in order, (rows,).

    At least `least` places: those of the first samples of advantage 0 fill up.
    """
    advantages = batch["advantages"].reshape(len(batch["advantages"]), -1)
    idle = (advantages == 0).all(dim=1)
    count = max(least, int((~idle).sum()))
    places = torch.argsort(idle.long(), stable=True)[:count]
    return places.sort().values


def of_rows(batch: Batch, places: torch.Tensor) -> Batch:
    """Return the micro-batch with these samples alone; the same where entries lack one a sample."""
    rows = len(batch["completion_ids"])
    if len(places) == rows or not _plain([batch], rows):
        return batch
    return {key: _pick([batch], key, places) for key in batch}


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


def _tensor(values: np.ndarray | None) -> torch.Tensor | None:
    return None if values is None else torch.from_numpy(values)


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
