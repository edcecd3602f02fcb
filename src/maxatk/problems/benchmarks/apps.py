"""APPS (Hendrycks et al. 2021): stdin/stdout problems and calls of a function.

Of the selection that MapCoder ships only the rows on stdin are: call arguments are text there.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from maxatk.bounded import BrokenJSONError, json_value
from maxatk.check import one_of, require
from maxatk.problems.benchmarks import base, columns
from maxatk.records import Problem, TestCase

_DIFFICULTIES = ("introductory", "interview", "competition")


@dataclasses.dataclass(frozen=True)
class Options(base.RowOptions):
    """`difficulty` keeps introductory, interview or competition rows (None: all)."""

    difficulty: str | None = None

    def __post_init__(self) -> None:
        if self.difficulty is not None:
            one_of("difficulty", self.difficulty, _DIFFICULTIES)


def convert(row: base.Row, options: Options | None = None) -> base.Converted:
    """Return the problem of a row of either schema."""
    options = options or Options()
    column = "problem_id" if "problem_id" in row else "id"
    row_id = f"apps/{columns.identity(row[column], column)}"
    if options.difficulty and row["difficulty"] != options.difficulty:
        return base.LeftOut(row_id, f"its difficulty is not {options.difficulty}")
    if "test_list" in row:
        return _selected(row, row_id, options)
    return _original(row, row_id, options)


def _original(row: base.Row, row_id: str, options: Options) -> base.Converted:
    """Return the problem of a row of the data set on the hub."""
    try:
        declared = base.read_json(row["input_output"] or "{}")
    except BrokenJSONError:
        raise
    except ValueError as error:  # some rows have an integer that is longer
        return base.LeftOut(row_id, str(error))
    if not declared.get("inputs") or not declared.get("outputs"):
        return base.LeftOut(row_id, "has no tests")
    pairs = columns.pairs(declared, "inputs", "outputs")
    name = declared.get("fn_name")
    starter = row["starter_code"] or None
    if name:
        function = f"Solution().{name}" if "class Solution" in (starter or "") else name
        try:
            tests = _calls(function, pairs)
        except ValueError as error:  # nan
            return base.LeftOut(row_id, f"a value has no literal ({error})")
    else:
        tests = base.stdin_tests((_text(stdin), _text(stdout)) for stdin, stdout in pairs)
    kind: base.Kind = "function" if name else "stdin"
    if name and options.language != "python":
        return base.LeftOut(row_id, "its tests call a function of Python")
    statement = row["question"] + (f"\n\nThe function is `{name}`." if name else "")
    prompt = base.render(
        kind,
        statement,
        starter=starter,
        style=options.prompt_style,
        language=options.language,
    )
    compare = "apps" if name else None  # returned tuples are lists, as in the official grader
    problem = Problem(
        row_id,
        prompt,
        tests,
        starter_code=starter,
        compare=compare,
        source="apps",
        language=options.asked_for,
    )
    in_python = options.language == "python"
    solutions = json_value(row["solutions"] or "[]") if in_python else []
    return base.solved(problem, solutions)


def _selected(row: base.Row, row_id: str, options: Options) -> base.Converted:
    """Return the problem of a row of MapCoder's selection."""
    if row["starter_code"]:
        return base.LeftOut(row_id, "its call arguments are text, which has no types")
    if any(len(test["output"]) != 1 for test in row["test_list"]):
        return base.LeftOut(row_id, "a test accepts several outputs or none")
    tests = base.stdin_tests((test["input"], _text(test["output"][0])) for test in row["test_list"])
    if not tests:
        return base.LeftOut(row_id, "has no tests")
    prompt = base.render(
        "stdin", row["description"], style=options.prompt_style, language=options.language
    )
    problem = Problem(row_id, prompt, tests, source="apps", language=options.asked_for)
    return base.SolvedProblem(problem, None)


def _calls(function: str, pairs: Sequence[tuple[Any, Any]]) -> base.Tests:
    """Return a test for each pair of arguments and value; raises ValueError as `python_literal`."""
    # A list of one item holds the value in most rows; in others it is the value.
    wrapped = all(isinstance(value, list) and len(value) == 1 for _, value in pairs)
    return tuple(
        _call(function, arguments, value[0] if wrapped else value) for arguments, value in pairs
    )


def _call(function: str, arguments: list[Any], value: Any) -> TestCase:
    # Of the arguments the official grader mends the keys of the first one alone.
    arguments = [*map(_with_integer_keys, arguments[:1]), *arguments[1:]]
    literals = ", ".join(base.python_literal(argument) for argument in arguments)
    expected = base.python_literal(_with_integer_keys(value))
    return TestCase(call=f"{function}({literals})", output=expected)


def _with_integer_keys(value: Any) -> Any:
    """Return a dict whose keys JSON made text with integers for keys, as the official grader."""
    if not isinstance(value, dict) or not all(re.fullmatch("-?[0-9]+", key) for key in value):
        return value
    return {int(key): item for key, item in value.items()}


def _text(value: Any) -> str:
    """Return the text of a standard stream, which may be given as a list of its lines."""
    if isinstance(value, str):
        return value
    lines = value if isinstance(value, list) else [None]
    are_lines = all(isinstance(line, (str, int, float)) for line in lines)
    require(are_lines, "a test", "a text or a list of lines", value)
    return "\n".join(map(str, lines)) + "\n"


BENCHMARK = base.Benchmark(
    hub="codeparrot/apps",
    revision="21e74ddf8de1a21436da12e3e653065c5213e9d1",
    splits=("train", "test"),
    licence="MIT",
    size="1.4 GB, 10,000 rows",
    convert=convert,
    options=Options,
    languages=base.ANY_LANGUAGE,
    data_files=lambda split, _options: [f"{split}.jsonl"],
)
