"""LiveBench (White et al. 2024), coding: both of its tasks, generation and completion."""

from __future__ import annotations

import dataclasses
from typing import Literal

from maxatk.problems.benchmarks import base, livecodebench

_TASKS = ("LCB_generation", "coding_completion")


@dataclasses.dataclass(frozen=True)
class Options(base.RowOptions):
    """`task` is one of the two tasks, or "both"."""

    task: Literal["both", "LCB_generation", "coding_completion"] = "both"


def convert(row: base.Row, options: Options | None = None) -> base.Converted:
    """Return the problem of a row.

    A completion asks for the whole program, so that the answer is verified as it is; `starter_code`
    holds the part that is given.
    """
    options = options or Options()
    row_id, task = f"livebench/{row['question_id']}", row["task"]
    if task not in _TASKS:
        return base.LeftOut(row_id, f"its task is {task!r}")
    if options.task not in ("both", task):
        return base.LeftOut(row_id, f"its task is not {options.task}")
    partial = (row.get("partial_solution") or "").rstrip()
    if task == "coding_completion" and not partial:
        return base.LeftOut(row_id, "it is a completion without a given part")
    original = row["original_json"]
    given = {
        **row,
        "question_content": original["question_content"],
        "starter_code": original.get("starter_code"),
        "metadata": original.get("metadata"),
    }
    solution = f"{partial}\n{row['remainder']}" if partial and row.get("remainder") else None
    solution = str(row["solution"]) if row.get("solution") else solution
    return livecodebench.solved(row_id, given, options, partial=partial, solution=solution)


BENCHMARK = base.Benchmark(
    hub="livebench/coding",
    revision="a958549fdd8aa57be0a3fafe7b205ffc160ed5f4",
    splits=("test",),
    licence="not stated on its card",
    size="245 MB, 128 rows",
    convert=convert,
    options=Options,
)
