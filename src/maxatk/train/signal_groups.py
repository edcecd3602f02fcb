"""Rollout batches of groups with a signal: what is drawn again, and where it is put.

A group whose advantages are all 0 teaches nothing. Here such groups give way to groups of other
prompts. Everything is decided by the scores of all processes and by numbers that all of them
have, so that every process decides the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sized
from typing import Any

import numpy as np
import torch

from maxatk.errors import InvalidValueError

Moves = list[tuple[int, int]]
"""Groups of a process that give way, each with the group of another draw that takes its place."""


@dataclasses.dataclass
class Draw:
    """The rows of one process, and the scores and texts of the rows of all processes.

    Args:
        inputs: Rows of the data set, one a completion.
        prompts: Their prompts.
        generated: What TRL's `_generate` returned for them.
        scores: The values of the reward functions, (all rows, functions).
        texts: The completions of all processes.
    """

    inputs: list[Any]
    prompts: list[Any]
    generated: tuple[Any, ...]
    scores: torch.Tensor
    texts: list[str]

    def take(self, fresh: Draw, moves: list[Moves], *, process: int, group_size: int) -> None:
        """Put groups of another draw where the moves of each process say; lists stay the same."""
        kept, found = len(self.scores) // len(moves), len(fresh.scores) // len(moves)
        for index, own in enumerate(moves):
            for to, source in _rows(own, group_size).items():
                self.scores[index * kept + to] = fresh.scores[index * found + source]
                self.texts[index * kept + to] = fresh.texts[index * found + source]
        rows = _rows(moves[process], group_size)
        for to, source in rows.items():
            self.inputs[to], self.prompts[to] = fresh.inputs[source], fresh.prompts[source]
        self.generated = tuple(
            _replaced(value, other, rows)
            for value, other in zip(self.generated, fresh.generated, strict=True)
        )


@dataclasses.dataclass(frozen=True)
class Filled:
    """How many groups were drawn for a rollout batch, and how many of them had a signal."""

    drawn: int
    found: int


def refuse_irreplaceable(dataset: Any, *, environments: Any) -> None:
    """Raise InvalidValueError for data from which no other prompt can be drawn by its row alone."""
    found = {
        "a train_dataset with a length": isinstance(dataset, Sized),
        "no environments": not environments,
        "no images": not {"image", "images"} & set(dataset.column_names or ()),
    }
    for needed, given in found.items():
        if not given:
            raise InvalidValueError(
                f"groups_with_signal: True needs {needed}; allowed without: False"
            )


def fill(
    draw: Draw,
    *,
    signal_of: Callable[[Draw], np.ndarray],
    draw_again: Callable[[np.ndarray], Draw],
    prompts: int,
    times: int,
    process: int,
    moment: tuple[int, ...],
) -> Filled:
    """Replace the groups of a draw that have no signal, in place, up to a bound.

    Args:
        draw: The rollout batch.
        signal_of: Returns which groups of a draw have a signal, (processes, groups).
        draw_again: Draws a group each for places in the data set, those of this process.
        prompts: The rows of the data set.
        times: The most groups that are drawn in all, in rollout batches.
        process: The index of this process.
        moment: Numbers that decide, with the turn, which prompts are drawn.
    """
    signal = signal_of(draw)
    processes, groups = signal.shape
    drawn, found = signal.size, int(signal.sum())
    bound, turn = drawn * times, 0
    while not signal.all() and drawn < bound:
        lacking = int((~signal).sum(axis=1).max())  # of the process that lacks most
        more = min(lacking, (bound - drawn) // processes)
        places = more_prompts(prompts, groups=more, processes=processes, moment=(*moment, turn))
        fresh = draw_again(places[process])
        fresh_signal = signal_of(fresh)
        replaced = moves(signal, fresh_signal)
        draw.take(fresh, replaced, process=process, group_size=len(draw.inputs) // groups)
        for index, own in enumerate(replaced):
            signal[index, [to for to, _ in own]] = True
        drawn, found = drawn + fresh_signal.size, found + int(fresh_signal.sum())
        turn += 1
    return Filled(drawn, found)


def moves(signal: np.ndarray, fresh: np.ndarray) -> list[Moves]:
    """Return for each process which of its groups give way to which of a fresh draw.

    `signal` (processes, groups) says which groups of the rollout batch have a signal, `fresh`
    (processes, groups of the draw) which of the draw have. Both keep their order.
    """
    return [
        list(zip(np.flatnonzero(~own).tolist(), np.flatnonzero(other).tolist(), strict=False))
        for own, other in zip(signal, fresh, strict=True)
    ]


def more_prompts(
    prompts: int, *, groups: int, processes: int, moment: tuple[int, ...]
) -> np.ndarray:
    """Return places in a data set of `prompts` rows to draw from, (processes, groups).

    They are drawn at random, different ones as far as there are enough, by the numbers of the
    `moment` alone: a run that resumes draws them again.
    """
    count = groups * processes
    generator = np.random.default_rng(moment)
    chosen = generator.choice(prompts, size=count, replace=count > prompts)
    return chosen.reshape(processes, groups)


def _rows(moves: Moves, group_size: int) -> dict[int, int]:
    return {
        to * group_size + i: source * group_size + i
        for to, source in moves
        for i in range(group_size)
    }


def _replaced(value: Any, other: Any, rows: dict[int, int]) -> Any:
    """Return a list with rows of another one; of a mapping every list, and others as they are."""
    if isinstance(value, dict):
        return {name: _replaced(item, other.get(name), rows) for name, item in value.items()}
    if not isinstance(value, list) or not value:
        return value
    result = list(value)
    for to, source in rows.items():
        result[to] = other[source]
    return result
