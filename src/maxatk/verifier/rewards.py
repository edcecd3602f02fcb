"""Reward functions for reinforcement learning: completions in, fractions of tests passed out."""

from __future__ import annotations

import atexit
import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from maxatk.errors import InvalidValueError
from maxatk.records import Outcome, TestCase, Verdict
from maxatk.verifier.ahead import Ahead
from maxatk.verifier.jobs import Job, mebibytes
from maxatk.verifier.verifier import Verifier

Completion = str | Sequence[Mapping[str, Any]]
Row = Sequence[TestCase | Mapping[str, Any]]
Start = Callable[[Completion, Mapping[str, Any]], None]
"""Starts what the reward of a completion needs; its row is the second argument."""

# The columns of a row beside its tests, in the order of `CodeReward`'s arguments.
_LIMITS = ("compare", "time_limit_s", "memory_limit_mb", "entry_point", "checker")


class CodeReward:
    """A reward function in TRL's shape that verifies the code in each completion.

    The reward is passed / declared tests, or with `binary` 1.0 only where all passed; None where
    the verifier itself failed, which trainers leave out. `outcomes` counts the tests of the last
    call. Raises InvalidValueError for rows that do not form tests.
    """

    def __init__(self, verifier: Verifier, *, binary: bool = False) -> None:
        self.verifier, self.binary = verifier, binary
        self.outcomes: Counter[Outcome] = Counter()
        self._ahead: Ahead | None = None
        self.__name__ = "binary_code_reward" if binary else "code_reward"

    def __call__(
        self,
        prompts: Sequence[Any] | None = None,  # noqa: ARG002  (part of the shape)
        completions: Sequence[Completion] = (),
        tests: Sequence[Row] = (),
        compare: Sequence[str | None] | None = None,
        time_limit_s: Sequence[float | None] | None = None,
        memory_limit_mb: Sequence[int | None] | None = None,
        entry_point: Sequence[str | None] | None = None,
        checker: Sequence[str | None] | None = None,
        **_unused: Any,
    ) -> list[float | None]:
        """Return one reward a completion.

        Args:
            prompts: Not used.
            completions: Texts, or conversations whose last message counts.
            tests: The tests of each completion; this and all that follow are columns.
            compare: Names of comparison rules.
            time_limit_s: CPU seconds a test.
            memory_limit_mb: MiB a test.
            entry_point: Names of the functions that check tests are given.
            checker: Sources of programs that decide.
        """
        if len(tests) != len(completions):
            raise InvalidValueError(
                f"tests: {len(tests)} rows for {len(completions)} completions; the dataset needs "
                "a column `tests`"
            )
        columns = (compare, time_limit_s, memory_limit_mb, entry_point, checker)
        jobs = [
            self._job(completion, tests[i], *(_cell(column, i) for column in columns))
            for i, completion in enumerate(completions)
        ]
        verdicts = (self._ahead or self.verifier).verify_many(jobs)
        self.outcomes = Counter(test.outcome for verdict in verdicts for test in verdict.tests)
        return [as_reward(verdict, binary=self.binary) for verdict in verdicts]

    @contextlib.contextmanager
    def ahead(self) -> Iterator[Start]:
        """Yield a function that starts the verification of a completion; a call inside awaits it.

        The function takes a completion and its row, a mapping of columns. It leaves what is wrong
        with them to the call, which raises it. Every verdict serves one call, and those that none
        has asked for are dropped at the end.
        """
        started = self.verifier.ahead()
        if started is None:
            yield lambda completion, row: None  # noqa: ARG005
            return

        def start(completion: Completion, row: Mapping[str, Any]) -> None:
            with contextlib.suppress(Exception):
                started.start(self._job(completion, row["tests"], *map(row.get, _LIMITS)))

        with started:
            self._ahead = started
            try:
                yield start
            finally:
                self._ahead = None

    def _job(
        self,
        completion: Completion,
        tests: Row,
        compare: str | None,
        time_limit_s: float | None,
        memory_limit_mb: int | None,
        entry_point: str | None,
        checker: str | None,
    ) -> Job:
        return Job(
            self.verifier.program_of(completion_text(completion), entry_point),
            as_tests(tests),
            compare,
            time_limit_s,
            mebibytes(memory_limit_mb),
            entry_point,
            checker,
        )


def code_reward(
    prompts: Sequence[Any] | None = None,
    completions: Sequence[Completion] = (),
    **columns: Any,
) -> list[float | None]:
    """Return passed / declared tests of each completion, with one verifier for the process.

    Raises SandboxError where programs cannot be isolated, InvalidValueError for bad rows.
    """
    return CodeReward(shared_verifier())(prompts, completions, **columns)


def binary_code_reward(
    prompts: Sequence[Any] | None = None,
    completions: Sequence[Completion] = (),
    **columns: Any,
) -> list[float | None]:
    """Return 1.0 for each completion that passed all its tests and 0.0 for the others.

    Raises SandboxError where programs cannot be isolated, InvalidValueError for bad rows.
    """
    return CodeReward(shared_verifier(), binary=True)(prompts, completions, **columns)


@functools.cache
def shared_verifier(workers: int = 2) -> Verifier:
    """Return the one verifier of this process with that many sandboxes, made on first use."""
    verifier = Verifier(workers=workers)
    atexit.register(verifier.close)
    return verifier


def as_reward(verdict: Verdict, *, binary: bool) -> float | None:
    """Return passed / declared tests, or 1.0 and 0.0 for all and not all; None if unscorable."""
    reward = verdict.reward
    return float(reward == 1.0) if binary and reward is not None else reward


def completion_text(completion: Completion) -> str:
    """Return the text of a completion: itself, or the last message of a conversation."""
    if isinstance(completion, str):
        return completion
    content = completion[-1].get("content") if completion else None
    return content if isinstance(content, str) else ""


def as_tests(row: Row) -> tuple[TestCase, ...]:
    """Return the tests of one dataset row; fields that are None count as absent."""
    return tuple(test if isinstance(test, TestCase) else TestCase.from_json(test) for test in row)


def _cell(column: Sequence[Any] | None, index: int) -> Any:
    return None if column is None else column[index]
