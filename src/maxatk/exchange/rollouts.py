"""Logs with several rows for one rollout: the rows of each as one sample.

An agent's rollout is several rows where its context is compacted, where it calls sub-agents, or
where a trainer logs every turn. Each counts once, as in `maxatk.objectives.rollouts`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, get_args

from maxatk.check import one_of
from maxatk.errors import DataError
from maxatk.exchange.log_rows import LogRow
from maxatk.exchange.turns import reached_by
from maxatk.objectives.rollouts import RolloutReward

CHOICE = "rollout_reward"
"""The name by which `--map` says which reward a rollout has whose rows have different ones."""


class RowAt(NamedTuple):
    """A row of a log, its number among those of the file, and its place for messages."""

    number: int
    place: str
    row: LogRow


def check_choice(value: str | None) -> None:
    """Raise InvalidValueError for another rule than those that there are."""
    if value is not None:
        one_of(f"map: {CHOICE}", value, get_args(RolloutReward))


def rollouts_of(rows: Iterable[RowAt], *, unique: bool = False) -> list[list[RowAt]]:
    """Return the rows of each rollout, in the order of their first ones.

    A row without a rollout is one by itself. Ids of rollouts are `unique` in the file, or else for
    their problem.
    """
    rows_of: dict[object, list[RowAt]] = {}
    for place, at in enumerate(rows):
        key: object = place
        if at.row.rollout is not None:
            key = ("" if unique else at.row.problem_id, at.row.rollout)
        rows_of.setdefault(key, []).append(at)
    return list(rows_of.values())


def one_sample(rows: Sequence[LogRow], rule: str | None) -> LogRow:
    """Return the rows of a rollout as one sample.

    It has prompt, index and problem of its first row, and of the last row that has one the
    completion and the further numbers. Rows that all say their turn are in that order, others in
    the order of the log. Rows without a reward have no say in its reward. `rule` is None where all
    others must have the same, else one of `RolloutReward`.

    Raises DataError for rewards that differ, without a rule, and for a turn of no rollout.
    """
    if len(rows) == 1 and rows[0].turn is None and rows[0].turns is None:
        return rows[0]  # as nearly all rows of large files
    rows = _in_order_of_turns(rows)
    first = rows[0]
    if first.turn is not None and first.rollout is None:
        raise DataError(
            f"field 'turn': {first.turn} without a rollout, so that every turn would count as a "
            "sample; --map rollout=FIELD says whose turn a row is, or --map turns=turn that this "
            "is the number of turns"
        )
    reward = _reward(rows, rule)
    reached = first.reached or reached_by(rows, reward, rule)
    if len(rows) == 1:
        return dataclasses.replace(first, reached=reached)
    completions = [row.completion for row in rows if row.completion is not None]
    texts = [row.transcript or row.completion or "" for row in rows] if completions else []
    columns = [row.columns for row in rows if row.columns]
    return dataclasses.replace(
        first,
        reward=reward,
        reached=reached,
        completion=completions[-1] if completions else None,
        transcript="\n\n".join(texts) if texts else None,
        columns=columns[-1] if columns else {},
        program=rows[-1].program,
    )


def _in_order_of_turns(rows: Sequence[LogRow]) -> Sequence[LogRow]:
    """Return the rows by their turns: workers that log in parallel need not write them in order."""
    if any(row.turn is None for row in rows):
        return rows
    return sorted(rows, key=lambda row: row.turn or 0)


def _reward(rows: Sequence[LogRow], rule: str | None) -> float | None:
    rewards = [row.reward for row in rows if row.reward is not None]
    if not rewards:
        return None
    if rule == "sum":
        return math.fsum(rewards)
    other_rewards = [reward for reward in rewards if reward != rewards[0]]
    if rule is None and other_rewards:
        raise DataError(
            f"rollout {rows[0].rollout!r:.80} of {rows[0].problem_id!r:.80}: its rows have "
            f"different rewards, {rewards[0]:g} and {other_rewards[0]:g}; --map {CHOICE}=last "
            f"or --map {CHOICE}=sum says which counts"
        )
    return rewards[-1]
