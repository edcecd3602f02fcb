"""The working file of a preparation of problems, from which one that was killed goes on."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from maxatk.bounded import LONGEST, json_value
from maxatk.errors import DataError
from maxatk.problems.benchmarks.base import Converted, LeftOut
from maxatk.records import Sample
from maxatk.writing import make_folder, open_alone

_IDENTITY = {"version", "prompts", "source", "overlap", "settings"}  # of a preparation


def is_journal(path: Path) -> bool:
    """Say whether a file is the working file of a preparation, by its first line."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        first_line = file.readline(LONGEST)
    with contextlib.suppress(DataError):
        identity = json_value(first_line)
        return isinstance(identity, dict) and identity.keys() == _IDENTITY
    return False


class Journal:
    """The working file of a preparation, so that one that was killed can go on where it ended.

    Its first line says which preparation it is. Every other line is a row of the data set: five
    JSON texts with tabs between them, of id, problem, `solutions` at most or the reason, tests and
    dropped tests. `rows` counts these lines, `ids` are those of the problems. A torn last line is
    dropped; a file of another preparation is begun anew. Raises InvalidValueError where another
    process prepares into the same file.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any], *, solutions: int) -> None:
        self.path = path
        self._solutions = solutions
        self.rows = 0
        self.ids: set[str] = set()
        header = json.dumps(identity, sort_keys=True).encode() + b"\n"
        make_folder(path.parent)
        self._file = open_alone(path)
        self._file.seek(0)
        end = 0  # of what is kept, in bytes
        if self._file.readline() == header:
            end = len(header)
            for line in self._file:
                if not line.endswith(b"\n"):
                    break
                end += len(line)
                self._count(line.decode())
        self._file.truncate(end)
        if not end:
            self._file.write(header)
            self._file.flush()  # so that a kill leaves no file that may be anybody's

    def add(self, outcome: Converted) -> None:
        """Append the problem of a row of the data set, or why the row is left out."""
        fields: list[Any]
        if isinstance(outcome, LeftOut):
            fields = [outcome.row_id, None, dataclasses.asdict(outcome), 0, 0]
        else:
            problem = outcome.problem
            programs = [] if outcome.solution is None else [outcome.solution, *outcome.more]
            samples = [
                Sample(problem.id, number, program).to_json()
                for number, program in enumerate(programs[: self._solutions])
            ]
            fields = [problem.id, problem.to_json(), samples, len(problem.tests), outcome.dropped]
        line = "\t".join(map(json.dumps, fields)) + "\n"
        self._file.write(line.encode())
        self._count(line)

    def texts(self) -> Iterator[list[str]]:
        """Yield the five texts of every row, in the order of the file."""
        self._file.flush()
        with self.path.open() as lines:
            next(lines)
            yield from (line.rstrip("\n").split("\t") for line in lines)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _count(self, line: str) -> None:
        self.rows += 1
        name, problem, _ = line.split("\t", 2)
        if problem != "null":
            self.ids.add(json.loads(name))
