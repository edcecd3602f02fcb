"""Read a JSON-lines file whole, and report every bad line of it at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from maxatk.errors import DataError, MissingFileError

ItemT = TypeVar("ItemT")

MOST_SHOWN = 50
"""How many bad lines an error message lists; the rest are counted."""


def parse_every_line(
    path: str | Path, parse: Callable[[Mapping[str, Any]], ItemT], *, most_shown: int = MOST_SHOWN
) -> list[ItemT]:
    """Return `parse(row)` of every line in file order, blank lines skipped.

    Unlike `read_jsonl` it goes on after a bad line. Raises MissingFileError without the file, and
    one DataError with the file and line of every bad line: no UTF-8, broken JSON, not an object,
    or refused by `parse` with a ValueError.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingFileError(f"{path}: no such file")
    parsed: list[ItemT] = []
    shown: list[str] = []
    bad = 0
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                parsed.append(parse(_json_object(line)))
            except ValueError as error:
                bad += 1
                if bad <= most_shown:
                    shown.append(f"{path}:{number}: {error}")
    if bad:
        raise DataError(_report(path, shown, bad))
    return parsed


def _json_object(line: bytes) -> Mapping[str, Any]:
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
