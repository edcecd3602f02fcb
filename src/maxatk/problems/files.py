"""Rows of local files: JSONL, JSON arrays, parquet and CSV, or a folder of them.

Nothing is held but the row at hand, for parquet a small batch, and for a JSON array the whole.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.check import needing
from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.jsonl import read_jsonl
from maxatk.problems.benchmarks.base import Row

FORMATS = (".jsonl", ".json", ".parquet", ".csv", ".tsv")
_BATCH = 16  # rows of parquet decoded at a time; one row of CodeContests can hold 10 MB


def data_files(
    path: Path, *, split: str | None, names: Sequence[str] | None, splits: tuple[str, ...] = ()
) -> list[Path]:
    """Return the data files of a path: the file itself, or files of the folder.

    Of a folder these are the files called `names`; without names those that start with the name of
    the split, as on the hub; without such files all of them. Raises MissingFileError for what does
    not exist, or where the folder only has files of other `splits`, InvalidValueError for another
    format.
    """
    if path.is_file():
        if path.suffix not in FORMATS:
            raise InvalidValueError(
                f"file: {str(path)!r} must end in {', '.join(FORMATS)} or be a folder of such files"
            )
        return [path]
    if not path.is_dir():
        raise MissingFileError(f"file: {str(path)!r} does not exist")
    if names is not None:
        wanted = [path / Path(name).name for name in names]
        missing = [file.name for file in wanted if not file.is_file()]
        if missing:
            raise MissingFileError(f"file: the folder {str(path)!r} holds no {missing[0]!r}")
        return wanted
    every_file = starting_with(path, "")
    files_of_split = starting_with(path, split) if split else []
    if not every_file:
        raise MissingFileError(f"file: the folder {str(path)!r} holds no {', '.join(FORMATS)} file")
    if files_of_split:
        return files_of_split
    # Reading the files of another split in its place would train on the test set, say.
    if split and any(file.name.startswith(splits) for file in every_file):
        raise MissingFileError(f"file: the folder {str(path)!r} holds no file of split {split!r}")
    return every_file


def starting_with(folder: Path, name: str) -> list[Path]:
    """Return the data files of a folder whose names start with a text, sorted."""
    return sorted(
        file for file in folder.iterdir() if file.suffix in FORMATS and file.name.startswith(name)
    )


def read_rows(
    path: Path, *, unused: Sequence[str] = (), only: Sequence[str] | None = None
) -> Iterator[Row]:
    """Yield the rows of one file; of parquet the columns `only`, or all but those `unused`.

    Raises DataError, with the file and the line, for a file that does not hold rows.
    """
    if path.suffix == ".jsonl":
        return read_jsonl(path, lambda row: row)
    if path.suffix == ".parquet":
        return _parquet_rows(path, unused, only)
    if path.suffix in (".csv", ".tsv"):
        return (whole_row(row, f"{path}:{number}: ") for number, row in csv_rows(path))
    return _array_rows(path)


def _parquet_rows(path: Path, unused: Sequence[str], only: Sequence[str] | None) -> Iterator[Row]:
    with needing(
        f"{path}: reading parquet needs the package 'pyarrow': pip install 'maxatk[train]'"
    ):
        import pyarrow
        from pyarrow.parquet import ParquetFile
    try:
        parquet = ParquetFile(path)
        names = parquet.schema_arrow.names
        if only is None:
            columns = [name for name in names if name not in unused]
        else:
            columns = [name for name in names if name in only]
        for batch in parquet.iter_batches(batch_size=_BATCH, columns=columns):
            yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a parquet file ({error})") from error


def csv_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Yield the rows of a table with a line of names, CSV or TSV, and the line that each ends on.

    A name that ends in .gz is read through gzip. A row with more values than names has them under
    None. Raises DataError for another file.
    """
    open_text = gzip.open if path.suffix == ".gz" else open
    delimiter = "\t" if ".tsv" in path.suffixes else ","
    # Spreadsheets start their files with a byte order mark: "utf-8-sig" takes it away.
    with open_text(path, "rt", encoding="utf-8-sig", newline="") as text:
        reader = csv.DictReader(text, delimiter=delimiter)
        try:
            for row in reader:
                yield reader.line_num, row
        except (csv.Error, UnicodeDecodeError, gzip.BadGzipFile, EOFError) as error:
            raise DataError(f"{path}: not a CSV file in UTF-8 ({error})") from error


def whole_row(row: Mapping[Any, Any], where: str = "") -> Row:
    """Return a row of `csv_rows`; raises DataError for one with more values than names."""
    surplus = row.get(None)
    if surplus is not None:
        raise DataError(f"{where}has {len(surplus)} more values than the header has names")
    return row


def _array_rows(path: Path) -> Iterator[Row]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:  # text that is not UTF-8 is a ValueError
        raise DataError(f"{path}: must hold a JSON array of rows ({error})") from error
    if not isinstance(rows, list):
        raise DataError(f"{path}: must hold a JSON array of rows, got {rows!r:.60}")
    for row in rows:
        if not isinstance(row, dict):
            raise DataError(f"{path}: must hold a JSON array of rows, got {row!r:.60}")
        yield row
