"""JSON-lines files: read line by line with named errors, written whole or not at all."""

from __future__ import annotations

import codecs
import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from maxatk.errors import DataError, MissingFileError
from maxatk.folders import atomic_write

RecordT = TypeVar("RecordT")

MOST_SHOWN = 50
"""How many bad lines an error message lists; the rest are counted."""

_MARK = secrets.token_hex(16)
_BETWEEN = f',"{_MARK}",'
_BLOCK = 1 << 16  # characters of whole lines that are decoded at a time: they stay in the cache


def read_jsonl(
    path: str | Path,
    parse: Callable[[Mapping[str, Any]], RecordT],
    *,
    shorten: Callable[[str], str] | None = None,
) -> Iterator[RecordT]:
    """Yield `parse(row)` for every line of a JSON-lines file, blank lines skipped.

    `shorten` gives the text that is decoded in a line's place, for a caller that needs only part
    of it.

    Raises MissingFileError when there is no such file, DataError (with file and line number)
    when a line is not a JSON object or `parse` refuses it.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingFileError(f"{path}: no such file")
    number = 1
    for block in _blocks(path):
        lines = block if shorten is None else [shorten(line) for line in block]
        try:
            for row in _together(lines) or _one_by_one(lines):
                if row is not None:
                    yield parse(row)
                number += 1
        except (ValueError, TypeError) as error:
            raise DataError(f"{path}:{number}: {error}") from error
        except RecursionError as error:
            raise DataError(f"{path}:{number}: broken JSON: nested too deeply") from error


def _blocks(path: Path) -> Iterator[list[str]]:
    with path.open(encoding="utf-8-sig", errors="strict") as file:  # with or without its mark
        try:
            while lines := file.readlines(_BLOCK):
                yield lines
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: not a UTF-8 text file ({error})") from error


def _together(lines: Sequence[str]) -> list[dict[str, Any]] | None:
    # One call for many lines takes half as long as one for each. None where a line is not one
    # object: `_one_by_one` then finds out which. A mark of this process stands between the lines,
    # because two broken ones may make a whole one; it then lies deeper, or where a row belongs.
    try:
        parts: list[Any] = json.loads(f"[{_BETWEEN.join(lines)}]")
    except (ValueError, RecursionError):
        return None
    rows = parts[::2]
    whole = len(rows) == len(lines) and all(isinstance(row, dict) for row in rows)
    return rows if whole and all(part == _MARK for part in parts[1::2]) else None


def _one_by_one(lines: Iterable[str]) -> Iterator[Mapping[str, Any] | None]:
    for line in lines:
        if line.isspace():
            yield None
            continue
        row = json.loads(line)
        if not isinstance(row, dict):
            raise DataError(f"must be a JSON object, got {type(row).__name__}")
        yield row


def parse_every_line(
    path: str | Path, parse: Callable[[Mapping[str, Any]], RecordT], *, most_shown: int = MOST_SHOWN
) -> list[RecordT]:
    """Return `parse(row)` of every line in file order, blank lines skipped.

    Unlike `read_jsonl` it goes on after a bad line. Raises MissingFileError without the file, and
    one DataError with the file and line of every bad line: no UTF-8, broken JSON, not an object,
    or refused by `parse` with a ValueError.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingFileError(f"{path}: no such file")
    parsed: list[RecordT] = []
    shown: list[str] = []
    bad = 0
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if not line.strip():
                continue
            try:
                parsed.append(parse(json_object(line)))
            except ValueError as error:
                bad += 1
                if bad <= most_shown:
                    shown.append(f"{path}:{number}: {error}")
    if bad:
        raise DataError(_report(path, shown, bad))
    return parsed


def json_object(line: bytes) -> dict[str, Any]:
    """Return the JSON object that a line holds.

    Raises DataError, without the place of the line, where it is no UTF-8, no JSON or no object.
    """
    try:
        row = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8: {error.reason} at byte {error.start + 1}") from error
    except json.JSONDecodeError as error:
        raise DataError(f"broken JSON: {error.msg} at column {error.colno}") from error
    except RecursionError as error:
        raise DataError("broken JSON: nested too deeply") from error
    if not isinstance(row, dict):
        raise DataError(f"must be a JSON object, got {type(row).__name__}")
    return row


def _report(path: Path, shown: list[str], bad: int) -> str:
    if bad == 1:
        return shown[0]
    rest = f", the first {len(shown)}" if bad > len(shown) else ""
    return "\n  ".join([f"{path}: {bad:,} bad lines{rest}:", *shown])


def write_jsonl(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as JSON lines, atomically: the file appears whole or not at all."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as partial, partial.open("w", encoding="utf-8") as out:
        for row in rows:
            out.write(json.dumps(row) + "\n")
