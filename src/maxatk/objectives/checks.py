"""Checks of the arguments that the functions of this package share."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from maxatk.check import require
from maxatk.errors import InvalidValueError, counted

FloatArray: TypeAlias = npt.NDArray[np.float64]

_NO_NUMBERS = (str, bytes, np.datetime64, np.timedelta64, complex)


def as_floats(field: str, values: Any) -> FloatArray:
    """Return numbers, also of tensors, frames and lists of them, as a float64 array.

    What a mask hides is NaN, as is NA of pandas. Raises InvalidValueError for anything but numbers.
    """
    try:
        array = _as_array(values)
        if array.dtype.kind == "O":
            array = _of_numbers(array)
        if array.dtype.kind in "SUMmc":
            raise TypeError(f"got {array.flat[0]!r} of type {array.dtype}")
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise InvalidValueError(f"{field}: must be an array of numbers ({error})") from error


def _as_array(values: Any) -> npt.NDArray[Any]:
    """Return an array of any type; raises ValueError for rows of different lengths."""
    plain = _plain(values)
    try:
        return np.asarray(plain)
    except ValueError as error:
        if not isinstance(plain, (list, tuple)):
            raise
        raise ValueError("its rows have different lengths") from error


def _of_numbers(objects: npt.NDArray[np.object_]) -> npt.NDArray[np.object_]:
    """Return objects with NaN for NA; raises TypeError for what is no number."""
    values = list(objects.flat)
    for value in values:
        # Texts, dates and complex numbers, which NumPy would turn into floats or cut.
        if isinstance(value, _NO_NUMBERS):
            raise TypeError(f"got {value!r} of type {type(value).__name__}")
    are_na = np.array([is_na(value) for value in values], dtype=bool).reshape(objects.shape)
    return np.where(are_na, np.nan, objects)


def package_of(kind: type) -> str:
    """Return the top-level package of a class: torch and pandas are known without an import."""
    return kind.__module__.partition(".")[0]


def is_na(value: object) -> bool:
    """Say whether a value is NA of pandas, which is neither equal to itself nor different."""
    kind = type(value)
    return kind.__name__ == "NAType" and package_of(kind) == "pandas"


def _plain(values: Any) -> Any:
    """Return what NumPy reads: tensors, frames and masked arrays as arrays, inside lists too."""
    if type(values) is np.ndarray:
        return values
    if isinstance(values, (list, tuple)):
        return [_plain(value) for value in values] if _holds_foreign(values) else values
    if package_of(type(values)) == "torch":
        return values.detach().cpu().double().numpy()
    if package_of(type(values)) == "pandas":
        return values if is_na(values) else values.to_numpy()
    if isinstance(values, np.ma.MaskedArray):
        return np.ma.filled(values.astype(np.float64), np.nan)
    return values


def _holds_foreign(values: Sequence[Any]) -> bool:
    """Return whether a list, or one inside it, holds what `_plain` makes an array of."""
    kinds = set(map(type, values))
    for kind in kinds:
        if package_of(kind) in ("torch", "pandas") or issubclass(kind, np.ma.MaskedArray):
            return True
    if kinds.isdisjoint((list, tuple)):
        return False
    return any(_holds_foreign(value) for value in values if isinstance(value, (list, tuple)))


def plain_ids(field: str, values: Sequence[Any]) -> Sequence[Any]:
    """Return ids with a number in place of each tensor of one number, as a loop over one gives.

    Equal tensors have different hashes, so that each would be an id of its own. Raises
    InvalidValueError for a tensor of more.
    """
    if not any(package_of(kind) == "torch" for kind in set(map(type, values))):
        return values
    ids = []
    for value in values:
        is_tensor = package_of(type(value)) == "torch"
        if is_tensor and value.numel() != 1:
            raise InvalidValueError(f"{field}: must be hashable, got a tensor of {value.numel()}")
        ids.append(value.item() if is_tensor else value)
    return ids


def as_k(k: object, *, field: str = "k") -> int:
    """Return the subset size as an int; raise InvalidValueError unless it is an integer >= 1."""
    try:
        size = 0 if isinstance(k, (bool, np.bool_)) else operator.index(k)  # type: ignore[arg-type]
    except TypeError:
        size = 0
    require(size >= 1, field, "an integer >= 1", k)
    return size


def refuse_k_above(k: int, samples: int) -> None:
    """Raise InvalidValueError where k-subsets of that many samples do not exist."""
    if k > samples:
        raise InvalidValueError(
            f"k: must be at most the number of samples, got k={k} with {counted(samples, 'sample')}"
        )
