"""Checks of the arguments that the functions of this package share."""

from __future__ import annotations

import operator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from maxatk.errors import InvalidValueError

FloatArray: TypeAlias = npt.NDArray[np.float64]


def as_floats(field: str, values: npt.ArrayLike) -> FloatArray:
    """Return `values` as a float64 array; raise InvalidValueError where that is impossible."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biuf":
            array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidValueError(f"{field}: must be an array of numbers ({error})") from error
    return array.astype(np.float64, copy=False)


def as_k(k: object, *, field: str = "k") -> int:
    """Return the subset size as an int; raise InvalidValueError unless it is an integer >= 1."""
    try:
        if isinstance(k, (bool, np.bool_)):
            raise TypeError
        size = operator.index(k)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidValueError(f"{field}: must be an integer >= 1, got {k!r}") from None
    if size < 1:
        raise InvalidValueError(f"{field}: must be an integer >= 1, got {size}")
    return size


def refuse_k_above(k: int, samples: int) -> None:
    """Raise InvalidValueError where k-subsets of that many samples do not exist."""
    if k > samples:
        raise InvalidValueError(
            f"k: must be at most the number of samples, got k={k} with {samples} samples"
        )


def is_number(value: object) -> bool:
    """Say whether a value is an int or a float, and no bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
