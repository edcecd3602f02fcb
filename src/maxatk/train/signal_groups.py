"""Groups without a signal that give way to groups of other prompts: which go where."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence, Sized
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object

from maxatk.errors import InvalidValueError, unknown_name
from maxatk.rewards import Reward
from maxatk.train.rollout_batch import Scored


def refuse_irreplaceable(dataset: Any, environments: Any) -> None:
    """Raise InvalidValueError for data from which no other prompt can be drawn by its row alone."""
    _refuse_without("a train_dataset with a length", isinstance(dataset, Sized))
    refuse_environments(environments)
    columns = set(getattr(dataset, "column_names", None) or ())
    _refuse_without("no images", not {"image", "images"} & columns)


def refuse_environments(environments: Any) -> None:
    """Raise InvalidValueError for environments, in which no other prompt can be begun."""
    _refuse_without("no environments, which TRL resets once for a rollout batch", not environments)


def _refuse_without(need: str, holds: bool) -> None:
    if not holds:
        raise InvalidValueError(f"groups_with_signal: needs {need}; allowed without: False")


def refuse_unknown_part(name: bool | str, functions: Sequence[Any], names: Sequence[str]) -> None:
    """Raise InvalidValueError where `groups_with_signal` is a name, and no part is called so.

    A part is a reward function of the trainer, of which `names` has the names, or a part of one.
    """
    parts = [part for function in functions for part in _parts_of(function)]
    allowed = list(dict.fromkeys([*names, *parts]))  # a reward of one part has its name
    if isinstance(name, str) and name not in allowed:
        raise unknown_name("groups_with_signal", name, allowed)


def marking_part(
    name: bool | str, functions: Sequence[Any], names: Sequence[str]
) -> Callable[[torch.Tensor], list[float]] | None:
    """Return what gives the values of the part that `groups_with_signal` names; None for no name.

    It takes the scores of all processes (rows, functions) right after the functions were called,
    and returns a value a row, NaN where the part gave none. Raises as `refuse_unknown_part`.
    """
    refuse_unknown_part(name, functions, names)
    if not isinstance(name, str):
        return None
    if name in names:
        place = list(names).index(name)
        return lambda scores: scores[:, place].tolist()
    reward = next(function for function in functions if name in _parts_of(function))

    def values_of_part(_scores: torch.Tensor) -> list[float]:
        values: list[float] = gather_object([row.get(name, math.nan) for row in reward.values])
        return values

    return values_of_part


def _parts_of(function: Any) -> list[str]:
    return [part.name for part in function.parts] if isinstance(function, Reward) else []


def random_places(prompt_count: int, shape: tuple[int, int], moment: tuple[int, ...]) -> np.ndarray:
    """Return places in a data set of `prompt_count` rows, (processes, groups), at a `moment`.

    The same moment gives the same places in every process.
    """
    generator = np.random.default_rng(moment)
    count = math.prod(shape)
    places = generator.choice(prompt_count, size=count, replace=count > prompt_count)
    return places.reshape(shape)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DrawnGroups:
    """Groups of one draw: what TRL holds of them in this process, and what all of them came to."""

    rows: list[Any]  # of the data set, one a completion
    prompts: list[Any]
    generated: tuple[Any, ...]  # what TRL's `_generate` returned
    logged: dict[str, list[Any]]  # what reward functions logged of the rows, by column
    scored: Scored  # of all processes, one after the other
    signal: np.ndarray  # (processes, groups of each), whether a group has one
    group_size: int

    @property
    def completions(self) -> int:
        """Return how many completions were drawn in all processes."""
        return int(self.signal.size) * self.group_size

    def take(self, fresh: DrawnGroups, *, process: int) -> None:
        """Put groups of a fresh draw in place of those without a signal; `process` is this one."""
        n = self.group_size
        for owner, without_signal, with_signal in replacements(self.signal, fresh.signal):
            self.signal[owner, without_signal] = True
            if owner == process:
                self._put_lists(fresh, to=without_signal * n, source=with_signal * n)
            # Scores are those of all processes, each of which has as many rows as this one.
            first_row = owner * len(self.rows) + without_signal * n
            first_fresh_row = owner * len(fresh.rows) + with_signal * n
            self._put_scores(
                fresh.scored,
                to=slice(first_row, first_row + n),
                source=slice(first_fresh_row, first_fresh_row + n),
            )

    def _put_lists(self, fresh: DrawnGroups, *, to: int, source: int) -> None:
        """Put a fresh group into the lists of this process."""
        for name in ("rows", "prompts", "generated"):
            put_rows(getattr(self, name), getattr(fresh, name), to, source, self.group_size)
        for column in {**self.logged, **fresh.logged}:  # a function need not log at every call
            values = self.logged.setdefault(column, [None] * len(self.rows))
            fresh_values = fresh.logged.get(column, [None] * len(fresh.rows))
            put_rows(values, fresh_values, to, source, self.group_size)

    def _put_scores(self, fresh: Scored, *, to: slice, source: slice) -> None:
        """Put the rows of a fresh group over those of a group of this draw."""
        kept = self.scored
        kept.scores[to] = fresh.scores[source]
        kept.texts[to] = fresh.texts[source]
        kept.last_texts[to] = fresh.last_texts[source]
        kept.tests[to] = fresh.tests[source]
        kept.masked[to] = fresh.masked[source]
        if kept.marks is not None and fresh.marks is not None:
            kept.marks[to] = fresh.marks[source]


def replacements(signal: np.ndarray, fresh_signal: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Yield a process, one of its groups without a signal, and a fresh one with it for its place.

    Both arrays say of (processes, groups) which have a signal.
    """
    for process in range(len(signal)):
        without_signal = np.flatnonzero(~signal[process]).tolist()
        with_signal = np.flatnonzero(fresh_signal[process]).tolist()
        # Of the longer list the rest stays where it is.
        for to, source in zip(without_signal, with_signal, strict=False):
            yield process, to, source


def put_rows(value: Any, other: Any, to: int, source: int, count: int) -> None:
    """Put `count` rows of another list from `source` into a list from `to`.

    Of mappings and tuples this is done to every list within, as TRL nests what it has generated.
    Numbers, which are of no row, stay.
    """
    if isinstance(value, dict):
        for name, item in value.items():
            put_rows(item, other.get(name), to, source, count)
    elif isinstance(value, tuple):
        for item, other_item in zip(value, other, strict=True):
            put_rows(item, other_item, to, source, count)
    elif isinstance(value, list) and value:
        value[to : to + count] = other[source : source + count]
