"""One program to verify: its source, its tests, and how they are compared."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from maxatk.check import MOST_SECONDS, limited, positive, require, several
from maxatk.errors import InvalidValueError
from maxatk.python_numbers import use_python_numbers
from maxatk.records import Problem, TestCase
from maxatk.verifier import rules
from maxatk.verifier.calls import expected_value, reason_against_expression
from maxatk.verifier.extract import Refusal
from maxatk.verifier.inside import protocol
from maxatk.verifier.languages import Language, language_named
from maxatk.verifier.limits import limited_bytes
from maxatk.verifier.payloads import in_bytes
from maxatk.verifier.unusable_tests import refuse_unusable

_TEXTS = ("program", "compare", "entry_point", "checker", "language", "checker_language")


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
        use_python_numbers(self, "time_limit", "memory_limit", "tolerance")
        self._check_types()
        if self.checker is not None and self.compare is None:
            object.__setattr__(self, "compare", "checker")
        self._check_comparison()
        self._check_languages()
        if any(test.check is not None for test in self.tests):
            self._check_entry_point()
        for test in self.tests:
            refuse_unusable(test, self.entry_point)
            if test.call is not None:
                expected_value(test)

    def _check_types(self) -> None:
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
        if len(in_bytes(self.entry_point or "")) > protocol.MAX_ENTRY_POINT:
            raise InvalidValueError(f"entry_point: is too long: {self.entry_point!r:.50}...")

    def _check_comparison(self) -> None:
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
            compares_by_it = self.compare == "checker"
            require(compares_by_it, "compare", "'checker' with a checker", self.compare)
            if any(test.input is None for test in self.tests):
                raise InvalidValueError("checker: verifies tests with input and output only")

    def _check_entry_point(self) -> None:
        if not self.entry_point:
            raise InvalidValueError("entry_point: a check test needs the name of the function")
        reason = reason_against_expression(self.entry_point)
        if reason:
            raise InvalidValueError(
                f"entry_point: must be an expression of Python, got {self.entry_point!r:.60}: "
                f"{reason}"
            )

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


def refuse_tests(problem: Problem) -> None:
    """Raise InvalidValueError for tests and visible tests of which no job can be made.

    A problem may have none of either.
    """
    if problem.tests:
        problem_job("", problem)
    if problem.visible_tests:
        try:
            problem_job("", dataclasses.replace(problem, tests=problem.visible_tests))
        except InvalidValueError as error:
            raise InvalidValueError(f"visible_tests: {error}") from error


ProgramAndTests = tuple[str, Sequence[TestCase]]
"""The short form of a job."""


def as_jobs(items: Iterable[Job | ProgramAndTests]) -> list[Job]:
    """Return jobs for jobs and (program, tests) pairs; raises InvalidValueError."""
    several("items", items, "jobs or of pairs (program, tests)")
    return [_as_job(item, place) for place, item in enumerate(items)]


def _as_job(item: Job | ProgramAndTests, place: int) -> Job:
    if isinstance(item, Job):
        return item
    is_pair = isinstance(item, (tuple, list)) and len(item) == 2
    require(is_pair, f"items[{place}]", "a Job or a pair (program, tests)", item)
    program, tests = item
    return Job(program, tests)  # type: ignore[arg-type]  # which a job makes a tuple
