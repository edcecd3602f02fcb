"""Rows of local files: JSONL and CSV, also packed by gzip, JSON and parquet, or a folder of them.

Nothing is held but the row at hand, for parquet a small batch, and for a JSON array the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from maxatk.bounded import json_value, lines_or_whole, placed
from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.jsonl import json_objects, read_jsonl
from maxatk.problems.benchmarks.base import Row
from maxatk.table_files import csv_rows, parquet_rows, whole_row

FORMATS = (".jsonl", ".json", ".parquet", ".csv", ".tsv", ".jsonl.gz", ".csv.gz", ".tsv.gz")


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
        if not _has_format(path):
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


def _has_format(file: Path) -> bool:
    """Say whether a name ends as that of a file of rows does, in capitals too."""
    return file.name.lower().endswith(FORMATS)


def starting_with(folder: Path, name: str) -> list[Path]:
    """Return the data files of a folder whose names start with a text, sorted."""
    return sorted(
        file for file in folder.iterdir() if _has_format(file) and file.name.startswith(name)
    )


def read_rows(
    path: Path, *, unused: Sequence[str] = (), only: Sequence[str] | None = None
) -> Iterator[Row]:
    """Yield the rows of one file; of parquet the columns `only`, or all but those `unused`.

    Raises DataError, with the file and the line, for a file that does not hold rows.
    """
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(".jsonl"):
        return read_jsonl(path, lambda row: row)
    if name.endswith(".parquet"):
        return parquet_rows(path, unused=unused, only=only)
    if name.endswith((".csv", ".tsv")):
        return (whole_row(row, f"{path}:{number}: ") for number, row in csv_rows(path))
    return _json_rows(path)


def _json_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of an array, or of the lines where each is a row, whatever the file's name."""
    read = lines_or_whole(path)
    if not isinstance(read, bytes):
        yield from json_objects(path, read)
        return
    with placed(f"{path}: must hold a JSON array of rows"):
        rows = json_value(read)
    if not isinstance(rows, list):
        raise DataError(f"{path}: must hold a JSON array of rows, got {rows!r:.60}")
    for row in rows:
        if not isinstance(row, dict):
            raise DataError(f"{path}: must hold a JSON array of rows, got {row!r:.60}")
        yield row
