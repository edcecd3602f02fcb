"""What a record is told of a rollout batch, checked before any of it is written."""

from __future__ import annotations

import itertools
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from maxatk.check import is_list, require, returned_number
from maxatk.objectives.checks import as_floats
from maxatk.training.groups import Groups


def as_step(value: Any, least: int, *, field: str = "step") -> int:
    """Return an optimizer step, or a number of them, as an int of Python, which NumPy's are not.

    A reader finds the lines of a step by its digits: no other number has a place in the file.
    """
    is_step = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    require(is_step and value >= least, field, f"an integer of {least} or more", value)
    return int(value)


def as_table(field: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return numbers of samples as an array (P, n); raise InvalidValueError for another shape."""
    table = as_floats(field, values)
    require(table.shape == shape, field, f"of the shape of the rewards {shape}", table.shape)
    return table


def check_columns(
    groups: Groups, *, prompts: Any, texts: Any, ids: Any, tokens: Any, tests: Any
) -> None:
    """Raise InvalidValueError for lists that are not those of the groups.

    Prompts may be those of the first groups alone, and the other lists have as many entries;
    `ids`, `tokens` and `tests` may also have none.
    """
    _check_prompts(prompts, len(groups.rewards))
    _check_texts(texts, prompts=len(prompts), size=groups.size)
    if _has_entries("ids", ids):
        _check_length("ids", ids, len(prompts))
    for field, column in (("tokens", tokens), ("tests", tests)):
        if _has_entries(field, column):
            _check_of_samples(field, column, texts)
    for count in itertools.chain.from_iterable(tokens):
        is_count = returned_number(count) is not None
        require(is_count, "tokens", "a number for each completion", count)
    for test in itertools.chain.from_iterable(tests):
        is_said = test is None or isinstance(test, Mapping)
        require(is_said, "tests", "None or a mapping for each completion", test)


def _check_prompts(prompts: Any, groups: int) -> None:
    """Raise InvalidValueError for what is not one text for each of the first groups, or of all."""
    require(is_list(prompts), "prompts", "a list of texts", prompts)
    require(len(prompts) <= groups, "prompts", f"one for each of {groups} groups", len(prompts))
    for prompt in prompts:
        require(isinstance(prompt, str), "prompts", "a list of texts", prompt)


def _check_texts(texts: Any, *, prompts: int, size: int) -> None:
    """Raise InvalidValueError for what is not a list of 1 to `size` texts for each prompt."""
    _check_length("texts", texts, prompts)
    for group in texts:
        are_texts = is_list(group) and all(isinstance(text, str) for text in group)
        require(are_texts, "texts", "a list of texts for each prompt", group)
        require(1 <= len(group) <= size, "texts", f"1 to {size} for each prompt", len(group))


def _check_of_samples(field: str, column: Any, texts: Sequence[Sequence[str]]) -> None:
    """Raise InvalidValueError for a column that has not one entry for each text."""
    _check_length(field, column, len(texts))
    for of_group, group_texts in zip(column, texts, strict=True):
        allowed = f"{len(group_texts)} for each prompt, one a completion"
        is_full = is_list(of_group) and len(of_group) == len(group_texts)
        require(is_full, field, allowed, of_group)


def _check_length(field: str, column: Any, prompts: int) -> None:
    require(is_list(column), field, "a list with an entry for each prompt", column)
    require(len(column) == prompts, field, f"one for each of {prompts} prompts", len(column))


def _has_entries(field: str, column: Any) -> bool:
    require(is_list(column), field, "a list with an entry for each prompt", column)
    return len(column) > 0
