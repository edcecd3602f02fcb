"""Problems from a problems.jsonl file."""

from __future__ import annotations

from pathlib import Path

from maxatk.errors import DataError
from maxatk.records import Problem, read_jsonl


def read_problems(path: str | Path) -> list[Problem]:
    """Return the problems of a file; ids must be unique.

    Raises MissingFileError without the file, DataError naming file and line for a bad row.
    """
    problems = list(read_jsonl(path, Problem.from_json))
    if not problems:
        raise DataError(f"{path}: holds no problems")
    seen: set[str] = set()
    for problem in problems:
        if problem.id in seen:
            raise DataError(f"{path}: the id {problem.id!r} occurs twice")
        seen.add(problem.id)
    return problems
