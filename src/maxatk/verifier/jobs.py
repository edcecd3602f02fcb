"""One program to verify and its limits, in the form that the workers take."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import decimal
import io
import re
import tokenize
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from maxatk.check import MOST_BYTES, MOST_SECONDS, is_whole, limited, positive, require, whole
from maxatk.errors import InvalidValueError
from maxatk.records import Problem, TestCase
from maxatk.verifier import rules
from maxatk.verifier.extract import Refusal, UnfinishedThought, check_unfinished_thought
from maxatk.verifier.inside import protocol
from maxatk.verifier.languages import Language, language_named

MAX_SOURCE = 1 << 20
"""Bytes of a source."""

_LONG_INTEGER = re.compile(r"[1-9][0-9]{3999,}")
_CALLED = re.compile(r"\s*([^\W\d]\w*)\s*\(")


_TEXTS = ("program", "compare", "entry_point", "checker", "language", "checker_language")
_MOST_TIMEOUTS = (1 << 31) - 1  # which the sandbox is told


def limited_bytes(field: str, value: int) -> None:
    """Raise InvalidValueError for what is no whole number of bytes that a machine may have."""
    require(is_whole(value, 1), field, "a whole number of bytes", value)
    limited(field, value, MOST_BYTES)


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a program may use in each test: CPU seconds, bytes of memory, bytes of each output.

    After `stop_after_timeouts` time-outs its other tests are not run. With `repair_truncated` one
    that ends in the middle is cut to `longest_program`. A completion whose reasoning never ends is
    wrong, or with `unfinished_thought` "read" searched for a program like any other. `flags` are
    those of a compiler by language, separated by blanks. Raises InvalidValueError for values that
    are not allowed.
    """

    time_limit: float = 4.0
    memory_limit: int = 1 << 30
    output_limit: int = 1 << 24
    stop_after_timeouts: int | None = None
    repair_truncated: bool = True
    unfinished_thought: UnfinishedThought = "wrong"
    flags: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        limited("time_limit", self.time_limit, MOST_SECONDS)
        for name in ("memory_limit", "output_limit"):
            limited_bytes(name, getattr(self, name))
        if self.stop_after_timeouts is not None:
            whole("stop_after_timeouts", self.stop_after_timeouts, 1)
            limited("stop_after_timeouts", self.stop_after_timeouts, _MOST_TIMEOUTS)
        is_bool = isinstance(self.repair_truncated, bool)
        require(is_bool, "repair_truncated", "True or False", self.repair_truncated)
        check_unfinished_thought(self.unfinished_thought)
        if self.flags:
            check_flags(self.flags)
            single_blanks = {name: " ".join(text.split()) for name, text in self.flags.items()}
            object.__setattr__(self, "flags", single_blanks)

    @property
    def wall(self) -> float:
        """Seconds of a test on the wall clock, which only catch sleepers."""
        return 10 * self.time_limit + 5.0

    @property
    def idle(self) -> float:
        """Idle seconds of all tests together."""
        return self.wall

    def described(self) -> dict[str, Any]:
        """Return what a manifest says of them; some only where they are set."""
        described: dict[str, Any] = {
            "time_limit_s": self.time_limit,
            "memory_limit_bytes": self.memory_limit,
            "output_limit_bytes": self.output_limit,
        }
        if self.stop_after_timeouts:
            described["stop_after_timeouts"] = self.stop_after_timeouts
        if self.repair_truncated:
            described["repair_truncated"] = True
        described["unfinished_thought"] = self.unfinished_thought
        if self.flags:
            described["flags"] = dict(self.flags)
        return described


@dataclasses.dataclass(frozen=True)
class Job:
    """The source of a program, one test or more, and how to verify them.

    `compare` names a comparison rule (None: `tokens`, or `checker` with the source of a `checker`),
    `time_limit` is CPU seconds and `memory_limit` bytes a test (None: the verifier's),
    `entry_point` the function that check tests are given, `tolerance` the error that floats inside
    the values of calls may have (None: 0). `language` and `checker_language` are names of
    `LANGUAGES` (None: Python). A job that is `refused` is not run: it fails its tests for what the
    `Refusal` says of the completion. Raises InvalidValueError.
    """

    program: str
    tests: tuple[TestCase, ...]
    compare: str | None = None
    time_limit: float | None = None
    memory_limit: int | None = None
    entry_point: str | None = None
    checker: str | None = None
    tolerance: float | None = None
    language: str | None = None
    checker_language: str | None = None
    refused: Refusal | None = None

    def __post_init__(self) -> None:
        for name in _TEXTS:
            value = getattr(self, name)
            is_unset = value is None and name != "program"
            require(is_unset or isinstance(value, str), name, "a string", value)
        is_refusal = self.refused is None or isinstance(self.refused, Refusal)
        require(is_refusal, "refused", "a Refusal", self.refused)
        tests = tuple(self.tests) if isinstance(self.tests, Iterable) else ()
        are_tests = bool(tests) and all(isinstance(test, TestCase) for test in tests)
        require(are_tests, "tests", "a list of one TestCase or more", self.tests)
        object.__setattr__(self, "tests", tests)
        limited("time_limit", self.time_limit, MOST_SECONDS)
        if self.memory_limit is not None:
            limited_bytes("memory_limit", self.memory_limit)
        positive("tolerance", self.tolerance)
        if self.tolerance is not None and any(test.call is None for test in self.tests):
            raise InvalidValueError(
                "tolerance: is for tests that call a function; what is printed is compared by "
                "`compare`"
            )
        if self.compare is not None:
            rules.rule(self.compare)
        if self.checker is None and self.compare == "checker":
            raise InvalidValueError("checker: the rule 'checker' needs the source of a checker")
        if self.checker is not None:
            compares_by_it = self.compare in (None, "checker")
            require(compares_by_it, "compare", "'checker' with a checker", self.compare)
            if any(test.input is None for test in self.tests):
                raise InvalidValueError("checker: verifies tests with input and output only")
            object.__setattr__(self, "compare", "checker")
        self._check_languages()
        for test in self.tests:
            if test.call is not None:
                expected_value(test)
            if test.check is not None and not self.entry_point:
                raise InvalidValueError("entry_point: a check test needs the name of the function")
        if len(_bytes(self.entry_point or "")) > protocol.MAX_ENTRY_POINT:
            raise InvalidValueError(f"entry_point: is too long: {self.entry_point!r:.50}...")

    def _check_languages(self) -> None:
        if self.language is not None:
            refuse_calls(language_named(self.language), self.tests)
        if self.checker_language is not None:
            language_named(self.checker_language, field="checker_language")
            if self.checker is None:
                raise InvalidValueError("checker_language: is for a job with a checker")

    @property
    def languages(self) -> tuple[Language, ...]:
        """The languages of the program and of the checker, where there is one."""
        language = language_named(self.language or "python")
        if self.checker is None:
            return (language,)
        return (language, language_named(self.checker_language or "python"))


def refuse_calls(language: Language, tests: Iterable[TestCase]) -> None:
    """Raise InvalidValueError for a test that calls a function, where a language has no calls."""
    for test in tests:
        if test.input is None and not language.calls:
            raise InvalidValueError(
                f"language: a program in {language.title} is verified by tests with input and "
                f"output; this one calls a function: {test.call or test.check!r:.60}"
            )


def check_flags(flags: Mapping[str, str]) -> None:
    """Raise InvalidValueError for flags of a language that has none, or that are no text."""
    require(isinstance(flags, Mapping), "flags", "an object of languages and their flags", flags)
    for name, text in flags.items():
        if language_named(name, field="flags").compiler is None:
            raise InvalidValueError(f"flags: {name} has no compiler")
        require(isinstance(text, str), f"flags.{name}", "text such as '-O2 -std=c++17'", text)


def problem_job(program: str, problem: Problem, *, refused: Refusal | None = None) -> Job:
    """Return the job of a program for a problem; raises InvalidValueError as `Job`."""
    if not problem.tests:
        raise InvalidValueError(
            f"Problem {problem.id!r}: has no tests, which the reward of a program needs"
        )
    mebibytes = problem.memory_limit_mb
    return Job(
        program,
        problem.tests,
        compare=problem.compare,
        time_limit=problem.time_limit_s,
        memory_limit=None if mebibytes is None else int(mebibytes * (1 << 20)),
        entry_point=problem.entry_point,
        checker=problem.checker,
        tolerance=problem.tolerance,
        language=problem.language,
        checker_language=problem.checker_language,
        refused=refused,
    )


def called_name(tests: Iterable[TestCase]) -> str | None:
    """Return the function or class that the first call of tests is of, None without one.

    That is the first name called in it that is no builtin, as `two` in `sorted(two(3))`.
    """
    call = next((test.call for test in tests if test.call is not None), "")
    first = _CALLED.match(call)
    if first is not None and not hasattr(builtins, first[1]):
        return first[1]  # without parsing a call that may hold megabytes
    inside = _first_called_inside(call)
    return inside or (first[1] if first else None)


def _first_called_inside(call: str) -> str | None:
    """Return the first name of a call that is no builtin; one handed on where none is called."""
    try:
        tree = ast.parse(call.strip(), mode="eval")
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    called = [node.func for node in calls]
    handed_on = [argument for node in calls for argument in node.args]  # `list(map(two, [3]))`
    for nodes in (called, handed_on):
        names = [
            (node.lineno, node.col_offset, node.id)
            for node in nodes
            if isinstance(node, ast.Name) and not hasattr(builtins, node.id)
        ]
        if names:
            return min(names)[2]
    return None


ProgramAndTests = tuple[str, Sequence[TestCase]]
"""The short form of a job."""


def as_jobs(items: Iterable[Job | ProgramAndTests]) -> list[Job]:
    """Return jobs for jobs and (program, tests) pairs; raises InvalidValueError."""
    are_items = isinstance(items, Iterable) and not isinstance(items, (str, Mapping))
    require(are_items, "items", "a list of jobs or of pairs (program, tests)", items)
    return [_as_job(item, place) for place, item in enumerate(items)]


def _as_job(item: Job | ProgramAndTests, place: int) -> Job:
    if isinstance(item, Job):
        return item
    is_pair = isinstance(item, (tuple, list)) and len(item) == 2
    require(is_pair, f"items[{place}]", "a Job or a pair (program, tests)", item)
    program, tests = item
    return Job(program, tests)  # type: ignore[arg-type]  # which a job makes a tuple


class Printed(NamedTuple):
    """What a test printed: a place in the results file of a zygote, in bytes."""

    offset: int
    size: int


class Payload(NamedTuple):
    """What the sandbox is given for one test, and the length of the function's name in it."""

    kind: int
    parts: tuple[bytes | Printed, ...]
    name_size: int = 0

    @property
    def size(self) -> int:
        """Bytes of all parts."""
        return sum(part.size if isinstance(part, Printed) else len(part) for part in self.parts)


def payload(test: TestCase, entry_point: str | None) -> Payload:
    """Return what the sandbox is given for a test, never the expected output.

    That may be in the source of a check test, behind the name, which only the checker reads.
    """
    if test.input is not None:
        return Payload(protocol.KIND_STDIN, (_bytes(test.input),))
    if test.call is not None:
        return Payload(protocol.KIND_CALL, (_bytes(test.call),))
    name = _bytes(entry_point or "")
    return Payload(protocol.KIND_CHECK, (name, _bytes(test.check or "")), len(name))


def checker_payload(test: TestCase, printed: Printed) -> Payload:
    """Return what the sandbox is given to run the checker on what a program printed in a test."""
    stdin = _bytes(test.input or "")
    expected = _bytes(test.output or "")
    header = protocol.CHECKER_SIZES.pack(len(stdin), len(expected), printed.size)
    return Payload(protocol.KIND_CHECKER, (header, stdin, expected, printed))


def expected_value(test: TestCase) -> object:
    """Return the expected value of a call test; raises InvalidValueError if not a literal."""
    output = test.output or ""
    try:
        try:
            return ast.literal_eval(output)
        except (ValueError, SyntaxError):
            # Python reads long decimal integers only where it is told to, hexadecimal ones always.
            return ast.literal_eval(_with_hexadecimal_integers(output))
    except (
        *(ValueError, SyntaxError, tokenize.TokenError),
        TypeError,  # of a set or a key that cannot be hashed
        *(RecursionError, MemoryError),  # of one that is nested too deeply for Python's parser
    ) as error:
        raise InvalidValueError(
            f"TestCase(call={test.call!r:.80}): output must be a Python literal, got "
            f"{test.output!r:.80}"
        ) from error


def _with_hexadecimal_integers(text: str) -> str:
    tokens = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        long = token.type == tokenize.NUMBER and _LONG_INTEGER.fullmatch(token.string)
        string = hex(int(decimal.Decimal(token.string))) if long else token.string
        tokens.append((token.type, string))
    return tokenize.untokenize(tokens)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
