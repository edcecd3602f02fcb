"""What has been drawn for a rollout batch: its groups, and what a trainer must know beside them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from maxatk.errors import InvalidValueError
from maxatk.objectives.best_of import MARK
from maxatk.training import Groups


@dataclasses.dataclass(frozen=True)
class RolloutBatch(Groups):
    """The groups of a rollout batch of all processes, and the state of what TRL buffers of it."""

    step: int = -1  # the optimizer step whose policy the advantages in the buffer belong to
    whole: bool = False  # whether every micro-batch holds whole groups


@dataclasses.dataclass(frozen=True)
class Scored:
    """What the completions of all processes came to; rows are in TRL's order, group by group."""

    scores: torch.Tensor  # (rows, reward functions)
    texts: list[str]
    tests: list[Any]  # what tests said of each, None without tests
    masked: list[bool]  # whether a completion is cut off, and out of the loss for it
    marks: list[float] | None = None  # values of the part of the reward that `Groups.marks` holds


def refuse_best_of(functions: Sequence[Any]) -> None:
    """Raise InvalidValueError for a reward function that makes advantages by itself."""
    for function in functions:
        if hasattr(function, MARK):
            raise InvalidValueError(
                f"reward_funcs: {function.__name__} is a reward of maxatk.best_of, which makes "
                "advantages, as this trainer does; allowed: the reward that best_of was given"
            )
