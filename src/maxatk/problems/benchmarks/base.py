"""What a benchmark is, what its rows become, and the wording of its prompts.

What would be the system's turn is a prompt's first sentence: many templates have one of their own.
"""

from __future__ import annotations

import ast
import dataclasses
import decimal
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from maxatk.bounded import json_value
from maxatk.check import require
from maxatk.records import Problem, TestCase
from maxatk.verifier.languages import LANGUAGES
from maxatk.verifier.languages.compiled import has_main

Row: TypeAlias = Mapping[str, Any]

PROMPTS_VERSION = "1"
"""Part of every manifest: raised whenever a wording changes, because that changes results."""

Style: TypeAlias = Literal["chat", "plain"]
Kind: TypeAlias = Literal["stdin", "function", "completion"]
ANY_LANGUAGE = tuple(LANGUAGES)
"""What a benchmark may ask for whose tests are inputs and outputs."""

MOST_DIGITS = 50_000
"""Digits of an integer in a test: as many as a program in the sandbox may convert."""

_FEW_DIGITS = 4000
_LONG = 10**_FEW_DIGITS
_SYSTEM = "You are an expert programmer who writes correct and efficient {title}."

_TASKS: Mapping[Kind, str] = {
    "stdin": (
        "Solve the problem with a program that reads from standard input and writes to standard "
        "output. Answer with the whole program in one ```{fence} block."
    ),
    "function": (
        "Solve the problem with the code it asks for, under the given names. Import whatever you "
        "use. Answer with the whole code in one ```{fence} block."
    ),
    "completion": (
        "Complete the given code. Answer with the whole code, the given lines included, in one "
        "```{fence} block."
    ),
}


@dataclasses.dataclass(frozen=True)
class SolvedProblem:
    """A problem and the source of a program known to solve it, or None where the row has none.

    `dropped` counts the tests of the row that were the same as an earlier one. `more` are further
    programs that are known to solve it. Raises InvalidValueError for a program that is no text.
    """

    problem: Problem
    solution: str | None
    dropped: int = 0
    more: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        programs = self.more if self.solution is None else (self.solution, *self.more)
        for program in programs:
            require(isinstance(program, str), "solution", "a text", program)


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """A row that makes no problem, and why."""

    row_id: str
    reason: str


@dataclasses.dataclass(frozen=True)
class Foreign:
    """A checker that the verifier cannot run, and why."""

    reason: str


class Checker(NamedTuple):
    """The source of a checker, and the name of its language."""

    source: str
    language: str = "python"


ForeignCheckers: TypeAlias = Literal["leave_out", "ignore", "use"]
Converted: TypeAlias = SolvedProblem | LeftOut
Tests: TypeAlias = tuple[TestCase, ...]


@dataclasses.dataclass(frozen=True)
class RowOptions:
    """Settings every benchmark has; those of one are a subclass beside its `convert`.

    `prompt_style` "chat" asks a model that follows instructions, "plain" is for a base model to go
    on from. `language` is what the prompt asks for.
    """

    prompt_style: Style = "chat"
    language: str = "python"

    @property
    def asked_for(self) -> str | None:
        """The language of the problems, None for Python."""
        return None if self.language == "python" else self.language


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """One row of `BENCHMARKS`: where a benchmark comes from and how its rows become problems.

    `revision` is the commit of the hub that is read (None: the newest one), `licence` that of the
    data set's card. `convert(row, options)` raises KeyError, TypeError or ValueError for a row of
    another schema. `data_files(split, options)` names the files of data sets without a loader;
    `unused` columns are not read from parquet files; `split_of(row)` tells the split where one file
    holds all. `languages` are those that its prompts may ask for.
    """

    hub: str
    splits: tuple[str, ...]
    licence: str
    size: str
    convert: Callable[[Row, Any], Converted]
    config: str | None = None
    revision: str | None = None
    options: type[RowOptions] = RowOptions
    default_split: str = "test"
    data_files: Callable[[str, Any], list[str]] | None = None
    unused: tuple[str, ...] = ()
    split_of: Callable[[Row], str] | None = None
    languages: tuple[str, ...] = ("python",)


def stdin_tests(pairs: Iterable[tuple[str, str]]) -> Tests:
    """Return one stdin/stdout test for each pair of input and expected output."""
    return tuple(TestCase(input=stdin, output=stdout) for stdin, stdout in pairs)


def solved(problem: Problem, solutions: Sequence[str]) -> SolvedProblem:
    """Return a problem with the programs that are known to solve it.

    Raises InvalidValueError for what is no list of texts.
    """
    require(isinstance(solutions, list), "solutions", "a list of texts", solutions)
    return SolvedProblem(problem, solutions[0] if solutions else None, more=tuple(solutions[1:]))


def is_python(source: str) -> bool:
    """Say whether a text is a program in Python 3."""
    with warnings.catch_warnings():  # of escapes such as "\\d" in old code
        warnings.simplefilter("ignore")
        try:
            return bool(ast.parse(source).body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False


def usable_checker(source: str | None, foreign: ForeignCheckers) -> Checker | Foreign | None:
    """Return a row's checker, None where it has none or a foreign one is ignored.

    One in C++ is used where `foreign` says so, because it needs a testlib.h that only the user has.
    """
    if not source or not source.strip():
        return None
    if is_python(source):
        return Checker(source)
    if foreign == "use":
        in_cpp = has_main(source)
        return Checker(source, "cpp") if in_cpp else Foreign("its checker is not in Python or C++")
    return None if foreign == "ignore" else Foreign("its checker is not in Python")


def checker_fields(checker: Checker | None) -> dict[str, Any]:
    """Return the fields of a problem that is verified by a checker, none without one."""
    if checker is None:
        return {}
    fields = {"compare": "checker", "checker": checker.source}
    return fields if checker.language == "python" else {**fields, "checker_language": "cpp"}


def read_json(text: str) -> Any:
    """Return the value of a JSON text, whose integers may have `MOST_DIGITS` digits.

    Raises ValueError for other text, and for longer integers.
    """
    return json_value(text, parse_int=_integer)


def _integer(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"an integer has more than {MOST_DIGITS:,} digits")
    # Python converts the text of a long integer only where it is told to.
    return int(text) if len(text) <= _FEW_DIGITS else int(decimal.Decimal(text))


def render(
    kind: Kind,
    statement: str,
    *,
    starter: str | None = None,
    style: Style = "chat",
    language: str = "python",
) -> str:
    """Return the prompt of a task: its statement and, if there is one, the code to start from.

    In the style "plain" a line follows that code can go on from; a completion without a statement
    is the given code alone, as HumanEval (Chen et al. 2021) prompts base models.
    """
    statement = statement.strip("\n")
    names = {"title": LANGUAGES[language].title, "fence": LANGUAGES[language].fence}
    if style == "plain":
        code = starter or ""
        if kind == "completion" and not statement:
            return code
        comment = "#" if language == "python" else "//"
        return f"{statement}\n\n{comment} Solution in {names['title']}\n{code}"
    parts = [f"{_SYSTEM} {_TASKS[kind]}".format(**names), statement]
    if starter:
        parts.append(f"```python\n{starter.rstrip()}\n```")
    return "\n\n".join(part for part in parts if part) + "\n"


def python_literal(value: object) -> str:
    """Return `repr(value)` with sets in one order, so that every process makes the same tests.

    Raises ValueError for a float that has no literal (nan); infinities are written as 1e999.
    """
    match value:
        case set() if value:
            return "{" + ", ".join(sorted(map(python_literal, value))) + "}"
        case list():
            return "[" + ", ".join(map(python_literal, value)) + "]"
        case tuple():
            closing = ",)" if len(value) == 1 else ")"
            return "(" + ", ".join(map(python_literal, value)) + closing
        case dict():
            items = (f"{python_literal(k)}: {python_literal(v)}" for k, v in value.items())
            return "{" + ", ".join(items) + "}"
        case int() if abs(value) >= _LONG:
            return hex(value)  # Python does not write its decimal digits
        case float() if math.isnan(value):
            raise ValueError("nan has no Python literal")
        case float() if math.isinf(value):
            return "1e999" if value > 0 else "-1e999"
        case _:
            return repr(value)
