"""Which rows of a call of a reward function are a group: runs of equal prompts or of equal ids."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from maxatk.check import returned_list, shown
from maxatk.errors import InvalidValueError, counted
from maxatk.objectives.checks import plain_ids


def column_of(field: str, name: str, columns: Mapping[str, Any]) -> Any:
    """Return the column that an argument names; raise InvalidValueError where it is not there."""
    if name not in columns:
        names = ", ".join(columns) or "none beside prompts and completions"
        raise InvalidValueError(f"best_of: {field}: no column {name!r}; there are {names}")
    return columns[name]


def size_of_groups(ids: Sequence[Any], rows: int, samples: int | None) -> int:
    """Return the size of the groups, which are runs of equal ids.

    The number of samples a prompt, where it is known, tells two equal prompts in a row apart.
    """
    _check_length("groups", ids, rows)
    runs = [sum(1 for _ in run) for _, run in itertools.groupby(_comparable(ids))]
    sizes = set(runs)
    if samples is not None:
        # A run of a multiple are several groups of one prompt.
        sizes = {run if run % samples else samples for run in runs}
    if len(sizes) != 1 or (samples is not None and sizes != {samples}):
        wanted = "groups of one size" if samples is None else f"whole groups of {samples}"
        raise InvalidValueError(
            f"best_of: must be called with {wanted}, got runs of {runs} equal prompts; the samples "
            "of a prompt must reach one call, one after the other, in one process; where a prompt "
            "follows itself, groups='column' names a column that tells its groups apart"
        )
    return sizes.pop()


@dataclasses.dataclass(frozen=True)
class RolloutRows:
    """Rows of which a rollout may have several: the group and the rollout of each, (N,)."""

    groups: list[int]  # numbered from 0
    rollouts: list[Any]
    count: int  # of the groups
    size: int  # rollouts of a group


def rows_of_rollouts(
    ids: Sequence[Any], column: Any, rows: int, *, ids_are_prompts: bool
) -> RolloutRows:
    """Return the groups, runs of equal ids, of rows whose rollouts a column names.

    Two groups of one prompt look like one where `ids_are_prompts`: there the rows of a rollout have
    to follow each other. Raises InvalidValueError for groups of different numbers of rollouts.
    """
    rollouts = _hashable(column)
    _check_length("groups", ids, rows)
    _check_length("rollouts", rollouts, rows)
    group_ids = _comparable(ids)
    group_of_row: list[int] = []
    rollouts_of_group: list[int] = []
    for _, run in itertools.groupby(range(rows), key=lambda row: group_ids[row]):
        rollouts_of_rows = [rollouts[row] for row in run]
        if ids_are_prompts:
            _refuse_return(rollouts_of_rows)
        group_of_row += [len(rollouts_of_group)] * len(rollouts_of_rows)
        rollouts_of_group.append(len(set(rollouts_of_rows)))
    if len(set(rollouts_of_group)) != 1:
        raise InvalidValueError(
            "best_of: must be called with groups of one size, got groups of "
            f"{rollouts_of_group} rollouts"
        )
    return RolloutRows(
        group_of_row, rollouts, count=len(rollouts_of_group), size=rollouts_of_group[0]
    )


def _comparable(ids: Sequence[Any]) -> list[Any]:
    """Return ids of which `==` says one thing: tensors and arrays, as prompts may be, as lists."""
    return [value.tolist() if hasattr(value, "tolist") else value for value in ids]


def _check_length(field: str, ids: Sequence[Any], expected: int) -> None:
    """Raise InvalidValueError where there is not one id for each completion."""
    if len(ids) != expected:
        raise InvalidValueError(
            f"best_of: {field}: {counted(len(ids), 'id')} for {counted(expected, 'completion')}"
        )


def _hashable(column: Any) -> list[Any]:
    """Return the ids of a column; raise InvalidValueError for what does not name a rollout."""
    listed = returned_list(column)
    ids = None if listed is None else list(plain_ids("best_of: rollouts", listed))
    if ids is None or not all(map(_is_hashable, ids)):
        allowed = "a list of hashable ids, one a completion"
        raise InvalidValueError(f"best_of: rollouts: must be {allowed}, got {shown(column)}")
    return ids


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _refuse_return(rollouts: list[Any]) -> None:
    """Raise InvalidValueError where a rollout comes back after others among equal prompts.

    That is a second group of the same prompt, whose ids begin anew, or rows in another order.
    """
    ended = set()
    for rollout, _ in itertools.groupby(rollouts):
        if rollout in ended:
            raise InvalidValueError(
                f"best_of: rollouts: {rollout!r} comes back after others in a run of equal "
                "prompts, which may be two groups; allowed: groups='column' with a column that "
                "tells the groups apart, or the rows of a rollout one after the other"
            )
        ended.add(rollout)
