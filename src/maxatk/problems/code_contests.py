"""CodeContests (Li et al. 2022): stdin/stdout problems of programming contests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maxatk.problems.rows import LeftOut, SolvedProblem
from maxatk.records import Problem, TestCase

HUB = ("deepmind/code_contests", None)
SPLITS = ("train", "valid", "test")
_TEST_COLUMNS = ("public_tests", "private_tests", "generated_tests")
_PYTHON_3 = 3  # code of the language in the solutions column


def convert(row: Mapping[str, Any]) -> SolvedProblem | LeftOut:
    """Return the problem of a row; one that reads or writes files, or has no tests, is left out."""
    name = row["name"]
    if row.get("input_file") or row.get("output_file"):
        return LeftOut(name, "reads or writes a file instead of standard input and output")
    tests = tuple(
        TestCase(input=given, output=expected)
        for column in _TEST_COLUMNS
        for given, expected in zip(row[column]["input"], row[column]["output"], strict=True)
    )
    if not tests:
        return LeftOut(name, "has no tests")
    problem = Problem(
        id=f"code_contests/{name}",
        prompt=row["description"],
        tests=tests,
        time_limit_s=_seconds(row.get("time_limit")),
        memory_limit_mb=(row.get("memory_limit_bytes") or 0) >> 20 or None,
        source="code_contests",
    )
    return SolvedProblem(problem=problem, solution=_python_solution(row))


def _seconds(limit: Mapping[str, int] | None) -> float | None:
    if limit is None:
        return None
    return limit["seconds"] + limit.get("nanos", 0) / 1e9 or None


def _python_solution(row: Mapping[str, Any]) -> str | None:
    solutions = row["solutions"]
    pairs = zip(solutions["language"], solutions["solution"], strict=True)
    return next((text for language, text in pairs if language == _PYTHON_3), None)
