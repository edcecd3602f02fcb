"""One program to verify and its limits, in the form that the workers take."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from maxatk.check import positive
from maxatk.errors import InvalidValueError
from maxatk.records import Problem, TestCase
from maxatk.verifier import rules
from maxatk.verifier.inside import protocol

_CALLED = re.compile(r"\s*([^\W\d]\w*)\s*\(")


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a program may use in each test, and whether one that was cut off is repaired.

    The only place of these defaults: they hold in Python, in recipes and commands, for trainers
    and for verl. Raises InvalidValueError for values that are not positive.

    Args:
        time_limit: CPU seconds a test.
        memory_limit: Bytes a test.
        output_limit: Bytes a test, of standard output and of standard error each.
        stop_after_timeouts: Time-outs of one program after which its other tests are not run.
        repair_truncated: Whether a program that ends in the middle is cut to `longest_program`.
    """

    time_limit: float = 4.0
    memory_limit: int = 1 << 30
    output_limit: int = 1 << 24
    stop_after_timeouts: int | None = None
    repair_truncated: bool = True

    def __post_init__(self) -> None:
        for name in ("time_limit", "memory_limit", "output_limit", "stop_after_timeouts"):
            positive(name, getattr(self, name))

    @property
    def wall(self) -> float:
        """Return the wall limit in seconds, so generous that it only catches sleepers.

        It is also what all tests of a program may be idle together.
        """
        return 10 * self.time_limit + 5.0

    def for_job(self, job: Job) -> Limits:
        """Return these limits with those that the job sets itself."""
        return dataclasses.replace(
            self,
            time_limit=job.time_limit or self.time_limit,
            memory_limit=job.memory_limit or self.memory_limit,
        )

    def described(self) -> dict[str, Any]:
        """Return what a manifest says of them; the last two only where they are set."""
        stop = self.stop_after_timeouts
        return {
            "time_limit_s": self.time_limit,
            "memory_limit_bytes": self.memory_limit,
            "output_limit_bytes": self.output_limit,
            **({"stop_after_timeouts": stop} if stop else {}),
            **({"repair_truncated": True} if self.repair_truncated else {}),
        }


@dataclasses.dataclass(frozen=True)
class Job:
    """One program, its tests and how to verify them; accepted beside pairs by `verify_many`.

    Raises InvalidValueError for values that are not allowed.

    Args:
        program: Its source.
        tests: One or more.
        compare: The name of a comparison rule; None for `tokens`, or `checker` with a checker.
        time_limit: CPU seconds a test; None for the verifier's.
        memory_limit: Bytes a test; None for the verifier's.
        entry_point: The function that check tests are given.
        checker: The source of the program that decides under the rule `checker`.
    """

    program: str
    tests: tuple[TestCase, ...]
    compare: str | None = None
    time_limit: float | None = None
    memory_limit: int | None = None
    entry_point: str | None = None
    checker: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.program, str):
            raise InvalidValueError(f"program: must be a string, got {type(self.program).__name__}")
        if not isinstance(self.tests, tuple):
            object.__setattr__(self, "tests", tuple(self.tests))
        if not self.tests or not all(isinstance(test, TestCase) for test in self.tests):
            raise InvalidValueError("tests: must be one TestCase or more")
        positive("time_limit", self.time_limit)
        positive("memory_limit", self.memory_limit)
        if self.compare is not None:
            rules.rule(self.compare)
        _validate_checker(self)
        _validate_functions(self.tests, self.entry_point)


def problem_job(program: str, problem: Problem) -> Job:
    """Return the job of a program for a problem, with the limits and the rule of the problem.

    Raises InvalidValueError for a comparison rule that does not exist and without tests.
    """
    if not problem.tests:
        raise InvalidValueError(
            f"Problem {problem.id!r}: has no tests, which the reward of a program needs"
        )
    return Job(
        program,
        problem.tests,
        compare=problem.compare,
        time_limit=problem.time_limit_s,
        memory_limit=mebibytes(problem.memory_limit_mb),
        entry_point=problem.entry_point,
        checker=problem.checker,
    )


def called_name(tests: Iterable[TestCase]) -> str | None:
    """Return the function or class that the first call of the tests begins with, None without one.

    It is what a program has to define where the problem has no entry point.
    """
    call = next((test.call for test in tests if test.call is not None), "")
    name = _CALLED.match(call)
    return name[1] if name else None


def mebibytes(count: float | None) -> int | None:
    """Return so many MiB in bytes; None for None."""
    return None if count is None else int(count * (1 << 20))


Pair = tuple[str, Sequence[TestCase]]


def as_jobs(items: Iterable[Job | Pair]) -> list[Job]:
    """Return jobs for jobs and (program, tests) pairs; raises InvalidValueError."""
    return [item if isinstance(item, Job) else Job(item[0], tuple(item[1])) for item in items]


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
        """Return the size of all parts in bytes."""
        return sum(part.size if isinstance(part, Printed) else len(part) for part in self.parts)


def payload(test: TestCase, entry_point: str | None) -> Payload:
    """Return what the sandbox is given for a test, never the expected output.

    (The source of a check test holds expected values: its bytes follow the name, and only the
    checker's own process reads them.)
    """
    if test.input is not None:
        return Payload(protocol.KIND_STDIN, (_bytes(test.input),))
    if test.call is not None:
        return Payload(protocol.KIND_CALL, (_bytes(test.call),))
    name = _bytes(entry_point or "")
    return Payload(protocol.KIND_CHECK, (name, _bytes(test.check or "")), len(name))


def checker_payload(test: TestCase, printed: Printed) -> Payload:
    """Return the same for a run of the checker on what a program printed in a test."""
    given, expected = _bytes(test.input or ""), _bytes(test.output or "")
    header = protocol.CHECKER_SIZES.pack(len(given), len(expected), printed.size)
    return Payload(protocol.KIND_CHECKER, (header, given, expected, printed))


def expected_value(test: TestCase) -> object:
    """Return the expected value of a call test; raises InvalidValueError if not a literal."""
    try:
        return ast.literal_eval(test.output or "")
    except (ValueError, SyntaxError) as error:
        raise InvalidValueError(
            f"TestCase(call={test.call!r}): output must be a Python literal, got {test.output!r}"
        ) from error


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _validate_checker(job: Job) -> None:
    if job.checker is None and job.compare == "checker":
        raise InvalidValueError("checker: the rule 'checker' needs the source of a checker program")
    if job.checker is None:
        return
    if job.compare not in (None, "checker"):
        raise InvalidValueError(f"compare: must be 'checker' with a checker, got {job.compare!r}")
    if any(test.input is None for test in job.tests):
        raise InvalidValueError("checker: verifies tests with input and output only")
    object.__setattr__(job, "compare", "checker")


def _validate_functions(tests: tuple[TestCase, ...], entry_point: str | None) -> None:
    for test in tests:
        if test.call is not None:
            expected_value(test)
        if test.check is not None and not entry_point:
            raise InvalidValueError("entry_point: a check test needs the name of the function")
    if entry_point and len(_bytes(entry_point)) > protocol.MAX_ENTRY_POINT:
        raise InvalidValueError(f"entry_point: is too long: {entry_point[:50]!r}...")
