"""What has been drawn for a rollout batch: its groups, and what a trainer must know beside them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from maxatk.errors import InvalidValueError
from maxatk.training import Groups
from maxatk.training.best_of import MARK


@dataclasses.dataclass(frozen=True)
class RolloutBatch(Groups):
    """The groups of a rollout batch of all processes, and the state of what TRL buffers of it."""

    step: int = -1  # the optimizer step whose policy the advantages in the buffer belong to
    whole: bool = False  # whether every micro-batch holds whole groups


@dataclasses.dataclass(frozen=True)
class Scored:
    """What the completions of all processes came to; rows are in TRL's order, group by group."""

    scores: torch.Tensor  # (rows, reward functions)
    texts: list[str]  # of whole completions, with the messages of tools
    last_texts: list[str]  # what the policy said last, in which an answer is looked for
    tests: list[Any]  # what tests said of each, None without tests
    masked: list[bool]  # whether a completion is cut off, and out of the loss for it
    marks: list[float] | None = None  # values of the part of the reward that `Groups.marks` holds
    tests_run: int = 0  # by reward functions


def functions_of_caller(functions: Any) -> Any:
    """Return reward functions without those that TRL has added, as a list that it may add to.

    TRL appends the `get_reward` of an environment to the list that it is given, so that a second
    trainer with the same list would count it twice.
    """
    if not isinstance(functions, list):
        return functions
    return [function for function in functions if not _is_added(function)]


def _is_added(function: Any) -> bool:
    is_of_trl = getattr(function, "__module__", "").startswith("trl.")
    return is_of_trl and getattr(function, "__qualname__", "").endswith("<locals>.get_reward")


def refuse_best_of(functions: Sequence[Any]) -> None:
    """Raise InvalidValueError for a reward function that makes advantages by itself."""
    for function in functions:
        if hasattr(function, MARK):
            raise InvalidValueError(
                f"reward_funcs: {function.__name__} is a reward of maxatk.best_of, which makes "
                "advantages, as this trainer does; allowed: the reward that best_of was given"
            )
