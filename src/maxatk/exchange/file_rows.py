"""The rows of a file, each with its place: of a table, of JSON, or one in each line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from maxatk.bounded import json_value, lines_of, lines_or_whole, placed
from maxatk.errors import DataError
from maxatk.exchange.log_rows import PlacedRow, RawRow
from maxatk.jsonl import json_object
from maxatk.table_files import TextRow, csv_rows, parquet_rows, whole_row

CSV_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz")


def placed_rows(path: Path) -> Iterable[PlacedRow]:
    """Return the rows of a file with their places; one of an unknown ending has a row a line."""
    if path.name.lower().endswith(CSV_ENDINGS):
        return ((f"{path}:{number}", TextRow(row)) for number, row in csv_rows(path))
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return ((f"{path}, row {number}", row) for number, row in enumerate(parquet_rows(path)))
    read = lines_or_whole(path) if suffix == ".json" else lines_of(path)
    if not isinstance(read, bytes):
        return ((f"{path}:{number}", line) for number, line in read)
    with placed(f"{path}: not a JSON file"):
        content = json_value(read)
    if isinstance(content, list):
        return [(f"{path}, item {number}", item) for number, item in enumerate(content)]
    return [(str(path), content)]


def row_of(value: Any) -> RawRow:
    """Return the row that stands at a place of a file; raises DataError where there is none."""
    if isinstance(value, bytes):
        return json_object(value)
    if not isinstance(value, Mapping):
        raise DataError(f"must be a JSON object, got {type(value).__name__}")
    return whole_row(value)
