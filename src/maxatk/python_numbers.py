"""Numbers of NumPy in settings, as Python's: JSON, hashes and other processes take no others."""

from __future__ import annotations

import dataclasses
import numbers
from typing import Any

import numpy as np

_AS_THEY_ARE = (str, bool, int, float, type(None))


def with_python_numbers(value: Any) -> Any:
    """Return a value with Python's numbers in the place of NumPy's, in lists and mappings too."""
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, np.ndarray):
        return with_python_numbers(value.tolist())
    if kind in (list, tuple):
        return kind(map(with_python_numbers, value))
    if kind is dict:
        return {
            with_python_numbers(name): with_python_numbers(inner) for name, inner in value.items()
        }
    return value


def use_python_numbers(settings: Any, *names: str) -> None:
    """Put Python's numbers in the place of NumPy's, in the fields named of a dataclass or in all.

    A frozen one calls it at the beginning of its `__post_init__`.
    """
    for name in names or [field.name for field in dataclasses.fields(settings)]:
        value = getattr(settings, name)
        if type(value) not in _AS_THEY_ARE:
            object.__setattr__(settings, name, with_python_numbers(value))
