"""LiveBench (White et al. 2024), coding: both of its tasks, generation and completion."""

from __future__ import annotations

from maxatk.problems.benchmarks import base, livecodebench

_TASKS = ("LCB_generation", "coding_completion")


def convert(row: base.Row, options: base.RowOptions | None = None) -> base.Converted:
    """Return the problem of a row; a completion, given in `starter_code`, is of a whole program."""
    row_id, task = f"livebench/{row['question_id']}", row["task"]
    if task not in _TASKS:
        return base.LeftOut(row_id, f"its task is {task!r}")
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
    chosen = options or base.RowOptions()
    return livecodebench.solved(row_id, given, chosen, partial=partial, solution=solution)


BENCHMARK = base.Benchmark(
    hub="livebench/coding",
    revision="a958549fdd8aa57be0a3fafe7b205ffc160ed5f4",
    splits=("test",),
    licence="not stated on its card",
    size="245 MB, 128 rows",
    convert=convert,
)
