"""From what a model wrote, and the row of its problem, to the job that the verifier takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from maxatk.check import column, require
from maxatk.conversations import Completion, completion_text, pending_argument
from maxatk.errors import InvalidValueError
from maxatk.records import Problem, TestCase
from maxatk.verifier.calls import called_name
from maxatk.verifier.extract import Extracted
from maxatk.verifier.jobs import Job, problem_job
from maxatk.verifier.reasoning import opening_of

ProgramOf = Callable[[str, str | None, str | None], Extracted]
"""Completion, entry point and name of the language (None: Python) -> program."""

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


def extracted_program(program_of: ProgramOf, text: str, problem: Problem) -> Extracted:
    """Return the program in what a model wrote for a problem."""
    entry_point = problem.entry_point or called_name(problem.tests)
    return program_of(text, entry_point, problem.language)


def completion_job(program_of: ProgramOf, text: str, problem: Problem) -> Job:
    """Return the job of the program in what a model wrote; raises as `problem_job`."""
    extracted = extracted_program(program_of, text, problem)
    return problem_job(extracted.program, problem, refused=extracted.refused)


def completion_jobs(
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
        row_job(program_of, completion, {name: values[i] for name, values in used.items()})
        for i, completion in enumerate(completions)
    ]


def row_job(program_of: ProgramOf, completion: Completion, row: Mapping[str, Any]) -> Job:
    """Return the job of a completion; raises InvalidValueError for a row without tests."""
    problem = problem_of_row(row)
    return completion_job(program_of, judged_text(completion, row), problem)


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
