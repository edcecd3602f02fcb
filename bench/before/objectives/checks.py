"""Checks of the arguments that the functions of this box share."""

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


def as_rewards(values: npt.ArrayLike) -> FloatArray:
    """Return rewards (..., n) as float64; NaN marks an unscorable sample, infinities raise."""
    rewards = as_floats("rewards", values)
    if rewards.ndim == 0:
        raise InvalidValueError("rewards: must have a last axis of samples, got a single number")
    if not np.isfinite(rewards).all() and np.isinf(rewards).any():
        raise InvalidValueError(
            "rewards: must be finite, or NaN for a sample that could not be scored; got an infinity"
        )
    return rewards


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
