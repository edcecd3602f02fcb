"""From what reward functions returned to the values of `best_of`, which a GRPO trains on."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from maxatk.check import returned_rewards
from maxatk.errors import InvalidValueError, counted
from maxatk.objectives.advantage import advantages
from maxatk.objectives.checks import FloatArray
from maxatk.objectives.methods import Method, check_group_size
from maxatk.objectives.metrics import max_at_k
from maxatk.objectives.rollouts import RolloutReward, sample_layout
from maxatk.training.best_of_groups import RolloutRows, column_of, rows_of_rollouts, size_of_groups
from maxatk.training.best_of_record import BestOfRecord
from maxatk.training.best_of_trl import is_training, log_rewards, refuse_division, samples_shown

Values: TypeAlias = "list[float | None]"


@dataclasses.dataclass(frozen=True)
class Valued:
    """What the groups of a call came to; a sample is a row, or a rollout that may have several."""

    rewards: FloatArray  # (P, n), NaN for a sample without one
    values: FloatArray  # n A_i of every row, (N,)
    unscored: npt.NDArray[np.bool_]  # whether the sample of a row has no reward, (N,)
    best: FloatArray  # max@k of every group, (P,)
    silent: npt.NDArray[np.bool_]  # whether all values of a group are 0, (P,)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BestOfValues:
    """What `best_of` was given, and how it makes GRPO's values of what the functions returned."""

    names: list[str]  # of the reward functions
    weights: list[float]
    method: Method
    k: int
    groups: str | None
    rollouts: str | None
    rollout_reward: RolloutReward | None
    record: BestOfRecord | None

    def for_grpo(
        self, returned: Sequence[Any], prompts: Any, completions: Any, columns: dict[str, Any]
    ) -> Values:
        """Return n A_i of each completion, None where its sample has no reward; log the groups."""
        refuse_division(columns)
        rows = len(completions)
        rewards = self._weighted_sum(returned, rows)
        ids = prompts if self.groups is None else column_of("groups", self.groups, columns)
        is_held_out = not is_training(columns)
        if self.rollouts is None:
            size = size_of_groups(ids, rows, samples_shown(columns))
            k = self._k_in(size, is_held_out=is_held_out)
            valued = self._of_samples(rewards.reshape(-1, size), k)
        else:
            column = column_of("rollouts", self.rollouts, columns)
            rollouts = rows_of_rollouts(ids, column, rows, ids_are_prompts=self.groups is None)
            k = self._k_in(rollouts.size, is_held_out=is_held_out)
            valued = self._of_rollouts(rewards, rollouts, k)
        log_rewards(
            columns, rewards, samples=valued.rewards, best=valued.best, silent=valued.silent, k=k
        )
        if self.record is not None and not is_held_out:  # which has no rollouts of several rows
            self.record.add(
                valued.rewards,
                valued.values.reshape(valued.rewards.shape),
                prompts=prompts,
                completions=completions,
                columns=columns,
            )
        scored = zip(valued.values.tolist(), valued.unscored, strict=True)
        return [None if is_unscored else value for value, is_unscored in scored]

    def _weighted_sum(self, returned: Sequence[Any], rows: int) -> FloatArray:
        """Return the weighted sum of the rewards of each completion, NaN where it has none."""
        by_function = [
            returned_rewards(values, rows, called=f"best_of: {name}")
            for name, values in zip(self.names, returned, strict=True)
        ]
        rewards: FloatArray = np.array(self.weights) @ np.nan_to_num(by_function)
        rewards[np.isnan(by_function).all(axis=0)] = np.nan
        return rewards

    def _k_in(self, size: int, *, is_held_out: bool) -> int:
        """Return the k in groups of so many; raise InvalidValueError where they are too small.

        Groups that are held out, on which nothing is trained, have the largest k they can.
        """
        if is_held_out:
            return min(self.k, self.method.largest_k(size))
        if self.method.credit_row.uses_k and self.k >= size:
            raise InvalidValueError(
                f"best_of: k: must be below the samples of a prompt (num_generations), got "
                f"k={self.k} with {counted(size, 'sample')} one after the other"
            )
        check_group_size(self.method, self.k, size)
        return self.k

    def _of_samples(self, table: FloatArray, k: int) -> Valued:
        """Return what groups (P, n) came to where every row is a sample."""
        size = table.shape[1]
        values = np.zeros(table.shape)
        if self.method.samples_needed(k) <= size:  # else they are held out
            values = size * advantages(table, self.method, k)
        silent = (values == 0).all(axis=1)
        unscored = np.isnan(table.ravel())
        return Valued(table, values.ravel(), unscored, max_at_k(table, k), silent)

    def _of_rollouts(self, rewards: FloatArray, rows: RolloutRows, k: int) -> Valued:
        """Return what rows (N,) came to where a rollout may have several and n counts rollouts."""
        values = np.zeros(len(rewards))
        if self.method.samples_needed(k) <= rows.size:
            values = rows.size * advantages(
                rewards,
                self.method,
                k,
                groups=rows.groups,
                rollouts=rows.rollouts,
                rollout_reward=self.rollout_reward,
            )
        best = max_at_k(
            rewards,
            k,
            groups=rows.groups,
            rollouts=rows.rollouts,
            rollout_reward=self.rollout_reward,
        )
        has_signal = np.zeros(rows.count, dtype=bool)
        np.logical_or.at(has_signal, rows.groups, values != 0)
        layout, table = sample_layout(rewards, rows.groups, rows.rollouts, self.rollout_reward)
        # A turn need not have a reward of its own: its value is that of its rollout.
        unscored = np.isnan(layout.of_samples(table))
        return Valued(table, values, unscored, best, ~has_signal)
