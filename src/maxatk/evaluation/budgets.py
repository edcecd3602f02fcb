"""Rewards within a budget of turns: pass@(k, T) and max@k of what is reached within T turns.

The scores of a rollout have a column `turns=t` for each turn t at which it reached more than
before. What a rollout had within T turns needs no other rollouts: it is that of the last t up to T.
"""

from __future__ import annotations

from collections.abc import Mapping

from maxatk.errors import InvalidValueError

PREFIX = "turns="
"""What the name of the column begins with that stands in for the reward within so many turns."""


def budget_columns(reached: Mapping[int, float]) -> dict[str, float]:
    """Return the columns of a rollout that reached these rewards, by turn."""
    return {f"{PREFIX}{turn}": reward for turn, reward in reached.items()}


def is_budget(column: str) -> bool:
    """Say whether a column is the reward within a number of turns."""
    return column.startswith(PREFIX)


def turns_of(column: str) -> int:
    """Return the number of turns of a budget's column; raises InvalidValueError for no number."""
    text = column.removeprefix(PREFIX)
    if not text.isdecimal() or int(text) < 1:
        raise InvalidValueError(f"budget: must be {PREFIX} and numbers from 1, got {column!r}")
    return int(text)


def rewards_by_turn(columns: Mapping[str, float]) -> dict[int, float]:
    """Return the rewards that a rollout reached, by turn; none where it does not say."""
    return {turns_of(name): reward for name, reward in columns.items() if is_budget(name)}


def reward_within(columns: Mapping[str, float], turns: int) -> float | None:
    """Return the reward of a rollout within so many turns, 0 where it had none by then.

    None where the rollout does not say at which turns it reached anything.
    """
    reached = rewards_by_turn(columns)
    if not reached:
        return None
    in_time = [turn for turn in reached if turn <= turns]
    return reached[max(in_time)] if in_time else 0.0


def read_budget(text: str) -> tuple[str, ...]:
    """Return the columns of a budget such as `turns=1,2,4`; raises InvalidValueError for others."""
    if not isinstance(text, str) or not is_budget(text):
        raise InvalidValueError(f"budget: must be such as {PREFIX}1,2,4, got {text!r}")
    columns = [f"{PREFIX}{number.strip()}" for number in text.removeprefix(PREFIX).split(",")]
    return tuple(f"{PREFIX}{turns_of(column)}" for column in columns)
