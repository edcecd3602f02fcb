"""The files that one preparation makes, and how they are written."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from maxatk.errors import InvalidValueError
from maxatk.folders import atomic_write


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


def outputs(
    out: Path, parts: Iterable[str] = (), *, solutions: str | Path | None = None
) -> Outputs:
    """Return the files of a preparation into `out`; with parts, one file for each: out-PART.jsonl.

    Raises InvalidValueError where `out` does not end in .jsonl, or a solutions file is named for
    more than one part.
    """
    if out.suffix != ".jsonl":
        raise InvalidValueError(f"out: {str(out)!r} must end in .jsonl")
    names = list(parts)
    if names and solutions is not None:
        raise InvalidValueError("solutions: names one file, but there are several parts; leave out")
    made = {name: out.with_name(f"{out.stem}-{name}.jsonl") for name in names} or {"": out}
    return Outputs(
        problems=made,
        solutions={
            name: Path(solutions) if solutions is not None else solutions_file(path)
            for name, path in made.items()
        },
        left_out=out.with_suffix(".left_out.jsonl"),
        manifest=out.with_suffix(".manifest.json"),
        work=out.with_suffix(".work"),
    )


def solutions_file(problems: Path) -> Path:
    """Return where the reference solutions of a problems file lie: X.solutions.jsonl beside X."""
    return problems.with_suffix(".solutions.jsonl")


class LineFile:
    """A context manager that writes lines to a file which appears whole or not at all."""

    def __init__(self, path: Path) -> None:
        self.path, self.count = path, 0
        self._digest = hashlib.sha256()
        self._open = contextlib.ExitStack()

    @property
    def sha256(self) -> str:
        """Return the hash of what was written."""
        return self._digest.hexdigest()

    def write(self, line: str) -> None:
        """Append one line."""
        data = line.encode() + b"\n"
        self._digest.update(data)
        self._file.write(data)
        self.count += 1

    def __enter__(self) -> LineFile:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._open.enter_context(atomic_write(self.path))
        self._file = self._open.enter_context(partial.open("wb"))
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)
