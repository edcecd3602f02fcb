"""Groups without a signal that give way to groups of other prompts: which go where."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized
from typing import Any

import numpy as np

from maxatk.errors import InvalidValueError


def refuse_irreplaceable(dataset: Any, environments: Any) -> None:
    """Raise InvalidValueError for data from which no other prompt can be drawn by its row alone."""
    needs = {
        "a train_dataset with a length": isinstance(dataset, Sized),
        "no environments": not environments,
        "no images": not {"image", "images"} & set(dataset.column_names or ()),
    }
    for need, holds in needs.items():
        if not holds:
            raise InvalidValueError(
                f"groups_with_signal: True needs {need}; allowed without: False"
            )


def moves(signal: np.ndarray, fresh: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Yield a process, one of its groups without a signal, and a fresh one with it for its place.

    Both arrays say of (processes, groups) which have a signal.
    """
    for process in range(len(signal)):
        silent = np.flatnonzero(~signal[process]).tolist()
        speaking = np.flatnonzero(fresh[process]).tolist()
        for to, source in zip(silent, speaking, strict=False):
            yield process, to, source


def more_prompts(prompts: int, shape: tuple[int, int], moment: tuple[int, ...]) -> np.ndarray:
    """Return random places in a data set of `prompts` rows, (processes, groups), at a `moment`."""
    generator = np.random.default_rng(moment)
    count = math.prod(shape)
    return generator.choice(prompts, size=count, replace=count > prompts).reshape(shape)


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
