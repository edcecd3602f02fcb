"""Rollouts of several rows: what is drawn once counts once, however many rows it is trained on.

An agent's rollout becomes several rows where its context is compacted, where it calls sub-agents,
or where its tokens are made anew. n and k count rollouts; rows share what their rollout is worth.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from maxatk.check import one_of, require
from maxatk.errors import InvalidValueError, counted
from maxatk.objectives.checks import FloatArray, as_floats
from maxatk.objectives.layout import Layout, layout_of, warn_of_small

RolloutReward: TypeAlias = Literal["last", "sum"]
"""Which reward a rollout has whose rows have different ones."""

Places: TypeAlias = npt.NDArray[np.intp]


@dataclasses.dataclass(frozen=True, eq=False)
class RolloutLayout:
    """Where the rows of rewards lie in rollouts, and the rollouts in groups, (P, n).

    It has what a `Layout` has, where a sample is a rollout.
    """

    row_layout: Layout
    rollout_of_row: Places  # (P, rows), the number of each row's rollout in its group, -1 if padded
    sizes: Places  # (P,), the rollouts of each group
    reward: RolloutReward | None  # None where all rows of a rollout must have the same
    least: int = 0  # rollouts that a table has place for in every group

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the rewards as an array."""
        return self.row_layout.shape

    @property
    def width(self) -> int:
        """Return the number of rollouts of the largest group."""
        return int(self.sizes.max(initial=self.least))

    @property
    def places(self) -> Places | None:
        """Return where the rows lie among flat or ragged ones, None for an array of groups."""
        return self.row_layout.places

    @functools.cached_property
    def _is_row(self) -> npt.NDArray[np.bool_]:
        return self.rollout_of_row >= 0

    @functools.cached_property
    def _cells(self) -> Places:
        """Return the place of each row's rollout in a flattened table (P, n), (P, rows)."""
        first_of_group = np.arange(len(self.sizes))[:, None] * self.width
        return np.where(self._is_row, first_of_group + self.rollout_of_row, 0)

    def rewards(self, values: Any) -> FloatArray:
        """Return the rewards as one a rollout, (P, n), NaN where no row has one.

        Rows without a reward have no say in it: a turn need not have one. It is the sum of the
        others where that is asked for, else the last of them, and these may differ only where the
        reward "last" was asked for.
        """
        table = self.row_layout.rows("rewards", values)
        have_say = self._is_row & ~np.isnan(table)
        if self.reward is None:
            self._refuse_unequal("rewards", table, have_say)
        if self.reward != "sum":
            return self._last(table, have_say, np.nan)
        return self._summed(table, have_say)

    def sums(self, field: str, values: Any) -> FloatArray:
        """Return a column of numbers beside the rewards summed over each rollout, (P, n).

        So are log ratios: the ratio of a rollout is the product of those of its rows.
        """
        return self._summed(self.row_layout.rows(field, values), self._is_row)

    def rows(self, field: str, values: Any) -> FloatArray:
        """Return a column of numbers beside the rewards as one a rollout, that of its last row.

        Rows without a number have no say in it, as in the reward. Others of a rollout may differ
        only where the reward "last" was asked for.
        """
        table = self.row_layout.rows(field, values)
        have_say = self._is_row & ~np.isnan(table)
        if self.reward != "last":
            self._refuse_unequal(field, table, have_say)
        return self._last(table, have_say, np.nan)

    def codes(self, field: str, values: Any) -> Places:
        """Return a column of hashable values as one small integer a rollout, (P, n)."""
        table = self.row_layout.codes(field, values)
        if self.reward != "last":
            self._refuse_unequal(field, table.astype(np.float64), self._is_row)
        return self._last(table, self._is_row, -1)

    def of_samples(self, values: FloatArray) -> Any:
        """Return values of the rollouts (P, n) as those of their rows, in the rewards' form."""
        return self.row_layout.of_samples(values.ravel()[self._cells])

    def of_groups(self, values: FloatArray) -> Any:
        """Return values of the groups (P, ...) as what holds the rewards."""
        return self.row_layout.of_groups(values)

    def warn_of_fewer(self, needed: int, effect: str, *, depth: int) -> None:
        """Warn of groups with fewer rollouts than are needed, `depth` calls below the caller."""
        wanted = counted(needed, "rollout")
        warn_of_small(self.row_layout, self.sizes, wanted, needed, effect, depth=depth + 1)

    def _last(
        self, table: npt.NDArray[Any], rows: npt.NDArray[np.bool_], padding: float
    ) -> npt.NDArray[Any]:
        """Return the value of the last of some rows of each rollout, in the order of the rewards.

        `rows` (P, rows) says of which; a rollout without any has the padding.
        """
        last = np.full((len(self.sizes), self.width), padding, dtype=table.dtype)
        # Of several values for one place NumPy keeps the last.
        last.reshape(-1)[self._cells[rows]] = table[rows]
        return last

    def _summed(self, table: FloatArray, rows: npt.NDArray[np.bool_]) -> FloatArray:
        """Return the sum over some rows of each rollout, NaN for a rollout without any."""
        sums = np.full((len(self.sizes), self.width), np.nan)
        cells = self._cells[rows]
        sums.reshape(-1)[cells] = 0.0
        np.add.at(sums.reshape(-1), cells, table[rows])
        return sums

    def _refuse_unequal(self, field: str, table: FloatArray, rows: npt.NDArray[np.bool_]) -> None:
        """Raise InvalidValueError where some rows of one rollout have different values."""
        of_rollout = self._last(table, rows, np.nan).ravel()[self._cells]
        both_unknown = np.isnan(table) & np.isnan(of_rollout)
        unequal = rows & (table != of_rollout) & ~both_unknown
        if not unequal.any():
            return
        group, row = np.argwhere(unequal)[0]
        name = self.row_layout.name_of_group(int(group))
        values = (
            "" if field == "answers" else f": {table[group, row]:g}, {of_rollout[group, row]:g}"
        )
        allowed = "'last' or 'sum'" if field == "rewards" else "'last'"
        raise InvalidValueError(
            f"{field}: the rows of one rollout of group {name!r} have different ones{values}; "
            f"allowed: equal ones, or rollout_reward {allowed}"
        )


def sample_layout(
    rewards: Any, groups: Any, rollouts: Any, reward: RolloutReward | None
) -> tuple[Layout | RolloutLayout, FloatArray]:
    """Return the layout of rewards, whose samples are `rollouts` if given, and their table (P, n).

    Raises InvalidValueError as `layout_of`, for `rollouts` that are not one hashable id for each
    row, for another `reward`, for one without rollouts, and for different rewards of one rollout.
    """
    if reward is not None:
        one_of("rollout_reward", reward, get_args(RolloutReward))
        require(rollouts is not None, "rollout_reward", "None without rollouts", reward)
    rows, table = layout_of(rewards, groups)
    if rollouts is None:
        return rows, table
    layout = rollout_layout(rows, rollouts, reward)
    return layout, layout.rewards(rewards)


def rollout_layout(
    rows: Layout, rollouts: Any, reward: RolloutReward | None, *, least: int = 0
) -> RolloutLayout:
    """Return the layout of rollouts, whose tables have place for `least` or more in every group.

    Raises InvalidValueError for `rollouts` that are not one hashable id for each row.
    """
    ids = rows.codes("rollouts", rollouts, missing=False)
    rollout_of_row = np.full(ids.shape, -1, dtype=np.intp)
    sizes = np.zeros(len(ids), dtype=np.intp)
    for group, count in enumerate(rows.sizes):
        number_of_id: dict[int, int] = {}  # in the order of appearance
        for row in range(count):
            number = number_of_id.setdefault(int(ids[group, row]), len(number_of_id))
            rollout_of_row[group, row] = number
        sizes[group] = len(number_of_id)
    return RolloutLayout(rows, rollout_of_row, sizes, reward, least)


def rollout_weights(rollouts: Any, tokens: npt.ArrayLike, *, groups: Any = None) -> FloatArray:
    """Return a weight for each row, (N,), so that a mean over rows counts each rollout once.

    For a loss that averages the tokens of a row and then the rows: with these weights it is the
    mean over rollouts of the mean over all their tokens. Their mean is 1. A loss that divides by
    the tokens of the batch needs none; one that sums the tokens of a row needs the mean weight of
    its rollouts alone, rows / rollouts.

    Args:
        rollouts: The id of each row's rollout, unique within its group.
        tokens: The number of trained tokens of each row, (N,).
        groups: The group of each row; one group if not given.

    Raises InvalidValueError for ids that are not hashable or not one a row, without rows, and for
    numbers of tokens that are not finite and above 0.
    """
    counts = as_floats("tokens", tokens)
    is_row = counts.ndim == 1 and len(counts) > 0
    are_counts = is_row and bool(((counts > 0) & np.isfinite(counts)).all())
    require(are_counts, "tokens", "(N,) finite numbers above 0, one or more", tokens)
    ids = [0] * len(counts) if groups is None else groups
    layout, sums = sample_layout(counts, ids, rollouts, "sum")
    of_rollout = np.asarray(layout.of_samples(sums))
    number_of_rollouts = int(layout.sizes.sum())
    weights: FloatArray = len(counts) / number_of_rollouts * counts / of_rollout
    return weights
