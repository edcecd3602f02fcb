"""What a log of another tool holds, whichever tool wrote it: one row a sample."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.check import LARGEST
from maxatk.errors import DataError
from maxatk.records import Sample

RawRow = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class LogRow:
    """One sample of a log.

    `sample` is None where the log does not number the samples of a problem: they are then numbered
    in the order of the file. `reward` is None where the log has none for this sample; `columns` are
    its further numbers. `program` is the whole program where the log holds it apart from the
    completion; with `continues` the completion goes on from the problem's prompt. `whole` is the
    sample where the log is one of ours. `prompt` and `answer` belong to the problem.
    """

    problem_id: str
    sample: int | None = None
    completion: str | None = None
    reward: float | None = None
    columns: Mapping[str, float] = dataclasses.field(default_factory=dict)
    program: str | None = None
    prompt: str | None = None
    answer: str | None = None
    continues: bool = False
    whole: Sample | None = None


PlacedRow = tuple[str, Callable[[], RawRow]]
"""Where a row stands, for messages, and what reads it; reading may raise a ValueError."""


@dataclasses.dataclass(frozen=True)
class LogFormat:
    """How the files of one tool are read.

    `title` says whose they are; `matches` tells from the first row whether a file has this form;
    `convert` makes the samples of one row, which are several where the row is a problem, given
    the mapping of `--map`, in which `choices` are the names that this format knows beside the
    fields of a sample. `single` is a choice that is needed where the field of this name differs
    from row to row. `rows` reads the file where that is not one row a line.
    """

    title: str
    matches: Callable[[RawRow], bool]
    convert: Callable[[RawRow, Mapping[str, str]], Sequence[LogRow]]
    choices: tuple[str, ...] = ()
    single: str | None = None
    rows: Callable[[Path], Iterator[PlacedRow]] | None = None


def text(row: RawRow, name: str) -> str:
    """Return the text of a field; raises DataError naming the field, what it is and was wanted."""
    value = field(row, name)
    if not isinstance(value, str):
        raise DataError(f"field {name!r}: must be text, got {value!r:.60}")
    return value


def texts(row: RawRow, name: str) -> list[str]:
    """Return the list of texts of a field; raises DataError as `text`."""
    value = field(row, name)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise DataError(f"field {name!r}: must be a list of texts, got {value!r:.60}")
    return value


def text_or_none(value: Any) -> str | None:
    """Return a text, None for anything else."""
    return value if isinstance(value, str) else None


def mapping(row: RawRow, name: str, absent: RawRow | None = None) -> RawRow:
    """Return the object of a field, `absent` where it is missing; raises DataError as `text`."""
    value = field(row, name) if absent is None else row.get(name, absent)
    if not isinstance(value, Mapping):
        raise DataError(f"field {name!r}: must be an object, got {value!r:.60}")
    return value


def mappings(row: RawRow, name: str) -> list[RawRow]:
    """Return the list of objects of a field; raises DataError as `text`."""
    value = field(row, name)
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        raise DataError(f"field {name!r}: must be a list of objects, got {value!r:.60}")
    return value


def field(row: RawRow, name: str) -> Any:
    """Return a field; raises DataError where it is missing."""
    if name not in row:
        raise DataError(f"field {name!r}: is missing; got {', '.join(sorted(map(str, row)))}")
    return row[name]


def identifier(value: Any, name: str) -> str:
    """Return the id of a problem, a number as its digits; raises DataError for anything else."""
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise DataError(f"field {name!r}: must be text or an integer, got {value!r:.60}")
    return str(value)


def index(value: Any, name: str) -> int:
    """Return the index of a sample, from 0; raises DataError for anything else."""
    number = as_number(value)
    if number is None or not number.is_integer() or number < 0:
        raise DataError(f"field {name!r}: must be an integer from 0, got {value!r:.60}")
    return int(number)


def reward(value: Any, name: str) -> float | None:
    """Return a reward, None where it is empty or NaN; raises DataError for anything else."""
    if value is None or value == "":
        return None
    number = as_number(value)
    if number is None or abs(number) > LARGEST:
        allowed = f"a finite number of at most {LARGEST:g} in size, or empty"
        raise DataError(f"field {name!r}: must be {allowed}, got {value!r:.60}")
    return None if math.isnan(number) else number


def as_number(value: Any) -> float | None:
    """Return a number, a truth value (1 and 0) or the text of one as a float; None for the rest."""
    if isinstance(value, str):
        lowered = value.strip().lower()
        if lowered in ("true", "false"):
            return float(lowered == "true")
        try:
            return float(value)
        except ValueError:
            return None
    if not isinstance(value, (bool, int, float)):
        return None
    try:
        return float(value)
    except OverflowError:  # an integer of hundreds of digits
        return math.inf


def numbers(row: RawRow, *, without: Sequence[str]) -> dict[str, float]:
    """Return the finite numbers of a row by field, those of the fields in `without` left out."""
    found = {}
    for name, value in row.items():
        number = None if name in without else as_number(value)
        if number is not None and math.isfinite(number):
            found[str(name)] = number
    return found


def conversation(value: Any) -> str | None:
    """Return a text as it is, and of a list of messages their contents, one after the other."""
    if not isinstance(value, list):
        return text_or_none(value)
    parts = [message.get("content") for message in value if isinstance(message, Mapping)]
    return "\n".join(part for part in parts if isinstance(part, str))
