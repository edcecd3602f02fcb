"""Any table of one's own: questions with answers, or tasks with tests of any usual form."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

from maxatk.bounded import json_value
from maxatk.errors import DataError
from maxatk.problems.benchmarks import base
from maxatk.problems.benchmarks.mathematics import asked
from maxatk.records import Problem, TestCase
from maxatk.tables import MISSING, value_at

_FORMS = (
    'a list of {"input": "2", "output": "4"} (--map input=NAME output=NAME for other names), of '
    '{"call": "f(2)", "output": "4"}, or of texts such as "assert f(2) == 4"'
)


@dataclasses.dataclass(frozen=True)
class Options(base.RowOptions):
    """`hub` and `config` name a data set, where no file is given.

    The others say where the fields of a problem are in a row: a column, or a path into one such as
    `task.statement`. A prompt is a text, or a conversation of one user's turn after at most one of
    the system. `id` None is a digest of the prompt. `tests` are a list of objects, in which
    `input` and `output` have these names, or of asserts; without tests `input` and `output` are two
    columns, of texts or of lists. None is a column `tests`, if it holds a list. A row has an
    answer, tests or both. With `instruct` a sentence asks for a boxed answer. Further columns with
    a text or a number go into `meta`.
    """

    hub: str | None = None
    config: str | None = None
    prompt: str = "prompt"
    answer: str = "answer"
    id: str | None = None
    tests: str | None = None
    input: str | None = None
    output: str | None = None
    entry_point: str = "entry_point"
    solution: str = "solution"
    instruct: bool = False


def convert(row: base.Row, options: Options) -> base.Converted:
    """Return the problem of a row; raises KeyError for a path that leads nowhere."""
    prompt = _needed(row, options.prompt)
    text = _text_of(prompt)
    name = _digest(str(prompt)) if options.id is None else str(_needed(row, options.id))
    if text is None:
        return base.LeftOut(name, "its prompt is no text and no conversation of one user's turn")
    tests, called = _tests(row, options)
    answer = value_at(row, options.answer)
    if not tests:
        if answer is MISSING:
            _needed(row, options.answer)
        if answer in (None, ""):
            return base.LeftOut(name, "has no answer")
    entry_point = value_at(row, options.entry_point)
    solution = value_at(row, options.solution)
    problem = Problem(
        id=name,
        prompt=asked(text, options.prompt_style) if options.instruct else text,
        tests=tests,
        entry_point=entry_point if isinstance(entry_point, str) else called,
        answer=None if answer in (MISSING, None, "") else str(answer),
        source=options.hub or "table",
        meta=_meta(row, options),
    )
    return base.SolvedProblem(problem, solution if isinstance(solution, str) else None)


def _needed(row: base.Row, path: str) -> Any:
    value = value_at(row, path)
    if value is MISSING:
        raise KeyError(path)
    return value


def _meta(row: base.Row, options: Options) -> dict[str, Any]:
    """Return the columns that are no field of the problem and hold a text or a number."""
    fields = {getattr(options, field.name) for field in dataclasses.fields(Options)}
    return {
        str(column): value
        for column, value in row.items()
        if column not in fields and isinstance(value, (str, int, float))
    }


def _tests(row: base.Row, options: Options) -> tuple[base.Tests, str | None]:
    """Return the tests of a row, and the function that they call by its name if they do."""
    value = value_at(row, "tests") if options.tests is None else _needed(row, options.tests)
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        value = json_value(value)  # as a table keeps a list
    if options.tests is None and not isinstance(value, (list, Mapping)):
        if options.input is None or options.output is None:
            return (), None
        return _paired(_needed(row, options.input), _needed(row, options.output)), None
    if isinstance(value, str):
        value = value.strip().splitlines()
    if isinstance(value, Mapping):  # lists of inputs and outputs, as APPS has them
        inputs, outputs = (value_at(value, path) for path in _names(options))
        return _paired(inputs, outputs), None
    if not isinstance(value, list) or not value:
        raise DataError(f"tests: must be {_FORMS}; got {value!r:.60}")
    if all(isinstance(test, str) for test in value):
        return _asserts(value)
    return tuple(_test(test, options) for test in value), None


def _names(options: Options) -> tuple[str, str]:
    """Return the names of input and output inside a test."""
    return options.input or "input", options.output or "output"


def _test(test: Any, options: Options) -> TestCase:
    if not isinstance(test, Mapping):
        raise DataError(f"tests: must be {_FORMS}; got {test!r:.60}")
    pair = [value_at(test, path) for path in _names(options)]
    if MISSING not in pair:
        return TestCase(input=_printed(pair[0]), output=_printed(pair[1]))
    try:
        return TestCase.from_json(test)
    except ValueError as error:
        raise DataError(f"tests: must be {_FORMS}; got {test!r:.60}") from error


def _paired(inputs: Any, outputs: Any) -> base.Tests:
    """Return the tests of two columns: a text each, or lists of as many texts."""
    if inputs is MISSING or outputs is MISSING:
        raise DataError(f"tests: must be {_FORMS}")
    if not isinstance(inputs, list):
        inputs = [inputs]
    if not isinstance(outputs, list):
        outputs = [outputs]
    if len(inputs) != len(outputs):
        raise DataError(f"has {len(inputs)} inputs and {len(outputs)} outputs")
    pairs = zip(inputs, outputs, strict=True)
    return base.stdin_tests((_printed(stdin), _printed(stdout)) for stdin, stdout in pairs)


def _printed(value: Any) -> str:
    """Return the text of a standard stream: a list is its lines, and a number its digits."""
    if isinstance(value, list):
        return "".join(f"{line}\n" for line in value)
    return "" if value is None else str(value)


def _asserts(texts: list[str]) -> tuple[base.Tests, str]:
    """Return a check test of each assert, and the function that they call."""
    name = _called(texts)
    tests = []
    for text in texts:
        # The checker is a process of its own, where only `candidate` is the program's function.
        lines = ["def check(candidate):", f"    {name} = candidate"]
        lines += [f"    {line}" for line in text.strip().splitlines()]
        tests.append(TestCase(check="\n".join(lines) + "\n"))
    return tuple(tests), name


def _called(texts: list[str]) -> str:
    """Return the name that all asserts call; raises DataError where there is none."""
    shared: set[str] | None = None
    for text in texts:
        try:
            nodes = list(ast.walk(ast.parse(text.strip())))
        except (SyntaxError, ValueError, RecursionError) as error:
            raise DataError(f"an assert is no Python: {text!r:.60}") from error
        names = {
            node.func.id
            for node in nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        shared = names if shared is None else shared & names
    functions = sorted(name for name in shared or () if not hasattr(builtins, name))
    if len(functions) != 1:
        raise DataError(f"its asserts must all call one function, got {functions}")
    return functions[0]


def _text_of(prompt: Any) -> str | None:
    """Return a prompt as one text; None for a conversation with other turns."""
    if isinstance(prompt, str):
        return prompt
    turns = [(turn["role"], turn["content"]) for turn in prompt]
    if [role for role, _ in turns] not in (["user"], ["system", "user"]):
        return None
    return "\n\n".join(content for _, content in turns)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


BENCHMARK = base.Benchmark(
    hub="",
    splits=("train", "validation", "test"),
    default_split="train",
    licence="that of the table",
    size="any",
    convert=convert,
    options=Options,
)
