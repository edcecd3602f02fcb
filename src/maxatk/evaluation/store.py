"""Append-only JSON-lines stores of records keyed by (problem_id, sample).

A store survives SIGKILL at any moment: a last line without its newline is cut off when the file
is opened again. So are last lines of zero bytes, which some file systems leave after power cuts.
"""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Any, BinaryIO, Generic, Protocol, TypeVar

from maxatk.errors import DataError
from maxatk.jsonl import visit_typed, write_jsonl
from maxatk.writing import make_folder, open_alone

Key = tuple[str, int]


class KeyedRecord(Protocol):
    """What a store holds: `Sample` and `Score` are such records."""

    @property
    def problem_id(self) -> str:
        """The id of the problem."""

    @property
    def sample(self) -> int:
        """The index of the sample among those of its problem."""

    def to_json(self) -> dict[str, Any]:
        """Return the record as one JSON object."""


RecordT = TypeVar("RecordT", bound=KeyedRecord)


class Store(Generic[RecordT]):
    """The records of one file, in file order, and a way to append to it.

    Opening drops torn last lines; any other corrupt line and a key that occurs twice raise
    DataError with file and line, a file that another process holds InvalidValueError.
    """

    def __init__(self, path: str | Path, kind: type[RecordT]) -> None:
        self.path = Path(path)
        make_folder(self.path.parent)
        # Unbuffered: after a full disk nothing is left over that closing would try to write again.
        self._file = open_alone(self.path, buffering=0)
        try:
            _cut_torn_lines(self.path)
            self.records = read_records(self.path, kind)
        except BaseException:
            self._file.close()
            raise

    def append(self, records: Iterable[RecordT]) -> None:
        """Append records; raises DataError if a key is already in the store.

        Raises OSError with the path where they cannot be written whole, on a full disk: what was
        written of them is found, and the torn line cut off, when the file is opened again.
        """
        added: dict[Key, RecordT] = {}
        for record in records:
            key = key_of(record)
            if key in self.records or key in added:
                raise DataError(f"{self.path}: sample {key[1]} of {key[0]!r} is already there")
            added[key] = record
        lines = [json.dumps(record.to_json()) + "\n" for record in added.values()]
        unwritten = "".join(lines).encode()
        try:
            while unwritten:
                written = self._file.write(unwritten)  # of a full disk, fewer bytes than given
                unwritten = unwritten[written:]
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        self.records.update(added)

    def keep(self, keys: Container[Key]) -> None:
        """Drop the records of all other keys: the file is replaced whole, or stays as it is."""
        kept = {key: record for key, record in self.records.items() if key in keys}
        if len(kept) == len(self.records):
            return
        write_jsonl(self.path, (record.to_json() for record in kept.values()))
        self._file.close()
        self._file = open_alone(self.path, buffering=0)
        self.records = kept

    def close(self) -> None:
        """Close the file and release it to other processes."""
        self._file.close()

    def __enter__(self) -> Store[RecordT]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def key_of(record: KeyedRecord) -> Key:
    """Return (problem_id, sample)."""
    return record.problem_id, record.sample


def read_records(path: str | Path, kind: type[RecordT]) -> dict[Key, RecordT]:
    """Return the records of a JSON-lines file by key, in file order.

    Raises MissingFileError without the file, DataError (file and line) for a corrupt line or a
    key that occurs twice.
    """
    records: dict[Key, RecordT] = {}

    def keep(record: RecordT) -> None:
        if records.setdefault(key_of(record), record) is not record:
            raise DataError(f"sample {record.sample} of {record.problem_id!r} occurs twice")

    # None of the records is garbage, and looking for cycles among hundreds of thousands of them,
    # again and again as they grow, takes a fifth of the time.
    enabled = gc.isenabled()
    gc.disable()
    try:
        visit_typed(path, kind, keep)
    finally:
        if enabled:
            gc.enable()
    return records


def _cut_torn_lines(path: Path) -> None:
    """Cut off what a kill has left: a last line without its end, and last lines of zero bytes."""
    with path.open("rb+") as file:
        end = file.seek(0, os.SEEK_END)
        kept = _line_start(file, end)
        while kept > 0:
            start = _line_start(file, kept - 1)
            file.seek(start)
            if b"\0" not in file.read(kept - start):
                break
            kept = start
        if kept < end:
            file.truncate(kept)


def _line_start(file: BinaryIO, end: int) -> int:
    """Return where the line begins that ends before `end`, in blocks from the end."""
    while end > 0:
        start = max(0, end - (1 << 16))
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
