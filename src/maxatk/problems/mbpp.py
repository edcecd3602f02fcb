"""MBPP (Austin et al. 2021) in the stdin/stdout form of the paper.

Every `assert f(arguments) == value` becomes a test: one Python literal an argument, each on a
line of standard input, and the literal the program must print. Reference solutions get the few
lines that read the arguments and print the value.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from maxatk.problems.rows import LeftOut, SolvedProblem
from maxatk.records import Problem, TestCase

HUB = ("google-research-datasets/mbpp", "full")
SPLITS = ("train", "validation", "test", "prompt")

_DRIVER = """

import ast as _ast
import sys as _sys

print(repr({name}(*[_ast.literal_eval(line) for line in _sys.stdin.read().splitlines()])))
"""
_PROMPT = """{text}

Write a Python program. It reads the arguments of the function `{name}` from standard input, one
Python literal a line, and prints the value as a Python literal.

Input:
{given}
Output:
{expected}
"""


def convert(row: Mapping[str, Any]) -> SolvedProblem | LeftOut:
    """Return the stdin/stdout problem of a row; one whose asserts are no such calls is left out."""
    row_id = f"mbpp/{row['task_id']}"
    calls = [call for text in row["test_list"] if (call := _parse_assert(text))]
    if not calls or len(calls) < len(row["test_list"]):
        return LeftOut(row_id, "an assert is not of the form: f(literals) == literal")
    names = {name for name, _, _ in calls}
    if len(names) != 1:
        return LeftOut(row_id, f"the asserts call {len(names)} different functions")
    name = names.pop()
    tests = tuple(TestCase(input=given, output=expected) for _, given, expected in calls)
    prompt = _PROMPT.format(
        text=row["text"], name=name, given=tests[0].input, expected=tests[0].output
    )
    problem = Problem(id=row_id, prompt=prompt, tests=tests, compare="literal", source="mbpp")
    code = row["code"].replace("\r\n", "\n")
    return SolvedProblem(problem=problem, solution=code + _DRIVER.format(name=name))


def _parse_assert(text: str) -> tuple[str, str, str] | None:
    """Return (function, stdin, expected stdout) of an assert, or None for another form."""
    try:
        statement = ast.parse(text.strip()).body[0]
    except (SyntaxError, IndexError):
        return None
    match statement:
        case ast.Assert(
            test=ast.Compare(
                left=ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]),
                ops=[ast.Eq()],
                comparators=[value],
            )
        ):
            pass
        case _:
            return None
    literals = [_literal(node) for node in (*arguments, value)]
    if None in literals:
        return None
    return name, "".join(f"{given}\n" for given in literals[:-1]), f"{literals[-1]}\n"


def _literal(node: ast.expr) -> str | None:
    try:
        return repr(ast.literal_eval(node))
    except ValueError:
        return None
