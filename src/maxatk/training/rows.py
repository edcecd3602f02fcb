"""Rows of a batch with the id of their group, in any order, as groups and back."""

from __future__ import annotations

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from maxatk.objectives.layout import Layout, layout_of_ids
from maxatk.training.groups import Groups


@dataclasses.dataclass(frozen=True)
class Rows:
    """N rows, each of the group that its id names; groups stand in the order of appearance.

    A group with fewer rows than `group_size` has lost the others, which are NaN in tables (P, n).
    """

    ids: Sequence[str]
    group_size: int

    @functools.cached_property
    def _layout(self) -> Layout:
        return layout_of_ids(self.ids, least=self.group_size)

    @functools.cached_property
    def members(self) -> list[list[int]]:
        """The rows of each group."""
        rows_of: dict[str, list[int]] = defaultdict(list)
        for row, group_id in enumerate(self.ids):
            rows_of[group_id].append(row)
        return list(rows_of.values())

    def groups(self, rewards: np.ndarray, k: int, *, selection: np.ndarray | None = None) -> Groups:
        """Return the groups of rewards (N,), and of scores that select (N,)."""
        scores = None if selection is None else self.table(selection)
        return Groups(self.table(rewards), k, scores)

    def table(self, values: np.ndarray) -> np.ndarray:
        """Return values of rows (N,) as those of groups (P, n)."""
        return self._layout.rows("rows", values)

    def of_rows(self, table: np.ndarray) -> np.ndarray:
        """Return values of groups (P, n) as those of rows (N,)."""
        return np.asarray(self._layout.of_samples(table))
