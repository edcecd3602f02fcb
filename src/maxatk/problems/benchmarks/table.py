"""Any table of one's own: questions with answers, or tasks with tests of any usual form."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from maxatk.bounded import json_value
from maxatk.errors import DataError, counted
from maxatk.problems.benchmarks import asserts, base, columns
from maxatk.problems.benchmarks.mathematics import asked
from maxatk.records import Problem, TestCase
from maxatk.table_files import MISSING, value_at

_FORMS = (
    'a list of {"input": "2", "output": "4"} (--map input=NAME output=NAME for other names), of '
    '{"call": "f(2)", "output": "4"}, or of texts such as "assert f(2) == 4"'
)
_ID = "id"  # the column that names a row where no other is said to
# How the tests of APPS, TACO, LiveCodeBench and what was made of them say that an input is the
# arguments of a function: by its name, or by a kind of test.
_FUNCTION = ("fn_name", "func_name")
_KIND = ("type", "testtype")
_CALLS = ("functional", "function_call")


@dataclasses.dataclass(frozen=True)
class Options(base.RowOptions):
    """`hub` and `config` name a data set, where no file is given.

    The others say where the fields of a problem are in a row: a column, or a path into one such as
    `task.statement`. A prompt is a text, or a conversation of one user's turn after at most one of
    the system. `id` None is a column `id`, or a digest of the prompt where a row has none. `tests`
    are a list of objects, in which `input` and `output` have these names, or of asserts; without
    tests `input` and `output` are two columns, of texts or of lists. None is a column `tests`, if
    it holds a list. A row has an answer, tests or both. With `instruct` a sentence asks for a boxed
    answer. Further columns with a text or a number go into `meta`.
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
    name = _name(row, options, prompt)
    if text is None:
        return base.LeftOut(name, "its prompt is no text and no conversation of one user's turn")
    solution = value_at(row, options.solution)
    if not isinstance(solution, str):
        solution = None
    declared = _declared_tests(row, options)
    # In a table of both kinds a row with an answer has an empty list for its tests.
    is_question = not declared and not _is_absent(value_at(row, options.answer))
    tests = _Tests() if is_question else _tests(declared, row, options, solution)
    if tests.unusable:
        return base.LeftOut(name, tests.unusable)
    answer = _answer(row, options, is_needed=not tests.tests)
    if not tests.tests and answer is None:
        return base.LeftOut(name, "has no answer")
    entry_point = value_at(row, options.entry_point)
    # The name of a class alone does not say which method the asserts call.
    if not isinstance(entry_point, str) or "()." in (tests.called or ""):
        entry_point = tests.called
    problem = Problem(
        id=name,
        prompt=asked(text, options.prompt_style) if options.instruct else text,
        tests=tests.tests,
        entry_point=entry_point,
        answer=answer,
        source=options.hub or "table",
        meta=_meta(row, options, without_tests=declared is not MISSING),
    )
    return base.SolvedProblem(problem, solution)


def _answer(row: base.Row, options: Options, *, is_needed: bool) -> str | None:
    """Return the answer of a row as text, of a list with one value that value; None for none.

    Raises DataError for several values and for an object, and KeyError without a column of answers
    where one `is_needed`.
    """
    value = _needed(row, options.answer) if is_needed else value_at(row, options.answer)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if _is_absent(value):
        return None
    if isinstance(value, (list, Mapping)):
        raise DataError(
            f"{options.answer}: must be a text or a number for an answer, got {value!r:.60}; "
            f"--map answer={options.answer}.PLACE takes one of its values"
        )
    return str(value)


def _is_absent(value: Any) -> bool:
    """Say whether a value is what a column has for a row that has none."""
    return value is MISSING or _is_nan(value) or value in (None, "", [])


def _is_nan(value: Any) -> bool:
    """Say whether a value is what a column of numbers has where one is missing."""
    return isinstance(value, float) and math.isnan(value)


def _name(row: base.Row, options: Options, prompt: Any) -> str:
    """Return what a row is called: by the column that was named, by its `id`, or by its prompt."""
    if options.id is not None:
        return columns.identity(_needed(row, options.id), options.id)
    value = row.get(_ID)
    return str(value) if columns.is_name(value) else _digest(str(prompt))


def _needed(row: base.Row, path: str) -> Any:
    value = value_at(row, path)
    if value is MISSING:
        raise KeyError(path)
    return value


def _meta(row: base.Row, options: Options, *, without_tests: bool) -> dict[str, Any]:
    """Return the columns that are no field of the problem and hold a text or a number."""
    fields = {getattr(options, field.name) for field in dataclasses.fields(Options)}
    if options.id is None:
        fields.add(_ID)
    if without_tests and options.tests is None:
        fields.add("tests")
    return {
        str(column): value
        for column, value in row.items()
        if column not in fields and isinstance(value, (str, int, float)) and not _is_nan(value)
    }


class _Tests(NamedTuple):
    """The tests of a row, what its asserts call, and the reason why they cannot be used."""

    tests: base.Tests = ()
    called: str | None = None
    unusable: str = ""


def _declared_tests(row: base.Row, options: Options) -> Any:
    """Return what a row has for `tests`, MISSING where a column of that name has something else."""
    value = value_at(row, "tests") if options.tests is None else _needed(row, options.tests)
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        value = json_value(value)  # as a table keeps a list
    if options.tests is None and not isinstance(value, (list, Mapping)):
        return MISSING
    return value


def _tests(value: Any, row: base.Row, options: Options, solution: str | None) -> _Tests:
    """Return the tests of a row, which declares `value`.

    `solution` is a right program, where there is one.
    """
    if value is MISSING:
        if options.input is None or options.output is None:
            return _Tests()
        return _Tests(_paired(_needed(row, options.input), _needed(row, options.output)))
    if isinstance(value, str):
        value = asserts.statements(value.strip())
    tests = value if isinstance(value, list) else [value]
    if any(_has_arguments(test) for test in tests):
        return _Tests(unusable="its inputs are the arguments of a function, and no text to read")
    if isinstance(value, Mapping):  # lists of inputs and outputs, as APPS has them
        names = _names(options)
        inputs, outputs = (value_at(value, path) for path in names)
        if inputs is MISSING or outputs is MISSING:
            listed = ", ".join(map(str, value))
            raise DataError(
                f"tests: must have {names[0]!r} and {names[1]!r}, got {listed}; "
                "--map input=NAME output=NAME says which they are"
            )
        return _Tests(_paired(inputs, outputs))
    if not isinstance(value, list) or not value:
        raise DataError(f"tests: must be {_FORMS}; got {value!r:.60}")
    if all(isinstance(test, str) for test in value):
        return _asserts(value, solution)
    return _Tests(tuple(_test(test, options) for test in value))


def _names(options: Options) -> tuple[str, str]:
    """Return the names of input and output inside a test."""
    return options.input or "input", options.output or "output"


def _has_arguments(test: Any) -> bool:
    """Say whether inputs are what a function is called with, as an object of tests says."""
    if not isinstance(test, Mapping):
        return False
    is_named = any(test.get(name) for name in _FUNCTION)
    return is_named or any(test.get(name) in _CALLS for name in _KIND)


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
    if not isinstance(inputs, list):
        inputs = [inputs]
    if not isinstance(outputs, list):
        outputs = [outputs]
    if len(inputs) != len(outputs):
        raise DataError(
            f"has {counted(len(inputs), 'input')} and {counted(len(outputs), 'output')}"
        )
    pairs = zip(inputs, outputs, strict=True)
    return base.stdin_tests((_printed(stdin), _printed(stdout)) for stdin, stdout in pairs)


def _printed(value: Any) -> str:
    """Return the text of a standard stream: a list is its lines, and a number its digits.

    Raises DataError for a list of lists, or of objects: nothing says how they are written.
    """
    if value is None:
        return ""
    lines = value if isinstance(value, list) else [value]
    if any(line is None or isinstance(line, (list, Mapping)) for line in lines):
        raise DataError(f"tests: must have texts for input and output, got {value!r:.60}")
    return "".join(f"{line}\n" for line in lines) if isinstance(value, list) else str(value)


def _asserts(texts: Sequence[str], solution: str | None) -> _Tests:
    """Return a check test of each assert, and the function or method that they call."""
    texts = [text.strip() for text in texts]
    name = asserts.called(texts, solution)
    if name is None:
        return _Tests(unusable="an assert uses an object of the program's own class")
    return _Tests(tuple(TestCase(check=asserts.assert_check(text, name)) for text in texts), name)


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
