"""Rollout batches of groups with a signal: what is drawn again, and where it is put.

A group whose advantages are all 0 teaches nothing. Here such groups give way to groups of other
prompts. Everything is decided by the scores of all processes and by numbers that all of them
have, so that every process decides the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sized
from typing import Any, NamedTuple

import numpy as np
import torch

from maxatk.errors import InvalidValueError

Moves = list[tuple[int, int]]
"""Groups of a process that give way, each with the group of another draw that takes its place."""


class Scored(NamedTuple):
    """The scores (rows, functions) and texts of all processes, and what tests said of each."""

    scores: torch.Tensor
    texts: list[str]
    tested: list[Any]


@dataclasses.dataclass
class Draw:
    """The rows of one process and what those of all processes came to.

    `inputs` are rows of the data set, one a completion, with their `prompts` and what TRL's
    `_generate` returned for them.
    """

    inputs: list[Any]
    prompts: list[Any]
    generated: tuple[Any, ...]
    scored: Scored

    def take(self, fresh: Draw, moves: list[Moves], *, process: int, group_size: int) -> None:
        """Put groups of another draw where the moves of each process say; lists stay the same."""
        kept, found = (len(draw.scored.texts) // len(moves) for draw in (self, fresh))
        for index, own in enumerate(moves):
            for to, source in _rows(own, group_size).items():
                for values, others in zip(self.scored, fresh.scored, strict=True):
                    values[index * kept + to] = others[index * found + source]
        rows = _rows(moves[process], group_size)
        others = (fresh.inputs, fresh.prompts, *fresh.generated)
        for value, other in zip((self.inputs, self.prompts, *self.generated), others, strict=True):
            _replace(value, other, rows)


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
) -> tuple[int, int]:
    """Replace the groups of a draw that have no signal, in place; return how many groups were
    drawn in all, and how many of them had a signal.

    `signal_of` says which groups of a draw have a signal, (processes, groups); `draw_again` draws
    a group each for places of this `process` in a data set of `prompts` rows. At most `times` the
    groups of the draw are drawn, with prompts that the `moment` decides.
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
    return drawn, found


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


def _replace(value: Any, other: Any, rows: dict[int, int]) -> None:
    """Put rows of another list into a list; of a mapping into every list, and else nowhere."""
    if isinstance(value, dict):
        for name, item in value.items():
            _replace(item, other.get(name), rows)
    elif isinstance(value, list) and value:
        for to, source in rows.items():
            value[to] = other[source]
