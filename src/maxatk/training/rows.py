"""Rows of a batch with the id of their group, in any order, as groups and back."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable, Sequence

import numpy as np

from maxatk.errors import InvalidValueError
from maxatk.objectives.checks import as_k, plain_ids
from maxatk.objectives.layout import Layout, layout_of_ids
from maxatk.objectives.rollouts import RolloutLayout, RolloutReward, rollout_layout
from maxatk.training.groups import Groups


@dataclasses.dataclass(frozen=True)
class Rows:
    """N rows, each of the group that its id names; groups stand in the order of appearance.

    A row is a sample, or with `rollouts` a part of the one that its id names, unique in its group;
    samples then stand in the order of their first rows. A group with fewer samples than
    `group_size` has lost the others, which are NaN in tables (P, n). `rollout_reward` is as in
    `maxatk.advantages`.

    The methods raise InvalidValueError for a group with more samples, whose advantages would be
    those of another n, and as `maxatk.advantages` for ids and values.
    """

    ids: Sequence[str]
    group_size: int
    rollouts: Sequence[Hashable] | None = None
    rollout_reward: RolloutReward | None = None

    @functools.cached_property
    def _layout(self) -> Layout | RolloutLayout:
        size = as_k(self.group_size, field="group_size")
        rows = layout_of_ids(self.ids, least=size)
        layout: Layout | RolloutLayout = rows
        if self.rollouts is not None:
            layout = rollout_layout(rows, self.rollouts, self.rollout_reward, least=size)
        largest = int(layout.sizes.max())
        if largest > size:
            name = rows.name_of_group(int(layout.sizes.argmax()))
            allowed = f"at least the samples of every group, of which {name!r} has {largest}"
            raise InvalidValueError(f"group_size: must be {allowed}, got {size}")
        return layout

    @functools.cached_property
    def members(self) -> list[list[list[int]]]:
        """The rows of each sample of each group."""
        samples_of: dict[str, dict[Hashable, list[int]]] = {}
        rollouts: Sequence[Hashable] = range(len(self.ids))
        if self.rollouts is not None:
            rollouts = plain_ids("rollouts", self.rollouts)
        for row, group_id in enumerate(plain_ids("groups", self.ids)):
            samples = samples_of.setdefault(group_id, {})
            samples.setdefault(rollouts[row], []).append(row)
        return [list(samples.values()) for samples in samples_of.values()]

    def groups(self, rewards: np.ndarray, k: int, *, selection: np.ndarray | None = None) -> Groups:
        """Return the groups of rewards (N,), and of scores that select (N,)."""
        scores = None if selection is None else self._layout.rows("selection", selection)
        return Groups(self._layout.rewards(rewards), k, scores)

    def table(self, values: np.ndarray) -> np.ndarray:
        """Return values of rows (N,), equal in a sample, as those of groups (P, n)."""
        return self._layout.rows("rows", values)

    def log_ratios(self, of_rows: np.ndarray) -> np.ndarray:
        """Return log ratios (N,) as those of samples (P, n): the sum over the rows of each."""
        return self._layout.sums("log_ratios", of_rows)

    def of_rows(self, table: np.ndarray) -> np.ndarray:
        """Return values of groups (P, n) as those of rows (N,)."""
        return np.asarray(self._layout.of_samples(table))
