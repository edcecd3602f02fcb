"""Rows of tables, CSV and parquet, one at a time and within the bounds of `maxatk.bounded`."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from maxatk.bounded import LONGEST, most_unpacked, placed, raw_lines, text_of
from maxatk.check import existing_file, needing
from maxatk.errors import DataError, counted

Row: TypeAlias = Mapping[str, Any]

MISSING: Any = object()
"""What `value_at` returns where there is nothing."""


class TextRow(dict[str, Any]):
    """A row of a table that has no types, as CSV has none: a number there is the text of one."""


# Characters of a value of CSV: Python's 128 KiB are too few for the tests of a problem. A quote
# that nothing closes takes all lines behind it, which would be read for minutes without a bound.
_LONGEST_VALUE = 1 << 21
_MOST_ROWS = 16  # of parquet decoded at a time; one row of CodeContests can hold 10 MB


def value_at(row: Row, path: str) -> Any:
    """Return the value at a path such as `a.b.0`, or `MISSING`.

    A field whose own name is the path, dots included, comes first.
    """
    if path in row:
        return row[path]
    value: Any = row
    try:
        for name in path.split("."):
            value = value[int(name)] if isinstance(value, list) else value[name]
    except (LookupError, TypeError, ValueError):
        return MISSING
    return value


def csv_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Yield the rows of a table with a line of names, CSV or TSV, and the line that each ends on.

    Commas separate the values, in .tsv tabs, and semicolons or tabs where the line of names has no
    comma. Blanks around a name are no part of it. A file whose name ends in .gz is read through
    gzip. A row with more values than names has them under None, one with fewer has `MISSING` under
    the other names. Raises MissingFileError, and DataError for another file, or as
    `refuse_repeated`.
    """
    lines = _text_lines(path)
    first = next(lines, "")
    is_tsv = path.name.lower().endswith((".tsv", ".tsv.gz"))
    separator = "\t" if is_tsv else _separator(first)
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_VALUE))
    # Strict, since a quote that nothing closes would take the rows behind it into its own value.
    reader = csv.reader(_behind(first, lines), delimiter=separator, strict=True)
    records = _records(path, reader)
    names = [name.strip() for name in next(records, [])]
    refuse_repeated(names, f"{path}:{reader.line_num}")
    for values in records:
        if values:
            yield reader.line_num, _named(names, values)


def _records(path: Path, reader: Any) -> Iterator[list[str]]:
    """Yield what a reader of `csv` does; DataError names the line on which a bad row begins."""
    begins = 1
    try:
        for values in reader:
            begins = reader.line_num + 1
            yield values
    except csv.Error as error:
        reason = str(error)
        if reason == "unexpected end of data":
            reason = "the row has a quote that nothing closes; a quote inside a value is two"
        elif reason.startswith("field larger than field limit"):
            reason = (
                f"a value of more than {_LONGEST_VALUE:,} characters, or a quote that nothing "
                "closes; JSONL and Parquet take longer ones"
            )
        raise DataError(f"{path}:{begins}: not a CSV file ({reason})") from error


def _named(names: Sequence[str], values: Sequence[str]) -> Row:
    row: dict[Any, Any] = dict(zip(names, values, strict=False))
    for name in names[len(values) :]:
        if name:  # spreadsheets add columns without a name, which can be lost
            row[name] = MISSING
    if len(values) > len(names):
        row[None] = values[len(names) :]
    return row


def refuse_repeated(names: Iterable[Hashable], place: str) -> None:
    """Raise DataError where several columns have one name, and all but one would be lost.

    Columns without a name, as spreadsheets add behind the last one, can be lost.
    """
    for name, count in Counter(names).items():
        if count > 1 and str(name).strip():
            raise DataError(
                f"{place}: {count} columns are named {name!r:.80}; "
                "every column needs a name of its own"
            )


def _text_lines(path: Path) -> Iterator[str]:
    for number, line in raw_lines(path):
        with placed(f"{path}:{number}"):
            text = text_of(line)
        if "\r" in text[:-2]:  # an old file of a Mac ends its lines so
            yield from io.StringIO(text, newline="")
        else:
            yield text


def _behind(first: str, lines: Iterator[str]) -> Iterator[str]:
    yield first
    yield from lines


def _separator(names: str) -> str:
    """Return what separates the names of a table; some spreadsheets take semicolons."""
    return next((mark for mark in (",", ";", "\t") if mark in names), ",")


def whole_row(row: Mapping[Any, Any], where: str = "") -> Row:
    """Return a row of `csv_rows`; raises DataError for one with more or fewer values than names."""
    surplus = row.get(None)
    if surplus is not None:
        raise DataError(
            f"{where}has {counted(len(surplus), 'value')} more than the header has names"
        )
    lacking = [name for name, value in row.items() if value is MISSING]
    if lacking:
        raise DataError(
            f"{where}has {counted(len(lacking), 'value')} fewer than the header has names, none "
            f"for {lacking[0]!r:.80}; an empty value has its separator too"
        )
    return row


def parquet_rows(
    path: Path, *, unused: Sequence[str] = (), only: Sequence[str] | None = None
) -> Iterator[Row]:
    """Yield the rows of a parquet file, with the columns `only`, or all but those `unused`.

    Raises MissingFileError, MissingDependencyError without PyArrow, DataError for another file, a
    row of more than `LONGEST` bytes, more bytes than a file of its size may stand for, and as
    `refuse_repeated`.
    """
    existing_file(path)
    with needing(
        f"{path}: reading parquet needs the package 'pyarrow': pip install 'maxatk[train]'"
    ):
        import pyarrow
        from pyarrow.parquet import ParquetFile
    left = most_unpacked(path.stat().st_size)
    try:
        parquet = ParquetFile(path)
        names = parquet.schema_arrow.names
        chosen = [n for n in names if n not in unused] if only is None else list(only)
        columns = [name for name in names if name in chosen]
        refuse_repeated(columns, str(path))
        size = _rows_at_a_time(parquet.metadata)
        for stored in parquet.iter_batches(batch_size=size, columns=columns):
            batch = _written_out(stored)
            left -= batch.nbytes
            if batch.nbytes > LONGEST * batch.num_rows or left < 0:
                raise DataError(f"{path}: its rows take more memory than such a file may")
            yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError, TypeError, OverflowError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: not a parquet file ({error})") from error


def _written_out(batch: Any) -> Any:
    """Return rows in which the values of a dictionary stand in every row, and so count there."""
    import pyarrow

    columns = [
        column.dictionary_decode() if pyarrow.types.is_dictionary(column.type) else column
        for column in batch.columns
    ]
    return pyarrow.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _rows_at_a_time(metadata: Any) -> int:
    """Return how many rows are decoded together: one where a single value may be long.

    A value that stands once in a packed column may be that of every row.
    """
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    longest = max((group.total_byte_size for group in groups), default=0)
    return max(1, min(_MOST_ROWS, LONGEST // max(1, longest)))
