"""JSON-lines files: read line by line with named errors, written whole or not at all."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from maxatk.check import existing_file
from maxatk.errors import DataError
from maxatk.folders import atomic_write

RecordT = TypeVar("RecordT")

MOST_SHOWN = 50  # bad lines that an error message lists; the rest are counted
_LONGEST = 1 << 28  # bytes of a line; a file without line ends would fill the memory


def read_jsonl(
    path: str | Path, parse: Callable[[Mapping[str, Any]], RecordT]
) -> Iterator[RecordT]:
    """Yield `parse(row)` for every line of a JSON-lines file, blank lines skipped.

    Raises MissingFileError; DataError, with the place, for a line that JSON or `parse` refuses.
    """
    return _read(Path(path), lambda line: parse(json_object(line)))


def read_typed(
    path: str | Path, kind: type[RecordT], check: Callable[[RecordT], object] = lambda _: None
) -> Iterator[RecordT]:
    """Yield the records of a file as `read_jsonl`; `check` may refuse one with a ValueError."""
    import msgspec

    decode = msgspec.json.Decoder(kind).decode

    def parse(line: bytes) -> RecordT:
        try:
            record = decode(line)
        except (msgspec.DecodeError, RecursionError):
            # Named by field and value, or read after all: half of a surrogate pair, which a
            # server may have sent within a completion, is no text for msgspec.
            record = kind.from_json(json_object(line))  # type: ignore[attr-defined]
        check(record)
        return record

    return _read(Path(path), parse)


def _read(path: Path, parse: Callable[[bytes], RecordT]) -> Iterator[RecordT]:
    for number, line in lines_of(path):
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


def lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of every line that is not blank, without the byte-order mark.

    Raises MissingFileError without the file, DataError for a line above 256 MiB.
    """
    existing_file(path)
    with path.open("rb") as file:
        has_mark = file.read(3) == codecs.BOM_UTF8
        file.seek(len(codecs.BOM_UTF8) if has_mark else 0)
        lines = iter(lambda: file.readline(_LONGEST), b"")
        for number, line in enumerate(lines, start=1):
            if len(line) == _LONGEST:
                raise DataError(f"{path}:{number}: the line is longer than {_LONGEST >> 20} MiB")
            if not line.isspace():
                yield number, line


def json_object(line: bytes) -> dict[str, Any]:
    """Return the JSON object that a line holds; raises DataError, without the place, for others."""
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


def write_jsonl(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as JSON lines, atomically: the file appears whole or not at all."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as partial, partial.open("w", encoding="utf-8") as out:
        for row in rows:
            out.write(json.dumps(row) + "\n")
