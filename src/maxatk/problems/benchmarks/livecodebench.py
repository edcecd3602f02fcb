"""LiveCodeBench (Jain et al. 2024), code generation: stdin/stdout and function-call problems."""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
from typing import Any

from maxatk.errors import InvalidValueError, suggestion
from maxatk.problems.benchmarks.base import (
    Benchmark,
    LeftOut,
    Row,
    RowOptions,
    SolvedProblem,
    Tests,
    stdin_tests,
)
from maxatk.problems.benchmarks.literals import json_literal
from maxatk.problems.benchmarks.private_tests import decode_tests
from maxatk.problems.benchmarks.prompts import render
from maxatk.records import Problem, TestCase

_LAST_RELEASE = 6
_RELEASES = tuple(
    f"{prefix}{number}" for prefix in ("release_v", "v") for number in range(1, _LAST_RELEASE + 1)
)
_TYPING = ("Any", "Callable", "Deque", "Dict", "Iterator", "List", "Optional", "Set", "Tuple")


@dataclasses.dataclass(frozen=True)
class Options(RowOptions):
    """Which problems are used.

    `release` "release_v6" is everything up to version 6, "v6" what version 6 added.
    `start_date` and `end_date` (YYYY-MM-DD, both inclusive) bound the date of the contest.
    """

    release: str = "release_v6"
    start_date: str | None = None
    end_date: str | None = None

    def __post_init__(self) -> None:
        if self.release not in _RELEASES:
            raise InvalidValueError(
                f"release: unknown value {self.release!r}; allowed: {', '.join(_RELEASES)}"
                f"{suggestion(self.release, _RELEASES)}"
            )
        for name in ("start_date", "end_date"):
            try:
                _date(getattr(self, name) or "2000-01-01")
            except ValueError as error:
                raise InvalidValueError(f"{name}: must be YYYY-MM-DD ({error})") from error


def convert(row: Row, options: Options | None = None) -> SolvedProblem | LeftOut:
    """Return the problem of a row; the rows carry no solutions."""
    options = options or Options()
    row_id = f"livecodebench/{row['question_id']}"
    date = _date(row["contest_date"])
    if options.start_date and date < _date(options.start_date):
        return LeftOut(row_id, f"its contest was before {options.start_date}")
    if options.end_date and date > _date(options.end_date):
        return LeftOut(row_id, f"its contest was after {options.end_date}")
    tests = test_cases(row, json.loads(row["metadata"] or "{}"))
    if isinstance(tests, str):
        return LeftOut(row_id, tests)
    starter = with_imports(row["starter_code"] or "") or None
    problem = Problem(
        id=row_id,
        prompt=render(
            "function" if starter else "stdin",
            row["question_content"],
            starter=starter,
            style=options.prompt_style,
        ),
        tests=tests,
        starter_code=starter,
        compare="lcb",
        source="livecodebench",
    )
    return SolvedProblem(problem=problem, solution=None)


def test_cases(row: Row, metadata: Row) -> Tests | str:
    """Return the public and private tests of a row, or the reason why there are none to use.

    Functional tests hold one JSON value for each argument, a line each; they become calls of the
    method `func_name` of the class Solution. Raises ValueError for corrupt tests.
    """
    cases = [
        *decode_tests(row["public_test_cases"]),
        *decode_tests(row["private_test_cases"]),
    ]
    kinds = {case["testtype"] for case in cases}
    if not cases:
        return "has no tests"
    if kinds == {"stdin"}:
        return stdin_tests((case["input"], case["output"]) for case in cases)
    if kinds != {"functional"}:
        return f"its tests are of the kinds {sorted(kinds)}"
    name = metadata.get("func_name")
    if not isinstance(name, str) or not name.isidentifier():
        return "its metadata names no function to call"
    return tuple(_call(case, name) for case in cases)


def _call(case: Row, name: str) -> TestCase:
    arguments = ", ".join(json_literal(line) for line in case["input"].split("\n"))
    return TestCase(call=f"Solution().{name}({arguments})", output=json_literal(case["output"]))


def with_imports(starter: str) -> str:
    """Return starter code with the import of the `typing` names it uses, which it leaves out."""
    used = [name for name in _TYPING if re.search(rf"\b{name}\b", starter)]
    if not used or "import" in starter:
        return starter
    return f"from typing import {', '.join(used)}\n\n{starter}"


def _date(value: Any) -> datetime.date:
    # Readers of JSON may have made a time stamp of the column's text.
    if isinstance(value, datetime.datetime):
        return value.date()
    return datetime.datetime.fromisoformat(str(value)[:10]).date()


def _files(_split: str, options: Options) -> list[str]:
    number = int(options.release[-1])
    first = 1 if options.release.startswith("release_") else number
    return [f"test{n if n > 1 else ''}.jsonl" for n in range(first, number + 1)]


BENCHMARK = Benchmark(
    hub="livecodebench/code_generation_lite",
    config=None,
    revision="0fe84c3912ea0c4d4a78037083943e8f0c4dd505",
    splits=("test",),
    licence="CC (version not stated)",
    size="4.5 GB, 1,055 rows in release_v6",
    convert=convert,
    options=Options,
    data_files=_files,
)
