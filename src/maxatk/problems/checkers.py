"""Checkers of problems with several right answers: attached by id, from a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maxatk.bounded import read_text
from maxatk.errors import DataError, InvalidValueError, counted
from maxatk.jsonl import read_jsonl
from maxatk.problems.benchmarks.base import Checker, checker_fields, is_python
from maxatk.records import Problem
from maxatk.settings import refuse_unknown
from maxatk.verifier.languages import LANGUAGES
from maxatk.verifier.languages.compiled import has_main


def read_checkers(path: str | Path) -> dict[str, Checker]:
    """Return the checker by the id of its problem.

    A line of the file is {"id": ..., "checker": SOURCE}, or {"id": ..., "file": PATH} with a path
    relative to the file; "language": "cpp" says that it is in C++. Raises DataError for another
    line, an id that occurs twice, or a source that is not in its language; MissingFileError without
    a file.
    """
    folder = Path(path).parent
    checkers: dict[str, Checker] = {}
    for problem_id, checker in read_jsonl(path, lambda row: _checker(row, folder)):
        if problem_id in checkers:
            raise DataError(f"{path}: the id {problem_id!r} occurs twice")
        checkers[problem_id] = checker
    return checkers


def _checker(row: Mapping[str, Any], folder: Path) -> tuple[str, Checker]:
    refuse_unknown(row, ["id", "checker", "file", "language"], where="checker")
    if not isinstance(row.get("id"), str) or ("checker" in row) == ("file" in row):
        raise DataError(f"checker: got {sorted(row)}; needed: id, and either checker or file")
    if "checker" in row:
        source = row["checker"]
    else:
        file = folder / str(row["file"])
        if not file.is_file():
            raise DataError(f"checker: {str(file)!r} does not exist")
        source = read_text(file)
    language = row.get("language", "python")
    if language not in ("python", "cpp"):
        raise DataError(f"checker of {row['id']!r}: language must be python or cpp: {language!r}")
    is_program = is_python if language == "python" else has_main
    if not isinstance(source, str) or not is_program(source):
        title = LANGUAGES[language].title
        raise DataError(f"checker of {row['id']!r}: is not a program in {title}")
    return row["id"], Checker(source, language)


def with_checker(problem: Problem, checkers: Mapping[str, Checker]) -> Problem:
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
    fields = {"checker_language": None, **checker_fields(checkers[problem.id])}
    return dataclasses.replace(problem, **fields)


def refuse_strangers(checkers: Mapping[str, Checker], ids: set[str], *, source: str) -> None:
    """Raise DataError for a checker whose id is not that of a problem."""
    strangers = [problem_id for problem_id in checkers if problem_id not in ids]
    if strangers:
        raise DataError(
            f"{source}: {counted(len(strangers), 'checker')} of unknown problems, the first "
            f"{strangers[0]!r}"
        )
