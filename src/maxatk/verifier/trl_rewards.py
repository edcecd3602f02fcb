"""Rewards of programs in TRL's shape: passed / declared tests, or whether all passed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from maxatk.check import require
from maxatk.conversations import Completion
from maxatk.records import Verdict
from maxatk.verifier.completion_jobs import completion_jobs, row_job
from maxatk.verifier.jobs import Job
from maxatk.verifier.shared_verifier import shared_reader, shared_verifier
from maxatk.verifier.verdict_rewards import as_reward
from maxatk.verifier.verifier import Verifier

Start = Callable[[Completion, Mapping[str, Any]], None]
"""Starts what the reward of a completion needs; its row is the second argument."""


class CodeReward:
    """A reward function in TRL's shape: passed / declared tests, or `binary` whether all passed.

    Of a rollout in an environment that has a `submission`, that program is verified. None where the
    verifier itself failed. `verdicts` are those of the last call. Raises InvalidValueError for what
    is no verifier, and for columns and rows that do not form tests.
    """

    def __init__(self, verifier: Verifier, *, binary: bool = False) -> None:
        require(isinstance(verifier, Verifier), "verifier", "a Verifier", verifier)
        require(isinstance(binary, bool), "binary", "True or False", binary)
        self.verifier = verifier
        self.binary = binary
        self.verdicts: list[Verdict] = []
        self.__name__ = "binary_code_reward" if binary else "code_reward"

    def __call__(
        self,
        prompts: Sequence[Any] | None = None,
        completions: Sequence[Completion] = (),
        **columns: Any,
    ) -> list[float | None]:
        """Return one reward a completion; `judged_text` says which text of it is judged.

        The column `tests` of the dataset is needed, and `compare`, `time_limit_s`,
        `memory_limit_mb`, `entry_point`, `checker`, `tolerance`, `language` and `checker_language`
        are used as in a `Problem`.
        """
        jobs = completion_jobs(self.verifier.program_of, prompts, completions, columns)
        return self.rewards_of(jobs)

    def rewards_of(self, jobs: Sequence[Job]) -> list[float | None]:
        """Return the reward of each job, the program of a completion with its tests."""
        self.verdicts = self.verifier.verify_many(jobs)
        return [as_reward(verdict, binary=self.binary) for verdict in self.verdicts]

    @contextlib.contextmanager
    def ahead(self) -> Iterator[Start]:
        """Yield what starts to verify a completion and never raises; a call inside awaits it."""
        with self.verifier.ahead() as start_job:

            def start(completion: Completion, row: Mapping[str, Any]) -> None:
                with contextlib.suppress(Exception):
                    start_job(row_job(self.verifier.program_of, completion, row))

            yield start


def code_reward(
    prompts: Sequence[Any] | None = None, completions: Sequence[Completion] = (), **columns: Any
) -> list[float | None]:
    """Return passed / declared tests of each completion, with one verifier for the process.

    Raises SandboxError where programs cannot be isolated, InvalidValueError for bad rows.
    """
    return _shared_rewards(prompts, completions, columns, binary=False)


def binary_code_reward(
    prompts: Sequence[Any] | None = None, completions: Sequence[Completion] = (), **columns: Any
) -> list[float | None]:
    """Return 1.0 for each completion that passed all its tests and 0.0 for the others.

    Raises SandboxError where programs cannot be isolated, InvalidValueError for bad rows.
    """
    return _shared_rewards(prompts, completions, columns, binary=True)


def _shared_rewards(
    prompts: Sequence[Any] | None,
    completions: Sequence[Completion],
    columns: Mapping[str, Any],
    *,
    binary: bool,
) -> list[float | None]:
    # What is wrong with the arguments is said before a verifier starts.
    jobs = completion_jobs(shared_reader("wrong").program_of, prompts, completions, columns)
    return CodeReward(shared_verifier(None, "wrong"), binary=binary).rewards_of(jobs)
