"""MBPP (Austin et al. 2021), in the stdin/stdout form of the paper or with its own asserts.

In the former an `assert f(arguments) == value` becomes a test: a Python literal an argument, a line
each on standard input, and the literal to print. Reference solutions get a driver for it.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import warnings
from typing import Literal

from maxatk.check import at_least
from maxatk.errors import DataError, InvalidValueError
from maxatk.problems.benchmarks import base, columns
from maxatk.problems.benchmarks.asserts import assert_check, names_called
from maxatk.records import Problem, TestCase

_DRIVER = """

import ast as _ast
import sys as _sys

print(repr({name}(*[_ast.literal_eval(line) for line in _sys.stdin.read().splitlines()])))
"""
_TESTS_FOLLOW = "It has to pass these tests:"
_STDIN_STATEMENT = """{text}

The program reads the arguments of the function `{name}` from standard input, one Python literal a
line, and prints the value as a Python literal.

Input:
{stdin}
Output:
{expected}"""


@dataclasses.dataclass(frozen=True)
class Options(base.RowOptions):
    """`form` is "stdin" (the paper's input/output format) or "asserts" (the original tests).

    With `visible_tests`, for the form "asserts", the prompt shows so many tests, which a program
    may be chosen by, and the reward counts the others alone; None shows and counts all of them.
    """

    form: Literal["stdin", "asserts"] = "stdin"
    visible_tests: int | None = None

    def __post_init__(self) -> None:
        if self.visible_tests is not None and self.form != "asserts":
            raise InvalidValueError(
                f"visible_tests: is for the form 'asserts', got form={self.form!r}"
            )
        # Without one the prompt would not say what the function is called.
        at_least("visible_tests", self.visible_tests, 1)


def convert(row: base.Row, options: Options | None = None) -> base.Converted:
    """Return the problem of a row in the form that `options` names; raise DataError for MBPP+."""
    options = options or Options()
    if isinstance(row.get("test"), str):
        raise DataError(
            "column 'test' holds the tests of MBPP+ (EvalPlus), which are not read; without that "
            "column the row is one of MBPP, with the fewer tests of 'test_list'"
        )
    columns.require_type(row, "test_list", list)
    text = row["text"] if "text" in row else row["prompt"]  # the sanitized configuration
    code = row["code"].replace("\r\n", "\n")
    row = {**row, "text": text.strip(), "code": code}
    row_id = f"mbpp/{columns.identity(row['task_id'], 'task_id')}"
    if options.form == "asserts":
        return _with_asserts(row, row_id, options)
    return _with_stdin(row, row_id, options)


def _with_stdin(row: base.Row, row_id: str, options: Options) -> base.Converted:
    calls = [_parse_assert(text) for text in row["test_list"]]
    parsed = [call for call in calls if call is not None]
    if not parsed or len(parsed) < len(calls):
        return base.LeftOut(row_id, "an assert is not of the form: f(literals) == literal")
    names = {name for name, _, _ in parsed}
    if len(names) != 1:
        return base.LeftOut(row_id, f"the asserts call {len(names)} different functions")
    name = names.pop()
    tests = base.stdin_tests((stdin, expected) for _, stdin, expected in parsed)
    statement = _STDIN_STATEMENT.format(
        text=row["text"], name=name, stdin=tests[0].input, expected=tests[0].output
    )
    prompt = base.render("stdin", statement, style=options.prompt_style)
    problem = Problem(row_id, prompt, tests, compare="literal", source="mbpp")
    return base.SolvedProblem(problem, row["code"] + _DRIVER.format(name=name))


def _with_asserts(row: base.Row, row_id: str, options: Options) -> base.Converted:
    code = row["code"]
    asserts = [text.strip() for text in row["test_list"]]
    imports_of_tests = row.get("test_imports") or ()
    setup = "\n".join([*imports_of_tests, row.get("test_setup_code") or ""]).strip()
    try:
        body = _parse(code).body
        imports = [node for node in body if isinstance(node, (ast.Import, ast.ImportFrom))]
        functions = {node.name for node in body if isinstance(node, ast.FunctionDef)}
        before = "\n".join([*map(ast.unparse, imports), setup]).strip()  # asserts use them too
        called = set().union(*[names_called(_parse(text)) for text in asserts])
        tested = functions & called
        foreign = _foreign_names("\n".join([before, *asserts])) - tested
    except SyntaxError:
        return base.LeftOut(row_id, "its code or an assert is not Python 3")
    if len(tested) != 1:
        return base.LeftOut(row_id, "the asserts do not call exactly one function of its code")
    if foreign:
        return base.LeftOut(row_id, "an assert uses a class that only the program has")
    in_prompt = options.visible_tests or len(asserts)
    if options.visible_tests and in_prompt >= len(asserts):
        return base.LeftOut(row_id, f"has no more tests than the {in_prompt} that are visible")
    name = tested.pop()
    statement = "\n".join([row["text"], "", _TESTS_FOLLOW, "", *asserts[:in_prompt]])
    checks = [TestCase(check=assert_check(text, name, before=before)) for text in asserts]
    not_rewarded = options.visible_tests or 0
    problem = Problem(
        row_id,
        base.render("function", statement, style=options.prompt_style),
        tuple(checks[not_rewarded:]),
        visible_tests=tuple(checks[:not_rewarded]),
        entry_point=name,
        source="mbpp",
    )
    return base.SolvedProblem(problem, f"{setup}\n\n{code}" if setup else code)


def _foreign_names(source: str) -> set[str]:
    """Return the names that `source` uses and does not define, but for builtins that it calls.

    Those cannot be handed over: a class cannot go to the program, which is another process.
    """
    names: list[ast.Name] = []
    bound: set[str] = set()
    called: set[ast.expr] = set()
    for node in ast.walk(_parse(source)):
        if isinstance(node, ast.Name):
            names.append(node)
            if isinstance(node.ctx, ast.Store):
                bound.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.Call):
            called.add(node.func)
    return {
        node.id
        for node in names
        if node.id not in bound and not (node in called and hasattr(builtins, node.id))
    }


def _parse(source: str) -> ast.Module:
    with warnings.catch_warnings():  # escapes such as "\\d" in old code warn, at no place of ours
        warnings.simplefilter("ignore")
        return ast.parse(source)


def _split_of(row: base.Row) -> str:
    """Return the split of a row, which is a range of ids (Austin et al. 2021, sec. 2.1)."""
    number = int(row["task_id"])
    for name, end in {"prompt": 10, "test": 510, "validation": 600, "train": 974}.items():
        if number <= end:
            return name
    raise ValueError(f"task_id must be at most 974, got {number}")


def _parse_assert(text: str) -> tuple[str, str, str] | None:
    """Return (function, stdin, expected stdout) of an assert, or None for another form."""
    try:
        match _parse(text.strip()).body[0]:
            case ast.Assert(
                test=ast.Compare(
                    left=ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]),
                    ops=[ast.Eq()],
                    comparators=[value],
                )
            ):
                values = [ast.literal_eval(node) for node in (*arguments, value)]
                *stdin_lines, expected = [f"{base.python_literal(v)}\n" for v in values]
                return name, "".join(stdin_lines), expected
    except (SyntaxError, IndexError, ValueError, TypeError):  # TypeError: what cannot be hashed
        pass
    return None


BENCHMARK = base.Benchmark(
    hub="google-research-datasets/mbpp",
    config="full",
    revision="4bb6404fdc6cacfda99d4ac4205087b89d32030c",
    splits=("train", "validation", "test", "prompt"),
    licence="CC BY 4.0",
    size="974 rows",
    convert=convert,
    options=Options,
    split_of=_split_of,
)
