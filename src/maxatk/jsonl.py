"""JSON-lines files: read line by line with named errors, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from maxatk.bounded import json_value, lines_of
from maxatk.errors import DataError
from maxatk.writing import atomic_write

RecordT = TypeVar("RecordT")

MOST_SHOWN = 50  # bad lines that an error message lists; the rest are counted


def read_jsonl(
    path: str | Path, parse: Callable[[Mapping[str, Any]], RecordT]
) -> Iterator[RecordT]:
    """Yield `parse(row)` for every line of a JSON-lines file, blank lines skipped.

    Raises MissingFileError; DataError, with the place, for a line that JSON or `parse` refuses.
    """
    return _read(Path(path), lines_of(Path(path)), lambda line: parse(json_object(line)))


def json_objects(path: Path, lines: Iterable[tuple[int, bytes]]) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of numbered lines of a file; raises DataError, with the place."""
    return _read(path, lines, json_object)


def read_typed(path: str | Path, kind: type[RecordT]) -> Iterator[RecordT]:
    """Yield the records of a file as `read_jsonl`."""
    return _read(Path(path), lines_of(Path(path)), _parser(kind))


def visit_typed(path: str | Path, kind: type[RecordT], visit: Callable[[RecordT], object]) -> None:
    """Call `visit` with every record of a file; what it raises as a ValueError names the line."""
    parse = _parser(kind)
    for number, line in lines_of(Path(path)):
        try:
            visit(parse(line))
        except (ValueError, TypeError) as error:
            raise DataError(f"{path}:{number}: {error}") from error


def _parser(kind: type[RecordT]) -> Callable[[bytes], RecordT]:
    """Return what reads a record of a line."""
    import msgspec

    decode = msgspec.json.Decoder(kind).decode

    def parse(line: bytes) -> RecordT:
        try:
            return decode(line)
        except (msgspec.DecodeError, RecursionError):
            # Named by field and value, or read after all: half of a surrogate pair, which a
            # server may have sent within a completion, is no text for msgspec.
            return kind.from_json(json_object(line))  # type: ignore[attr-defined, no-any-return]

    return parse


def _read(
    path: Path, lines: Iterable[tuple[int, bytes]], parse: Callable[[bytes], RecordT]
) -> Iterator[RecordT]:
    for number, line in lines:
        try:
            yield parse(line)
        except (ValueError, TypeError) as error:
            raise DataError(f"{path}:{number}: {error}") from error


def bad_lines(path: str | Path, errors: Sequence[tuple[str, str]]) -> str:
    """Return the message about bad lines, given as place and cause: each cause once."""
    places_of: dict[str, list[str]] = {}
    for place, cause in errors:
        places_of.setdefault(cause, []).append(place)
    causes = [
        f"{places[0]}: {cause}" + (f" (and {len(places) - 1:,} more)" if len(places) > 1 else "")
        for cause, places in places_of.items()
    ]
    if len(causes) == 1:
        return causes[0]
    listed = causes[:MOST_SHOWN]
    cut = f", the first {len(listed)}" if len(causes) > len(listed) else ""
    return "\n  ".join([f"{path}: {len(errors):,} bad lines{cut}:", *listed])


def json_object(line: bytes) -> dict[str, Any]:
    """Return the JSON object that a line holds; raises DataError, without the place, for others."""
    row = json_value(line)
    if not isinstance(row, dict):
        raise DataError(f"must be a JSON object, got {type(row).__name__}")
    return row


def write_jsonl(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as JSON lines, atomically: the file appears whole or not at all."""
    with atomic_write(Path(path)) as partial, partial.open("w", encoding="utf-8") as out:
        for row in rows:
            out.write(json.dumps(row) + "\n")
