"""Numbers of NumPy in settings, as Python's: JSON, hashes and other processes take no others."""

from __future__ import annotations

import dataclasses
import numbers
from typing import Any

import numpy as np

_AS_THEY_ARE = (str, bool, int, float, type(None))


def python_number(value: Any) -> Any:
    """Return a number of NumPy, or an array that is one, as Python's, and any other value as it is.

    A list or an array of several numbers is not looked through.
    """
    if type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if isinstance(value, numbers.Real) else value


def with_python_numbers(value: Any) -> Any:
    """Return a value with Python's numbers in the place of NumPy's, in lists and mappings too."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    kind = type(value)
    if kind in (list, tuple):
        return kind(map(with_python_numbers, value))
    if kind is dict:
        return {
            with_python_numbers(name): with_python_numbers(inner) for name, inner in value.items()
        }
    return python_number(value)


def use_python_numbers(settings: Any, *names: str) -> None:
    """Put Python's numbers in the place of NumPy's, in the fields named of a dataclass or in all.

    A frozen one calls it at the beginning of its `__post_init__`.
    """
    for name in names or [field.name for field in dataclasses.fields(settings)]:
        value = getattr(settings, name)
        if type(value) not in _AS_THEY_ARE:
            object.__setattr__(settings, name, with_python_numbers(value))
