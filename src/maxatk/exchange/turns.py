"""What a rollout had reached after each of its turns, from the rows of a log."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from maxatk.exchange.log_rows import LogRow


def reached_by(
    rows: Sequence[LogRow], reward: float | None, rule: str | None
) -> Mapping[int, float]:
    """Return the rewards that a rollout had reached, by the turn at which each was reached first.

    Turns count from 1, and `rows` are in their order. Within T turns a rollout has the best reward
    at which it could have been stopped by then: the last of these up to T. Empty where nothing is
    known of turns.

    With a row for each turn `rule` is that of `one_sample`, and says what a rollout has when it is
    stopped at a turn: "last" the reward of this turn, "sum" that of all turns so far. Without a
    rule all rows have the reward of the whole rollout, which is reached at its end. `turns` is how
    many there were where the log has no row for each.
    """
    if reward is None:
        return {}
    if any(row.turn is None for row in rows):
        turns = rows[-1].turns
        return {} if not turns else {turns: reward}
    numbers = sorted({row.turn for row in rows if row.turn is not None})
    if rule is None:
        return {len(numbers): reward}
    reached: dict[int, float] = {}
    best = -math.inf
    for turn, number in enumerate(numbers, 1):
        so_far = [row.reward for row in rows if row.turn is not None and row.turn <= number]
        rewards = [value for value in so_far if value is not None]
        if not rewards:
            continue
        value = math.fsum(rewards) if rule == "sum" else rewards[-1]
        if value > best:
            best = value
            reached[turn] = value
    return reached
