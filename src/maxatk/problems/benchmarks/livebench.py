"""LiveBench (White et al. 2024), coding: both of its tasks, generation and completion."""

from __future__ import annotations

import dataclasses
import json
from typing import Literal

from maxatk.problems.benchmarks.base import (
    Benchmark,
    LeftOut,
    Row,
    RowOptions,
    SolvedProblem,
    render,
)
from maxatk.problems.benchmarks.livecodebench import test_cases, with_imports
from maxatk.records import Problem

_TASKS = ("LCB_generation", "coding_completion")


@dataclasses.dataclass(frozen=True)
class Options(RowOptions):
    """`task` is one of the two tasks, or "both"."""

    task: Literal["both", "LCB_generation", "coding_completion"] = "both"


def convert(row: Row, options: Options | None = None) -> SolvedProblem | LeftOut:
    """Return the problem of a row.

    A completion asks for the whole program, so that the answer is verified as it is; `starter_code`
    holds the part that is given.
    """
    options = options or Options()
    row_id, task = f"livebench/{row['question_id']}", row["task"]
    if task not in _TASKS:
        return LeftOut(row_id, f"its task is {task!r}")
    if options.task not in ("both", task):
        return LeftOut(row_id, f"its task is not {options.task}")
    original = row["original_json"]
    tests = test_cases(row, json.loads(original.get("metadata") or "{}"))
    if isinstance(tests, str):
        return LeftOut(row_id, tests)
    partial = (row.get("partial_solution") or "").rstrip()
    if task == "coding_completion" and not partial:
        return LeftOut(row_id, "it is a completion without a given part")
    starter = partial or with_imports(original.get("starter_code") or "") or None
    kind: Literal["stdin", "function", "completion"] = "function" if starter else "stdin"
    problem = Problem(
        id=row_id,
        prompt=render(
            "completion" if partial else kind,
            original["question_content"],
            starter=starter,
            style=options.prompt_style,
        ),
        tests=tests,
        starter_code=starter,
        compare="lcb",
        source="livebench",
    )
    return SolvedProblem(problem=problem, solution=_solution(row, partial))


def _solution(row: Row, partial: str) -> str | None:
    if row.get("solution"):
        return str(row["solution"])
    return f"{partial}\n{row['remainder']}" if partial and row.get("remainder") else None


BENCHMARK = Benchmark(
    hub="livebench/coding",
    revision="a958549fdd8aa57be0a3fafe7b205ffc160ed5f4",
    splits=("test",),
    licence="not stated on its card",
    size="245 MB, 128 rows",
    convert=convert,
    options=Options,
)
