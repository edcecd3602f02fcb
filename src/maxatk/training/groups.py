"""The value that every trainer makes of its samples: groups, one a prompt."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import numpy as np

from maxatk.objectives.objective import Objective

GroupsT = TypeVar("GroupsT", bound="Groups")


@dataclasses.dataclass(frozen=True)
class Groups:
    """P groups of n samples each, one group a prompt; every array is (P, n).

    `rewards` are NaN for a sample without one, also for one that a trainer has lost. `k` is that of
    the moment at which the samples were drawn: a schedule that moves on leaves it as it is.
    """

    rewards: np.ndarray
    k: int
    selection: np.ndarray | None = None  # the scores that select, for an objective with a selection
    answers: np.ndarray | None = None  # numbers, equal for equal answers, for a method on answers
    masked: np.ndarray | None = None  # whether the loss leaves a sample out, as one that is cut off

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

    def advantages(
        self, objective: Objective, *, log_ratios: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the unscaled advantages (P, n) of an objective, raising as `maxatk.advantages`.

        `log_ratios` (P, n) are log pi_theta - log pi_sampled of whole samples in nats; None stands
        for the policy that sampled.
        """
        return objective.advantages(
            self.rewards,
            self.k,
            log_ratios=log_ratios,
            selection=self.selection,
            answers=self.answers,
        )
