"""CodeContests (Li et al. 2022): stdin/stdout problems of programming contests."""

from __future__ import annotations

import dataclasses
from typing import Literal

from maxatk.check import at_least
from maxatk.problems.benchmarks import cure
from maxatk.problems.benchmarks.base import (
    Benchmark,
    LeftOut,
    Row,
    RowOptions,
    SolvedProblem,
    render,
    stdin_tests,
)
from maxatk.records import Problem
from maxatk.verifier.rules import rule

_PYTHON_3 = 3  # code of the language in the solutions column
_UNKNOWN = 0  # code of the difficulty


@dataclasses.dataclass(frozen=True)
class Options(RowOptions):
    """Which rows and tests are used.

    `max_difficulty` keeps rows up to that code of the `difficulty` column (None: all);
    `unknown_difficulty` says what then happens to rows of code 0. `generated_tests` counts the
    tests that mutation made among the tests. `compare` names a comparison rule (None: the
    verifier's own).
    """

    max_difficulty: int | None = None
    unknown_difficulty: Literal["keep", "leave_out"] = "keep"
    generated_tests: bool = True
    compare: str | None = None

    def __post_init__(self) -> None:
        at_least("max_difficulty", self.max_difficulty, 0)
        if self.compare is not None:
            rule(self.compare)


def convert(row: Row, options: Options | None = None) -> SolvedProblem | LeftOut:
    """Return the problem of a row; CURE's form of the rows is read too."""
    options = options or Options()
    if "question" in row and "test_input" in row:
        return _filtered(row, options) or cure.convert(row, options)
    name = row["name"]
    if row.get("input_file") or row.get("output_file"):
        return LeftOut(name, "reads or writes a file instead of standard input and output")
    left_out = _filtered(row, options)
    if left_out:
        return left_out
    columns = ["public_tests", "private_tests"]
    if options.generated_tests:
        columns.append("generated_tests")
    tests = stdin_tests(
        (given, expected)
        for column in columns
        for given, expected in zip(row[column]["input"], row[column]["output"], strict=True)
    )
    if not tests:
        return LeftOut(name, "has no tests")
    problem = Problem(
        id=f"code_contests/{name}",
        prompt=render("stdin", row["description"], style=options.prompt_style),
        tests=tests,
        time_limit_s=_seconds(row.get("time_limit")),
        memory_limit_mb=(row.get("memory_limit_bytes") or 0) >> 20 or None,
        compare=options.compare,
        source="code_contests",
    )
    return SolvedProblem(problem=problem, solution=_python_solution(row))


def _filtered(row: Row, options: Options) -> LeftOut | None:
    if options.max_difficulty is None:
        return None
    row_id = str(row.get("name") or f"cure/{row.get('task_id')}")
    difficulty = row["difficulty"]
    if isinstance(difficulty, bool) or not isinstance(difficulty, int):
        raise TypeError(f"column 'difficulty' must be a number, got {difficulty!r}")
    if difficulty == _UNKNOWN and options.unknown_difficulty == "leave_out":
        return LeftOut(row_id, "its difficulty is unknown")
    if difficulty > options.max_difficulty:
        return LeftOut(row_id, f"its difficulty is above {options.max_difficulty}")
    return None


def _seconds(limit: Row | None) -> float | None:
    if limit is None:
        return None
    return limit["seconds"] + limit.get("nanos", 0) / 1e9 or None


def _python_solution(row: Row) -> str | None:
    solutions = row["solutions"]
    pairs = zip(solutions["language"], solutions["solution"], strict=True)
    return next((text for language, text in pairs if language == _PYTHON_3), None)


BENCHMARK = Benchmark(
    hub="deepmind/code_contests",
    revision="802411c3010cb00d1b05bad57ca77365a3c699d6",
    splits=("train", "valid", "test"),
    licence="CC BY 4.0",
    size="7.6 GB",
    convert=convert,
    options=Options,
    unused=("incorrect_solutions", "untranslated_description"),
)
