"""Checkers of problems with several right answers: attached by id, from a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maxatk.bounded import read_text
from maxatk.errors import DataError, InvalidValueError
from maxatk.jsonl import read_jsonl
from maxatk.problems.benchmarks.base import is_python
from maxatk.records import Problem
from maxatk.settings import refuse_unknown


def read_checkers(path: str | Path) -> dict[str, str]:
    """Return the source of a checker by the id of its problem.

    A line of the file is {"id": ..., "checker": SOURCE}, or {"id": ..., "file": PATH} with a path
    relative to the file. Raises DataError for another line, an id that occurs twice, or a source
    that is not Python; MissingFileError without a file.
    """
    folder = Path(path).parent
    checkers: dict[str, str] = {}
    for problem_id, source in read_jsonl(path, lambda row: _checker(row, folder)):
        if problem_id in checkers:
            raise DataError(f"{path}: the id {problem_id!r} occurs twice")
        checkers[problem_id] = source
    return checkers


def _checker(row: Mapping[str, Any], folder: Path) -> tuple[str, str]:
    refuse_unknown(row, ["id", "checker", "file"], where="checker")
    if not isinstance(row.get("id"), str) or ("checker" in row) == ("file" in row):
        raise DataError(f"checker: got {sorted(row)}; needed: id, and either checker or file")
    if "checker" in row:
        source = row["checker"]
    else:
        file = folder / str(row["file"])
        if not file.is_file():
            raise DataError(f"checker: {str(file)!r} does not exist")
        source = read_text(file)
    if not isinstance(source, str) or not is_python(source):
        raise DataError(f"checker of {row['id']!r}: is not a program in Python 3")
    return row["id"], source


def with_checker(problem: Problem, checkers: Mapping[str, str]) -> Problem:
    """Return a problem with the checker of its id, if there is one.

    Raises InvalidValueError where its tests are no pairs of input and output.
    """
    if problem.id not in checkers:
        return problem
    if any(test.input is None for test in problem.tests):
        raise InvalidValueError(
            f"checkers: {problem.id!r} has tests that call a function; a checker reads what is "
            "printed"
        )
    return dataclasses.replace(problem, compare="checker", checker=checkers[problem.id])


def refuse_strangers(checkers: Mapping[str, str], ids: set[str], *, source: str) -> None:
    """Raise DataError for a checker whose id is not that of a problem."""
    strangers = [problem_id for problem_id in checkers if problem_id not in ids]
    if strangers:
        raise DataError(
            f"{source}: {len(strangers)} checkers of unknown problems, the first {strangers[0]!r}"
        )
