"""The value that every trainer makes of its samples: groups, one a prompt."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from maxatk.check import require
from maxatk.objectives.checks import as_floats, as_k
from maxatk.objectives.metrics import passes
from maxatk.objectives.objective import Objective

ValueT = TypeVar("ValueT")
GroupsT = TypeVar("GroupsT", bound="Groups")


@dataclasses.dataclass(frozen=True)
class Groups:
    """P groups of n samples each, one group a prompt; every array is (P, n).

    `rewards` are NaN for a sample without one, also for one that a trainer has lost. `k` is that of
    the moment at which the samples were drawn: a schedule that moves on leaves it as it is.

    Columns may be lists of lists, integers or tensors: they are kept as float64, `masked` as truth
    values. Raises InvalidValueError for other shapes, for what is no number, and for a k below 1.
    """

    rewards: np.ndarray
    k: int
    selection: np.ndarray | None = None  # the scores that select, for an objective with a selection
    answers: np.ndarray | None = None  # numbers, equal for equal answers, for a method on answers
    masked: np.ndarray | None = None  # whether the loss leaves a sample out, as one that is cut off
    marks: np.ndarray | None = None  # the part of the reward that says what is right; None for all

    def __post_init__(self) -> None:
        as_k(self.k)
        rewards = as_floats("rewards", self.rewards)
        is_table = rewards.ndim == 2 and rewards.shape[1] > 0
        require(is_table, "rewards", "of shape (prompts, samples)", rewards.shape)
        object.__setattr__(self, "rewards", rewards)
        for name in ("selection", "answers", "masked", "marks"):
            values = getattr(self, name)
            if values is None:
                continue
            column = as_floats(name, values)
            fits = column.shape == rewards.shape
            require(fits, name, f"of the shape of the rewards {rewards.shape}", column.shape)
            object.__setattr__(self, name, column != 0 if name == "masked" else column)

    @property
    def size(self) -> int:
        """Return the number of samples of a group."""
        return int(self.rewards.shape[1])

    def at(self: GroupsT, rows: np.ndarray) -> GroupsT:
        """Return the groups of these samples, numbered group by group from 0, in their order."""
        chosen: dict[str, Any] = {}
        for name, column in vars(self).items():
            if isinstance(column, np.ndarray):
                chosen[name] = column.ravel()[rows].reshape(-1, self.size)
        return dataclasses.replace(self, **chosen)

    def solved(self) -> np.ndarray:
        """Return whether a sample of each group (P,) is right, which is worth 1 or more."""
        marks = self.rewards if self.marks is None else self.marks
        solved: np.ndarray = np.any(passes(marks), axis=1)
        return solved

    def have_signal(self, advantages: np.ndarray) -> np.ndarray:
        """Return whether each group (P,) has something to learn from its `advantages` (P, n).

        A sample in the loss must have an advantage and, where `marks` are given, two samples in
        the loss must differ in them: other parts of a reward rank samples that are all wrong.
        """
        in_loss = ~self.masked if self.masked is not None else np.ones(advantages.shape, bool)
        signal = (advantages != 0) & in_loss
        if self.marks is not None:
            marks = np.where(in_loss, self.marks, np.nan)
            highest = np.fmax.reduce(marks, axis=1, keepdims=True)
            lowest = np.fmin.reduce(marks, axis=1, keepdims=True)
            signal &= highest > lowest
        has_signal: np.ndarray = np.any(signal, axis=1)
        return has_signal

    def advantages(
        self,
        objective: Objective,
        *,
        log_ratios: np.ndarray | None = None,
        held_out: bool = False,
    ) -> np.ndarray:
        """Return the unscaled advantages (P, n) of an objective, raising as it does.

        `log_ratios` (P, n) are log pi_theta - log pi_sampled of whole samples in nats; None stands
        for the policy that sampled. Groups that are `held_out` may be smaller than k.
        """
        return objective.advantages(
            self.rewards,
            self.k,
            log_ratios=log_ratios,
            selection=self.selection,
            answers=self.answers,
            held_out=held_out,
        )


def in_groups(values: Sequence[ValueT], size: int) -> list[list[ValueT]]:
    """Return values of samples, group after group, as a list of each group of so many."""
    return [list(values[start : start + size]) for start in range(0, len(values), size)]
