"""The files that one preparation makes, and its working file, so that a kill costs nothing.

A line of the working file stands for a row of the data set. It is tab-separated JSON: ["K", id,
tests, dropped, solution, problem] for a problem that is kept, ["L", row id, reason] for a row left
out. The first line says which preparation it is.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from maxatk.errors import InvalidValueError
from maxatk.folders import atomic_write
from maxatk.problems.benchmarks.base import LeftOut, SolvedProblem


@dataclasses.dataclass(frozen=True)
class Outputs:
    """The files of one preparation: `problems` is named by the caller, the others lie beside it.

    `solutions` are samples that `maxatk score` reads; `left_out` lists the rows left out with the
    reason; `manifest` holds settings, counts and hashes.
    """

    problems: dict[str, Path]
    solutions: dict[str, Path]
    left_out: Path
    manifest: Path
    work: Path


def outputs(out: Path, parts: Iterable[str] = ()) -> Outputs:
    """Return the files of a preparation into `out`; with parts, one file for each: out-PART.jsonl.

    Raises InvalidValueError where `out` does not end in .jsonl.
    """
    if out.suffix != ".jsonl":
        raise InvalidValueError(f"out: {str(out)!r} must end in .jsonl")
    made = {name: out.with_name(f"{out.stem}-{name}.jsonl") for name in parts} or {"": out}
    return Outputs(
        problems=made,
        solutions={name: solutions_file(path) for name, path in made.items()},
        left_out=out.with_suffix(".left_out.jsonl"),
        manifest=out.with_suffix(".manifest.json"),
        work=out.with_suffix(".work"),
    )


def solutions_file(problems: Path) -> Path:
    """Return where the reference solutions of a problems file lie: X.solutions.jsonl beside X."""
    return problems.with_suffix(".solutions.jsonl")


def write_lines(path: Path, lines: Iterable[str]) -> dict[str, Any]:
    """Write a file that appears whole or not at all; return how many lines, and its SHA-256."""
    digest, written = hashlib.sha256(), 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as partial, partial.open("wb") as file:
        for line in lines:
            data = line.encode() + b"\n"
            digest.update(data)
            file.write(data)
            written += 1
    return {"lines": written, "sha256": digest.hexdigest()}


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


class Journal:
    """A context manager over the working file; what an earlier run left there is read first.

    `counts` and `ids` hold what the file says. A torn last line is dropped; a file of another
    preparation is begun anew.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        self.path = path
        self.counts = Counts()
        self.ids: set[str] = set()
        self._header = json.dumps(identity, sort_keys=True).encode() + b"\n"
        path.parent.mkdir(parents=True, exist_ok=True)
        end = self._resume() if path.is_file() else 0
        self._file = path.open("r+b" if end else "wb")
        self._file.truncate(end)
        self._file.seek(end)
        if not end:
            self._file.write(self._header)

    def keep(self, solved: SolvedProblem) -> None:
        """Append a problem."""
        problem, tests = solved.problem, len(solved.problem.tests)
        fields = [problem.id, tests, solved.dropped, solved.solution, problem.to_json()]
        self._append("K", fields)

    def leave_out(self, row: LeftOut) -> None:
        """Append a row that makes no problem."""
        self._append("L", [row.row_id, row.reason])

    def kept(self) -> Iterator[tuple[str, str, str | None]]:
        """Yield id, JSON text and reference solution of the kept problems in file order."""
        for problem_id, _, _, solution, problem in self._lines("K"):
            yield json.loads(problem_id), problem, json.loads(solution)

    def left_out(self) -> Iterator[LeftOut]:
        """Yield the rows left out in file order."""
        for fields in self._lines("L"):
            yield LeftOut(*map(json.loads, fields))

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _resume(self) -> int:
        """Count the whole lines of this preparation; return where they end, 0 for another's."""
        with self.path.open("rb") as lines:
            if lines.readline() != self._header:
                return 0
            end = len(self._header)
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                end += len(line)
                self._count(line.decode())
        return end

    def _append(self, kind: str, fields: list[Any]) -> None:
        line = "\t".join([kind, *map(json.dumps, fields)]) + "\n"
        self._file.write(line.encode())
        self._count(line)

    def _lines(self, kind: str) -> Iterator[list[str]]:
        """Yield the fields of every line of a kind, each as JSON text."""
        self._file.flush()
        with self.path.open("rb") as lines:
            for line in lines:
                if line.startswith(kind.encode() + b"\t"):
                    yield line.decode().rstrip("\n").split("\t")[1:]

    def _count(self, line: str) -> None:
        counts = self.counts
        counts.rows += 1
        kind, *fields = line.rstrip("\n").split("\t", 5)
        if kind == "L":
            counts.reasons[json.loads(fields[1])] += 1
            return
        problem_id, tests, dropped = map(json.loads, fields[:3])
        self.ids.add(problem_id)
        counts.kept += 1
        counts.tests += tests
        counts.duplicates += dropped
        counts.with_duplicates += dropped > 0
        counts.solutions += fields[3] != "null"
