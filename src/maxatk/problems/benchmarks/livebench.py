"""LiveBench (White et al. 2024), coding: both of its tasks, generation and completion."""

from __future__ import annotations

from maxatk.problems.benchmarks import base, columns, livecodebench

_TASKS = ("LCB_generation", "coding_completion")


def convert(row: base.Row, options: base.RowOptions | None = None) -> base.Converted:
    """Return the problem of a row; a completion, given in `starter_code`, is of a whole program."""
    options = options or base.RowOptions()
    row_id = f"livebench/{columns.identity(row['question_id'], 'question_id')}"
    task = row["task"]
    if task not in _TASKS:
        return base.LeftOut(row_id, f"its task is {task!r}")
    partial = (row.get("partial_solution") or "").rstrip()
    if task == "coding_completion" and not partial:
        return base.LeftOut(row_id, "it is a completion without a given part")
    original = row["original_json"]
    livecodebench_row = {
        **row,
        "question_content": original["question_content"],
        "starter_code": original.get("starter_code"),
        "metadata": original.get("metadata"),
    }
    solution = None
    if row.get("solution"):
        solution = row["solution"]
    elif partial and row.get("remainder"):
        solution = f"{partial}\n{row['remainder']}"
    return livecodebench.solved(
        row_id, livecodebench_row, options, partial=partial, solution=solution
    )


BENCHMARK = base.Benchmark(
    hub="livebench/coding",
    revision="a958549fdd8aa57be0a3fafe7b205ffc160ed5f4",
    splits=("test",),
    licence="not stated on its card",
    size="245 MB, 128 rows",
    convert=convert,
)
