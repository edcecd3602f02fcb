"""Checks of arguments and settings: a refusal names the field, what is allowed, and the value."""

from __future__ import annotations

import contextlib
import math
import numbers
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Set, Sized
from pathlib import Path
from typing import Any, TypeGuard

from maxatk.errors import (
    DataError,
    InvalidValueError,
    MissingDependencyError,
    MissingFileError,
    counted,
    unknown_name,
)
from maxatk.python_numbers import python_number

MOST_SECONDS = 1e7  # of a limit on time, 115 days: clocks of the system take it
MOST_BYTES = 1 << 50  # of a limit on memory or output
LARGEST = 1e100  # of rewards in size: sums of their squares stay finite


def require(holds: bool, field: str, allowed: str, value: object) -> None:
    """Raise InvalidValueError, `field: must be allowed, got value`, unless it `holds`."""
    if not holds:
        raise InvalidValueError(f"{field}: must be {allowed}, got {shown(value)}")


def mapping(where: str, row: object) -> None:
    """Raise DataError for what is no mapping, as an object of JSON is one."""
    if not isinstance(row, Mapping):
        raise DataError(f"{where}: must be an object, got {shown(row)}")


def one_of(field: str, value: object, allowed: Collection[str]) -> None:
    """Raise InvalidValueError, with the closest name, for what is none of the allowed names."""
    if not isinstance(value, str) or value not in allowed:
        raise unknown_name(field, value, allowed)


def as_path(field: str, value: object) -> Path:
    """Return a path; raises InvalidValueError for what is none, and for empty text.

    Empty text would be the current folder.
    """
    is_path = isinstance(value, (str, os.PathLike)) and value != ""
    require(is_path, field, "a path", value)
    assert isinstance(value, (str, os.PathLike))
    return Path(value)


def several(field: str, values: object, of: str) -> None:
    """Raise InvalidValueError for what is no list, or the like, of what `of` says.

    A text by itself would be taken for its characters.
    """
    is_list = isinstance(values, Iterable) and not isinstance(values, (str, bytes, Mapping))
    require(is_list, field, f"a list of {of}", values)


def function_or_none(field: str, value: object) -> None:
    """Raise InvalidValueError for what is neither None nor can be called."""
    require(value is None or callable(value), field, "a function, or None", value)


@contextlib.contextmanager
def needing(message: str) -> Iterator[None]:
    """Raise MissingDependencyError with a message where an import of the block fails."""
    try:
        yield
    except ImportError as error:
        if not isinstance(error, ModuleNotFoundError):  # it is there, and does not fit
            message = f"{message} ({error})"
        raise MissingDependencyError(message) from error


def existing_file(path: Path) -> None:
    """Raise MissingFileError unless a path is that of a file."""
    if path.is_file():
        return
    reason = "no such file"
    if path.is_dir():
        reason = "a folder, not a file"
    elif path.exists():  # such as <(zcat ...) of a shell; files are read more than once
        reason = "a pipe or a device, not a file; write what it holds to a file"
    raise MissingFileError(f"{path}: {reason}")


def existing_folder(field: str, path: Path) -> None:
    """Raise MissingFileError, which names the field, unless a path is that of a folder."""
    if not path.is_dir():
        reason = "is a file, not a folder" if path.exists() else "does not exist"
        raise MissingFileError(f"{field}: {str(path)!r} {reason}")


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a real number, of Python or of NumPy, and no bool."""
    number = python_number(value)
    return isinstance(number, (int, float)) and not isinstance(number, bool)


def is_whole(value: object, least: int) -> TypeGuard[int]:
    """Return whether a value is an integer of Python or NumPy, and no bool, of `least` or more."""
    number = python_number(value)
    return isinstance(number, int) and not isinstance(number, bool) and number >= least


def is_finite(value: object) -> TypeGuard[float]:
    """Return whether a value is a real number, and no bool, that a float can hold."""
    # NumPy would turn the largest float into one of 32 bits, which is infinite.
    number = python_number(value)
    return is_number(number) and abs(number) <= sys.float_info.max


def shown(value: object) -> str:
    """Return a value for a message, whatever its own text raises."""
    try:
        return f"{value!r:.80}"
    except Exception:  # an integer of 5,000 digits, for one
        return f"a value of type {type(value).__name__}"


def returned_number(value: object) -> float | None:
    """Return what a function returned as a float, whether of Python, NumPy or torch; None for none.

    A truth value is 1 or 0. NaN stays NaN. Nothing else than real numbers of a float's range is
    one: no text, no complex number, no array but that of one number.
    """
    with contextlib.suppress(Exception):  # of a class of the user's, whatever its methods raise
        value = value.item() if hasattr(value, "item") else value
        if isinstance(value, numbers.Real):
            number = float(value)
            return None if math.isinf(number) else number
    return None


def returned_list(values: Any) -> list[Any] | None:
    """Return what a function returned for many samples as a list; None where it is no such thing.

    Lists, tuples, iterators, arrays of NumPy, tensors and columns of data frames are.
    """
    values = values.tolist() if hasattr(values, "tolist") else values
    has_order = isinstance(values, Iterable) and not isinstance(values, (Mapping, Set))
    return list(values) if has_order and not isinstance(values, (str, bytes)) else None


def returned_rewards(
    values: Any, expected: int, *, called: str, largest: float = LARGEST
) -> list[float]:
    """Return what a reward function returned for so many completions as floats, NaN for None.

    Raises InvalidValueError, which names the function as it is `called`, for anything but a list
    of one number (of at most `largest` in size), NaN or None a completion.
    """
    listed = returned_list(values)
    if listed is None or len(listed) != expected:
        got = shown(values) if listed is None else counted(len(listed), "value")
        raise InvalidValueError(
            f"{called} must return a list of {counted(expected, 'value')}, one a completion, each "
            f"a finite number or None; got {got}"
        )
    rewards = []
    for value in listed:
        number = math.nan if value is None else returned_number(value)
        if number is None or abs(number) > largest:
            raise InvalidValueError(
                f"{called} must return for each completion a finite number, of at most "
                f"{largest:.2g} in size, or None; got {shown(value)}"
            )
        rewards.append(number)
    return rewards


def is_list(values: object) -> bool:
    """Return whether values are a list, or the like of NumPy, torch and pandas; a text is none."""
    has_places = hasattr(values, "__len__") and hasattr(values, "__getitem__")
    return has_places and not isinstance(values, (str, bytes, Mapping))


def column(field: str, values: object, count: int | None = None) -> None:
    """Raise InvalidValueError for what is no list with one value a row, of `count` rows if given.

    Lists, tuples, arrays of NumPy, tensors and columns of data frames are.
    """
    require(is_list(values), field, "a list with one value a completion", values)
    assert isinstance(values, Sized)
    if count is not None and len(values) != count:
        raise InvalidValueError(
            f"{field}: {counted(len(values), 'row')} for {counted(count, 'completion')}"
        )


def whole(field: str, value: int, least: int) -> None:
    """Raise InvalidValueError for what is no int of `least` or more, or too large to count to."""
    require(is_whole(value, least), field, f"an integer of {least} or more", value)
    require(python_number(value) <= sys.maxsize, field, "an integer of 64 bits", value)


def at_least(field: str, value: float | None, least: float) -> None:
    """Raise InvalidValueError for a number below `least`; None, which was not given, passes."""
    holds = value is None or (isinstance(value, numbers.Real) and value >= least)
    require(holds, field, f"at least {least}", value)


def limited(field: str, value: float | None, most: float) -> None:
    """Raise InvalidValueError for what is not above 0 and at most `most`; None passes."""
    number = python_number(value)
    holds = number is None or (isinstance(number, (int, float)) and 0 < number <= most)
    require(holds, field, f"above 0 and at most {most:g}", value)


def positive(field: str, value: float | None) -> None:
    """Raise InvalidValueError for what is not above 0 or no float can hold; None passes."""
    number = python_number(value)
    is_real = isinstance(number, (int, float))
    holds = number is None or (is_real and 0 < number <= sys.float_info.max)
    require(holds, field, "positive", value)
