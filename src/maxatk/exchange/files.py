"""Rows of the files that other tools write: CSV, JSON, JSON lines and parquet."""

from __future__ import annotations

import csv
import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from maxatk.errors import DataError, InvalidValueError, MissingDependencyError, MissingFileError
from maxatk.exchange.log import PlacedRow, RawRow
from maxatk.jsonl import json_object


def placed_rows(path: Path) -> Iterator[PlacedRow]:
    """Yield every row of a file with its place, such as `scores.csv:3`.

    Raises MissingFileError without the file, InvalidValueError for a name with another ending,
    DataError for a file that holds no rows, MissingDependencyError for parquet without PyArrow.
    """
    if not path.is_file():
        raise MissingFileError(f"{path}: no such file")
    if path.suffix not in _READERS:
        raise InvalidValueError(f"{path}: must end in {', '.join(_READERS)}")
    return _READERS[path.suffix](path)


def _json_lines(path: Path) -> Iterator[PlacedRow]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield f"{path}:{number}", functools.partial(json_object, line)


def _an_object(value: Any) -> RawRow:
    if not isinstance(value, dict):
        raise DataError(f"must be a JSON object, got {type(value).__name__}")
    return value


def _json(path: Path) -> Iterator[PlacedRow]:
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not a JSON file: {error}") from error
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield f"{path}, item {number}", functools.partial(_an_object, item)
    else:
        yield str(path), functools.partial(_an_object, value)


def _csv(path: Path) -> Iterator[PlacedRow]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        try:
            for row in reader:
                yield f"{path}:{reader.line_num}", functools.partial(_whole_line, row)
        except (csv.Error, UnicodeDecodeError) as error:
            raise DataError(f"{path}: not a CSV file in UTF-8 ({error})") from error


def _whole_line(row: dict[Any, Any]) -> RawRow:
    if None in row:
        raise DataError(f"has {len(row[None])} more values than the header has names")
    return row


def _parquet(path: Path) -> Iterator[PlacedRow]:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingDependencyError(
            f"{path}: parquet needs the package 'pyarrow': pip install pyarrow"
        ) from error
    try:
        file = parquet.ParquetFile(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not a parquet file ({error})") from error
    number = 0
    for batch in file.iter_batches():
        for row in batch.to_pylist():
            yield f"{path}, row {number}", functools.partial(_an_object, row)
            number += 1


_READERS: dict[str, Callable[[Path], Iterator[PlacedRow]]] = {
    ".csv": _csv,
    ".json": _json,
    ".jsonl": _json_lines,
    ".parquet": _parquet,
}
