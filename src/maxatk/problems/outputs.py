"""The files that one preparation makes, and its working file, so that a kill costs nothing."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from maxatk.errors import InvalidValueError
from maxatk.problems.benchmarks.base import Converted, LeftOut
from maxatk.records import Sample


@dataclasses.dataclass(frozen=True)
class Outputs:
    """The files of one preparation: `problems` by part, named by the caller, and what lies beside.

    `left_out` lists the rows left out with the reason; `manifest` holds settings, counts, hashes.
    """

    problems: dict[str, Path]
    left_out: Path
    manifest: Path
    work: Path

    @property
    def data(self) -> list[Path]:
        """All files but the manifest."""
        problems = self.problems.values()
        return [*problems, *map(solutions_file, problems), self.left_out]


def outputs(out: Path, parts: Iterable[str] = ()) -> Outputs:
    """Return the files of a preparation into `out`; with parts, one file for each: out-PART.jsonl.

    Raises InvalidValueError where `out` does not end in .jsonl.
    """
    if out.suffix != ".jsonl":
        raise InvalidValueError(f"out: {str(out)!r} must end in .jsonl")
    return Outputs(
        {name: out.with_name(f"{out.stem}-{name}.jsonl") for name in parts} or {"": out},
        left_out=out.with_suffix(".left_out.jsonl"),
        manifest=out.with_suffix(".manifest.json"),
        work=out.with_suffix(".work"),
    )


def solutions_file(problems: Path) -> Path:
    """Return where the reference solutions of a problems file lie: X.solutions.jsonl beside X."""
    return problems.with_suffix(".solutions.jsonl")


class Journal:
    """A context manager over the working file; what an earlier run left there is read first.

    Its first line says which preparation it is, every other is a row of the data set: five JSON
    texts with tabs between them, of id, problem, solution or reason, tests and dropped tests. A
    torn last line is dropped; a file of another preparation is begun anew. `rows` and `ids` are
    those of the file.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        self.path, self.rows, self.ids = path, 0, set[str]()
        header = json.dumps(identity, sort_keys=True).encode() + b"\n"
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+b")
        self._file.seek(0)
        end = 0
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

    def add(self, row: Converted) -> None:
        """Append what a row of the data set has become."""
        fields: list[Any]
        if isinstance(row, LeftOut):
            fields = [row.row_id, None, dataclasses.asdict(row), 0, 0]
        else:
            problem, solution = row.problem, row.solution
            sample = None if solution is None else Sample(problem.id, 0, solution).to_json()
            fields = [problem.id, problem.to_json(), sample, len(problem.tests), row.dropped]
        line = "\t".join(map(json.dumps, fields)) + "\n"
        self._file.write(line.encode())
        self._count(line)

    def texts(self) -> Iterator[list[str]]:
        """Yield the five texts of every row, in the order of the file."""
        self._file.flush()
        with self.path.open() as lines:
            next(lines)
            yield from (line.rstrip("\n").split("\t") for line in lines)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _count(self, line: str) -> None:
        self.rows += 1
        name, problem, _ = line.split("\t", 2)
        if problem != "null":
            self.ids.add(json.loads(name))
