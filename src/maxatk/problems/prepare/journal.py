"""The working file of a preparation: one line a row of the data set, so that a kill costs nothing.

A line is tab-separated JSON: ["K", id, tests, dropped, solution, problem] for a problem that is
kept, ["L", row id, reason] for a row left out. The first line says which preparation it is.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from maxatk.problems.benchmarks.base import LeftOut, SolvedProblem


@dataclasses.dataclass
class Counts:
    """What a preparation has seen so far.

    `tests` are those of the kept problems, after `duplicates` tests were dropped from
    `with_duplicates` of them; `reasons` counts the rows left out.
    """

    rows: int = 0
    kept: int = 0
    tests: int = 0
    duplicates: int = 0
    with_duplicates: int = 0
    solutions: int = 0
    reasons: Counter[str] = dataclasses.field(default_factory=Counter)


@dataclasses.dataclass(frozen=True)
class Kept:
    """A kept problem as its lines: parsed no further than needed to write it out."""

    problem_id: str
    problem: str
    solution: str | None


class Journal:
    """A context manager over the working file; what an earlier run left there is read first.

    `counts` and `ids` hold what the file says. A torn last line is dropped; a file of another
    preparation is begun anew.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        self.path = path
        self.counts = Counts()
        self.ids: set[str] = set()
        self._header = json.dumps(identity, sort_keys=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        end = self._resume() if path.is_file() else 0
        self._file = path.open("r+b" if end else "wb")
        self._file.truncate(end)
        self._file.seek(end)
        if not end:
            self._write(self._header)

    def keep(self, solved: SolvedProblem, *, dropped: int) -> None:
        """Append a problem; `dropped` counts the duplicate tests it had."""
        problem = solved.problem
        fields = [problem.id, len(problem.tests), dropped, solved.solution, problem.to_json()]
        self._write("\t".join(["K", *map(json.dumps, fields)]))
        self._count_kept(problem.id, len(problem.tests), dropped, solved.solution is not None)

    def leave_out(self, row: LeftOut) -> None:
        """Append a row that makes no problem."""
        self._write("\t".join(["L", json.dumps(row.row_id), json.dumps(row.reason)]))
        self._count_left_out(row)

    def kept(self) -> Iterator[Kept]:
        """Yield the kept problems in file order."""
        self._file.flush()
        with self.path.open("rb") as lines:
            for line in lines:
                if line.startswith(b"K\t"):
                    fields = line.decode().rstrip("\n").split("\t")
                    yield Kept(json.loads(fields[1]), fields[5], json.loads(fields[4]))

    def left_out(self) -> Iterator[LeftOut]:
        """Yield the rows left out in file order."""
        self._file.flush()
        with self.path.open("rb") as lines:
            for line in lines:
                if line.startswith(b"L\t"):
                    yield LeftOut(*map(json.loads, line.decode().split("\t")[1:]))

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _resume(self) -> int:
        """Count the whole lines of this preparation; return where they end, 0 for another's."""
        with self.path.open("rb") as lines:
            header = lines.readline()
            if header != (self._header + "\n").encode():
                return 0
            end = len(header)
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                end += len(line)
                self._count_line(line.decode())
        return end

    def _count_line(self, line: str) -> None:
        kind, *fields = line.rstrip("\n").split("\t")
        if kind == "L":
            self._count_left_out(LeftOut(*map(json.loads, fields)))
        else:
            problem_id, tests, dropped = map(json.loads, fields[:3])
            self._count_kept(problem_id, tests, dropped, fields[3] != "null")

    def _count_kept(self, problem_id: str, tests: int, dropped: int, solved: bool) -> None:
        self.ids.add(problem_id)
        counts = self.counts
        counts.rows += 1
        counts.kept += 1
        counts.tests += tests
        counts.duplicates += dropped
        counts.with_duplicates += dropped > 0
        counts.solutions += solved

    def _count_left_out(self, row: LeftOut) -> None:
        self.counts.rows += 1
        self.counts.reasons[row.reason] += 1

    def _write(self, line: str) -> None:
        self._file.write(line.encode() + b"\n")
