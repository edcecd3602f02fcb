"""Columns of a row, and errors that name the one whose value is of another type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from maxatk.check import is_number, require


def require_type(row: Mapping[str, Any], column: str, kind: type) -> Any:
    """Return `row[column]`; raises TypeError naming the column when it is of another type."""
    value = row[column]
    if not isinstance(value, kind):
        raise TypeError(
            f"column {column!r} must be {kind.__name__}, got {type(value).__name__}: {value!r:.60}"
        )
    return value


def text_or_nothing(row: Mapping[str, Any], column: str) -> str:
    """Return the text of a column, "" for null; raises TypeError for another type."""
    return "" if row[column] is None else str(require_type(row, column, str))


def identity(value: object, column: str) -> str:
    """Return what a column says that its row is called: a text, or the digits of a number.

    Raises InvalidValueError for what would give several rows one id, such as null or "".
    """
    require(is_name(value), column, "a text or a number for an id", value)
    return str(value)


def is_name(value: object) -> bool:
    """Say whether a value can be an id: a text, or a finite number."""
    if isinstance(value, str):
        return value != ""
    return is_number(value) and math.isfinite(value)


def pairs(row: Mapping[str, Any], first: str, second: str) -> list[tuple[Any, Any]]:
    """Return the pairs of two columns that are lists of as many values.

    Raises TypeError for a column that is no list, ValueError for lists of other lengths.
    """
    values = [require_type(row, column, list) for column in (first, second)]
    return list(zip(*values, strict=True))
