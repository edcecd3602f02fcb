"""Rewards of programs, passed / declared tests, in TRL's shape (`code_reward`) and in verl's."""

from __future__ import annotations

import atexit
import contextlib
import functools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from maxatk.bounded import json_value
from maxatk.check import column, require, whole
from maxatk.conversations import Completion, completion_text, pending_argument
from maxatk.errors import DataError, InvalidValueError
from maxatk.records import Problem, TestCase, Verdict
from maxatk.verifier.calls import called_name
from maxatk.verifier.extract import (
    Extracted,
    ProgramReader,
    UnfinishedThought,
    check_unfinished_thought,
)
from maxatk.verifier.jobs import Job, problem_job
from maxatk.verifier.limits import Limits
from maxatk.verifier.reasoning import opening_of
from maxatk.verifier.remote import addresses
from maxatk.verifier.verifier import Verifier

Start = Callable[[Completion, Mapping[str, Any]], None]
"""Starts what the reward of a completion needs; its row is the second argument."""

ProgramOf = Callable[[str, str | None, str | None], Extracted]
"""Completion, entry point and name of the language (None: Python) -> program."""

GroundTruth = str | Sequence[Mapping[str, Any]] | Mapping[str, Any]
"""Tests, or an object with `tests` and other fields of a problem; either may be JSON text."""

_COLUMNS = (
    "tests",
    "compare",
    "time_limit_s",
    "memory_limit_mb",
    "entry_point",
    "checker",
    "tolerance",
    "language",
    "checker_language",
)

ENVIRONMENTS = "environments"
"""The column in which TRL hands the environment of each completion to a reward function."""


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
        jobs = _jobs(self.verifier.program_of, prompts, completions, columns)
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
                    start_job(_row_job(self.verifier.program_of, completion, row))

            yield start


def _jobs(
    program_of: ProgramOf,
    prompts: Sequence[Any] | None,
    completions: Sequence[Completion],
    columns: Mapping[str, Any],
) -> list[Job]:
    """Return one job a completion; raises InvalidValueError for columns that do not form tests."""
    column("completions", completions)
    used = {name: columns[name] for name in _COLUMNS if columns.get(name) is not None}
    if "tests" not in used:
        raise InvalidValueError("tests: the dataset needs a column `tests`")
    if columns.get(ENVIRONMENTS) is not None:
        used[ENVIRONMENTS] = columns[ENVIRONMENTS]
    for name, values in used.items():
        column(name, values, len(completions))
    used["prompt"] = one_prompt_each(prompts, len(completions))
    return [
        _row_job(program_of, completion, {name: values[i] for name, values in used.items()})
        for i, completion in enumerate(completions)
    ]


def _row_job(program_of: ProgramOf, completion: Completion, row: Mapping[str, Any]) -> Job:
    """Return the job of a completion; raises InvalidValueError for a row without tests."""
    problem = problem_of_row(row)
    return completion_job(program_of, judged_text(completion, row), problem)


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
    jobs = _jobs(_shared_reader(os.getpid(), "wrong").program_of, prompts, completions, columns)
    return CodeReward(shared_verifier(None, "wrong"), binary=binary).rewards_of(jobs)


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: GroundTruth,
    extra_info: Mapping[str, Any] | None = None,
    *,
    binary: bool = False,
    workers: int | None = None,
    unfinished_thought: UnfinishedThought = "wrong",
    sandbox: str | Sequence[str] = (),
) -> dict[str, float]:
    """Return `score` (passed / declared tests), `passed`, `total` and `unscored` of a solution.

    Where the verifier itself failed, `score` is NaN and `unscored` 1. With `binary` the score is
    1.0 only where all tests passed. `workers` programs run at a time in this process, by default
    one for each core; a share where verl starts several processes (`reward.num_workers`). With
    `sandbox`, addresses of `maxatk serve`, they run there. A solution whose reasoning never ends
    scores 0, unless `unfinished_thought` is "read". Raises DataError for a ground truth that holds
    no tests.
    """
    scores = compute_scores(
        [data_source],
        [solution_str],
        [ground_truth],
        [extra_info],
        binary=binary,
        workers=workers,
        unfinished_thought=unfinished_thought,
        sandbox=sandbox,
    )
    return scores[0]


def compute_scores(
    data_sources: Sequence[str],
    solution_strs: Sequence[str],
    ground_truths: Sequence[GroundTruth],
    extra_infos: Sequence[Mapping[str, Any] | None],  # noqa: ARG001  (part of the shape)
    *,
    binary: bool = False,
    workers: int | None = None,
    unfinished_thought: UnfinishedThought = "wrong",
    sandbox: str | Sequence[str] = (),
) -> list[dict[str, float]]:
    """Do as `compute_score` for each sample of a batch, in the shape of verl's batch manager.

    Raises InvalidValueError for columns that are no lists of one length, and as `compute_score`.
    """
    columns = {"solution_strs": solution_strs, "ground_truths": ground_truths}
    column("data_sources", data_sources)
    for name, values in columns.items():
        column(name, values, len(data_sources))
    servers = addresses(sandbox)
    _refuse_settings(workers, unfinished_thought)
    program_of = _shared_reader(os.getpid(), unfinished_thought).program_of
    jobs = [
        _job(program_of, source, solution, truth)
        for source, solution, truth in zip(data_sources, solution_strs, ground_truths, strict=True)
    ]
    verifier = shared_verifier(workers, unfinished_thought, servers)
    scores = []
    for verdict in verifier.verify_many(jobs):
        reward = as_reward(verdict, binary=binary)
        scores.append(
            {
                "score": math.nan if reward is None else reward,
                "passed": float(verdict.passed),
                "total": float(verdict.total),
                "unscored": float(reward is None),
            }
        )
    return scores


def _job(program_of: ProgramOf, data_source: str, solution: str, ground_truth: GroundTruth) -> Job:
    """Return the job of a sample of verl; raises DataError for a ground truth without tests."""
    require(isinstance(solution, str), "solution_str", "a string", solution)
    try:
        row = json_value(ground_truth) if isinstance(ground_truth, str) else ground_truth
        fields = row if isinstance(row, Mapping) else {"tests": row}
        fields = {**fields, "tests": list(fields["tests"])}  # an array, out of a parquet file
        problem = Problem.from_json({"id": "-", "prompt": "", **fields})
        return completion_job(program_of, solution, problem)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"ground_truth of {data_source!r}: {error!r}; got {ground_truth!r:.80}"
        ) from error


def shared_verifier(
    workers: int | None, unfinished_thought: UnfinishedThought, sandbox: tuple[str, ...] = ()
) -> Verifier:
    """Return the one verifier of this process with these settings; a fork has its own.

    Raises InvalidValueError for settings that are not allowed, and as `Verifier`.
    """
    _refuse_settings(workers, unfinished_thought)
    return _verifier_of_process(os.getpid(), workers, unfinished_thought, sandbox)


def _refuse_settings(workers: int | None, unfinished_thought: UnfinishedThought) -> None:
    if workers is not None:
        whole("workers", workers, 1)
    check_unfinished_thought(unfinished_thought)


@functools.cache
def _shared_reader(_pid: int, unfinished_thought: UnfinishedThought) -> ProgramReader:
    """Return the one reader of this process, of the settings of its shared verifier."""
    return ProgramReader(
        repair_truncated=Limits.repair_truncated, unfinished_thought=unfinished_thought
    )


@functools.cache
def _verifier_of_process(
    _pid: int,
    workers: int | None,
    unfinished_thought: UnfinishedThought,
    sandbox: tuple[str, ...],
) -> Verifier:
    verifier = Verifier(workers=workers, unfinished_thought=unfinished_thought, sandbox=sandbox)
    atexit.register(verifier.close)
    return verifier


def as_reward(verdict: Verdict, *, binary: bool) -> float | None:
    """Return passed / declared tests, or 1.0 and 0.0 for all and not all; None if unscorable."""
    reward = verdict.reward
    return float(reward == 1.0) if binary and reward is not None else reward


def one_prompt_each(prompts: Sequence[Any] | None, count: int) -> Sequence[Any]:
    """Return the prompt of each of `count` completions, None where a call gives no prompts.

    Raises InvalidValueError for prompts that are no list or of another number.
    """
    if prompts is None:
        return [None] * count
    column("prompts", prompts)
    if not len(prompts):
        return [None] * count
    column("prompts", prompts, count)
    return prompts


def completion_job(program_of: ProgramOf, text: str, problem: Problem) -> Job:
    """Return the job of the program in what a model wrote, found by `Verifier.program_of`.

    Raises as `problem_job`.
    """
    entry_point = problem.entry_point or called_name(problem.tests)
    extracted = program_of(text, entry_point, problem.language)
    return problem_job(extracted.program, problem, refused=extracted.refused)


def problem_of_row(row: Mapping[str, Any]) -> Problem:
    """Return what a row of a data set says of its tests; raises InvalidValueError without them."""
    is_list = isinstance(row["tests"], Iterable) and not isinstance(row["tests"], (str, Mapping))
    are_tests = is_list and all(isinstance(test, (TestCase, Mapping)) for test in row["tests"])
    require(are_tests, "tests", "a list of tests in each row", row["tests"])
    tests = [
        test if isinstance(test, TestCase) else TestCase.from_json(test) for test in row["tests"]
    ]
    fields = {name: row[name] for name in _COLUMNS if name in row}
    fields["tests"] = tuple(tests)
    # A column `checker` says how to compare: data sets need no column `compare` beside it.
    fields["compare"] = row.get("compare") or ("checker" if row.get("checker") else None)
    return Problem("-", "", **fields)


def judged_text(completion: Completion, row: Mapping[str, Any]) -> str:
    """Return the text of a completion that decides its reward.

    It is what was submitted to the environment of the row ("" for nothing), where that has a
    `submission`: also by a call that nobody has answered, where the environment has an `open_call`,
    the names of a tool and its argument. Otherwise it is the completion's text, behind the opening
    tag of a thought where the row's prompt ends with one and so has begun it.
    """
    environment = row.get(ENVIRONMENTS)
    if environment is not None and hasattr(environment, "submission"):
        open_call = getattr(environment, "open_call", None)
        pending = None if open_call is None else pending_argument(completion, *open_call)
        return environment.submission or "" if pending is None else pending
    return opening_of(row.get("prompt")) + completion_text(completion)
