"""The verifier as an environment of TRL: write a program, see which example fails, write again."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from maxatk.check import MOST_SECONDS, limited, require, whole
from maxatk.errors import InvalidValueError, MaxAtKError
from maxatk.records import Outcome, Problem, TestCase, TestResult
from maxatk.train.message_calls import ARGUMENT, TOOL
from maxatk.verifier import Verifier
from maxatk.verifier.completion_jobs import completion_job, problem_of_row
from maxatk.verifier.jobs import refuse_tests
from maxatk.verifier.shared_verifier import shared_verifier

TURNS = 2  # by default

_MOST = 200  # characters of each part of an answer
_NO_TURNS = "There is no turn left. The last program that was run counts."


@dataclasses.dataclass(frozen=True)
class _Answer:
    """What a program is told. One that is kept has the refusal of the programs after it."""

    text: str
    later_refusal: str | None = None


_ALL_PASS = _Answer(
    "All examples pass. The program is kept.",
    later_refusal="A program that passes all examples is kept already.",
)
_NO_EXAMPLES = _Answer(
    "The program is kept. There are no examples to run it on.",
    later_refusal="A program is kept already.",
)
_NOT_RUN = _Answer(
    "The examples could not be run. The program is kept.",
    later_refusal="A program is kept already.",
)


class Programs:
    """An `environment_factory` of TRL in which a model submits programs and sees what they do.

    The model's tool is `submit`. Its answer is the first of the row's `visible_tests` that fails.
    `submission` is the first program that is kept, else the last one. Kept is a program that passes
    all of them, or any where there are none or the verifier failed. A reward by tests
    (`code_reward`, or `continuous` and `binary` of a recipe) verifies it on the row's `tests`: all
    programs of a batch at once. A program in a last call that was not run any more counts as the
    last one, while turns are left and none is kept.

    Args:
        turns: How many programs of a rollout are run; later ones do not count.
        time_limit: The most CPU seconds of a visible test. TRL calls `submit` for one rollout after
            the other, so that a batch may wait this long for every one of its programs.
        verifier: What runs the visible tests; by default the one that `code_reward` uses.

    Raises InvalidValueError for values that are not allowed.
    """

    def __init__(
        self, *, turns: int = TURNS, time_limit: float = 1.0, verifier: Verifier | None = None
    ) -> None:
        whole("turns", turns, 1)
        require(time_limit is not None, "time_limit", "a number of seconds", time_limit)
        limited("time_limit", time_limit, MOST_SECONDS)
        self._turns = turns
        self._time_limit = time_limit
        self._verifier = verifier
        self._problem = Problem("-", "")  # of the rollout, with the visible tests alone
        self._turn = 0
        self._refusal: str | None = None  # what a later program is told, once one is kept
        self.submission: str | None = None

    @property
    def open_call(self) -> tuple[str, str] | None:
        """The tool and the argument of a call that still counts where nobody has answered it."""
        counts = self._turn < self._turns and self._refusal is None
        return (TOOL, ARGUMENT) if counts else None

    def reset(self, **row: Any) -> None:
        """Begin a rollout on a row of the data set, whose columns are those of a `Problem`.

        Raises InvalidValueError for a row of which no tests can be made. TRL would hand an error of
        `submit` to the model, and train on.
        """
        visible_tests = row.get("visible_tests")
        tests = [] if visible_tests is None else visible_tests
        try:
            self._problem = problem_of_row({**row, "tests": tests})
            refuse_tests(self._problem)
        except MaxAtKError as error:
            raise InvalidValueError(f"visible_tests: {error}") from error
        self._turn = 0
        self._refusal = None
        self.submission = None

    def submit(self, program: str) -> str:
        """Run a program on the examples of the task.

        Args:
            program: The whole program.

        Returns:
            Whether all examples pass, or the first one that does not.
        """
        require(isinstance(program, str), "program", "text", program)
        if self._refusal is not None:
            return self._refusal
        if self._turn >= self._turns:
            return _NO_TURNS
        answer = self._answer(program)
        self._turn += 1
        self._refusal = answer.later_refusal
        self.submission = program
        if self._refusal is not None:
            return answer.text
        left = self._turns - self._turn
        return f"{answer.text}\nTurns left: {left}."

    def _answer(self, program: str) -> _Answer:
        problem = self._problem
        if not problem.tests:
            return _NO_EXAMPLES
        verifier = self._verifier or shared_verifier(None, "wrong")
        job = completion_job(verifier.program_of, program, problem)
        limit = min(self._time_limit, job.time_limit or self._time_limit)
        [verdict] = verifier.verify_many([dataclasses.replace(job, time_limit=limit)])
        return _first_failure(problem.tests, verdict.tests)


def _first_failure(tests: Sequence[TestCase], results: Sequence[TestResult]) -> _Answer:
    """Return what is said of the first test that failed, in a few short lines."""
    for test, result in zip(tests, results, strict=True):
        if result.outcome is Outcome.INFRA_ERROR:
            return _NOT_RUN
        if result.outcome is not Outcome.PASSED:
            return _Answer(_failure(test, result))
    return _ALL_PASS


def _failure(test: TestCase, result: TestResult) -> str:
    lines = [f"Failed: {str(result.outcome).replace('_', ' ')}."]
    if test.input is not None:
        lines.append(f"Input: {_beginning(test.input)}")
    if test.call is not None:
        lines.append(f"Call: {_beginning(test.call)}")
    if test.output is not None:
        lines.append(f"Expected: {_beginning(test.output)}")
    if result.outcome is Outcome.WRONG_ANSWER and test.check is None:
        lines.append(f"Got: {_beginning(result.got)}")
    elif result.stderr:
        lines.append(f"Error: {_end(result.stderr)}")
    return "\n".join(lines)


def _beginning(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _MOST else text[:_MOST] + "…"


def _end(text: str) -> str:
    # A traceback names the exception at its end.
    text = text.strip()
    return text if len(text) <= _MOST else "…" + text[-_MOST:]
