"""How a name, a file or problems of one's own become problems.

Read it from the top: `read_problems` calls `load_problems`, that calls `load_benchmark`, and so on
through `Source.outcomes` to `Source.rows`.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from maxatk.check import as_path, require, several, whole
from maxatk.errors import (
    DataError,
    InvalidValueError,
    counted,
    suggestion,
    unknown_name,
)
from maxatk.jsonl import read_jsonl
from maxatk.problems.benchmarks import BENCHMARKS
from maxatk.problems.benchmarks.base import Converted, LeftOut, SolvedProblem
from maxatk.problems.source import Source
from maxatk.records import Problem, Sample
from maxatk.verifier.jobs import refuse_tests

_log = logging.getLogger(__name__)


class Loaded(NamedTuple):
    """The problems of a benchmark with their reference solutions, and the rows left out."""

    solved: tuple[SolvedProblem, ...]
    left_out: tuple[LeftOut, ...]


def read_problems(
    problems: str | Path | Sequence[Problem],
    *,
    limit: int | None = None,
    mapping: Mapping[str, str] | None = None,
) -> dict[str, Problem]:
    """Return problems by their id, the first `limit` of them.

    `problems` is a name for `load_problems`, or a list; with a `mapping` a file of any table, whose
    options of the benchmark `table` it has, such as {"prompt": "question"}. Raises as
    `load_problems` and `problems_by_id`, InvalidValueError for tests that the verifier refuses.
    """
    if limit is not None:
        whole("limit", limit, 1)
    if isinstance(problems, (str, Path)):
        loaded = (
            load_problems("table", file=problems, options=mapping, limit=limit)
            if mapping
            else load_problems(problems, limit=limit)
        )
        by_id = problems_by_id(loaded, source=str(problems))
    else:
        is_list = isinstance(problems, Sequence)
        are_problems = is_list and all(isinstance(problem, Problem) for problem in problems)
        require(are_problems, "problems", "a name, a path or a list of Problem", problems)
        by_id = problems_by_id(problems[:limit], source="problems")
    for problem in by_id.values():
        try:
            refuse_tests(problem)  # what no verifier takes is refused now, not in the middle
        except InvalidValueError as error:
            raise InvalidValueError(f"Problem {problem.id!r}: {error}") from error
    return by_id


def problems_by_id(problems: Iterable[Problem], *, source: str) -> dict[str, Problem]:
    """Return problems by their id, in their order; `source` starts the messages.

    Raises DataError where there are none or an id occurs twice.
    """
    several(source, problems, "problems")
    by_id: dict[str, Problem] = {}
    for problem in problems:
        require(isinstance(problem, Problem), source, "a list of Problem", problem)
        if problem.id in by_id:
            raise DataError(f"{source}: the id {problem.id!r} occurs twice")
        by_id[problem.id] = problem
    if not by_id:
        raise DataError(f"{source}: holds no problems")
    return by_id


def load_problems(
    name: str | Path,
    *,
    split: str | None = None,
    limit: int | None = None,
    file: str | Path | None = None,
    revision: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> list[Problem]:
    """Return the problems of a benchmark, or of a problems.jsonl when `name` is a path.

    `limit` keeps so many problems, the first ones. `file` is a local file or folder of the
    benchmark's own schema (JSONL, JSON or parquet), read instead of the hub's data set; `revision`
    a commit of the hub, `options` those of the benchmark, such as {"form": "asserts"} for mbpp.
    Rows that do not make a problem are left out and counted by reason in a log message.

    Raises InvalidValueError for an unknown name, split or option, MissingFileError without the
    file, DataError for a row that does not have the schema and for a hub that does not answer.
    """
    if limit is not None:
        whole("limit", limit, 1)
    name = str(name)
    if name in BENCHMARKS:
        loaded = load_benchmark(
            name, split=split, limit=limit, file=file, revision=revision, options=options
        )
        if loaded.left_out:
            reasons = Counter(row.reason for row in loaded.left_out)
            listed = "; ".join(f"{count} {reason}" for reason, count in reasons.most_common())
            rows = counted(len(loaded.left_out), "row")
            _log.warning("%s: %s left out: %s", name, rows, listed)
        return [solved.problem for solved in loaded.solved]
    if Path(name).suffix != ".jsonl":
        allowed = [*BENCHMARKS, "a path ending in .jsonl"]
        if os.path.isfile(name):  # False too for a name that no file system takes
            allowed.append("any other table with --map prompt=COLUMN")
        raise unknown_name("problems", name, allowed)
    if any(value is not None for value in (split, file, revision, options)):
        raise InvalidValueError(
            "split, file, revision, options: are for benchmarks; a problems.jsonl has none of them"
        )
    problems = itertools.islice(read_jsonl(name, Problem.from_json), limit)
    return list(problems_by_id(problems, source=name).values())


def load_benchmark(
    name: str,
    *,
    split: str | None = None,
    limit: int | None = None,
    file: str | Path | None = None,
    revision: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Loaded:
    """Return problems with their solutions, and the rows left out; otherwise as `load_problems`."""
    path = None if file is None else str(file)
    source = Source(name, split, path, revision, options or {})
    if limit is not None:
        whole("limit", limit, 1)
    solved: list[SolvedProblem] = []
    left_out: list[LeftOut] = []
    for _, outcome in source.outcomes():
        if isinstance(outcome, LeftOut):
            left_out.append(outcome)
        else:
            solved.append(outcome)
        if len(solved) == limit:
            break
    return Loaded(tuple(solved), tuple(left_out))


def find_problem(
    name: str | Path,
    problem_id: str,
    *,
    split: str | None = None,
    file: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> SolvedProblem:
    """Return one problem of a benchmark, or of a problems.jsonl, with its reference solution.

    `problem_id` may leave out the benchmark's name. Raises InvalidValueError for an id that is not
    there, with the closest one, or whose row is left out, or that is no text; otherwise as
    `load_problems`.
    """
    require(isinstance(problem_id, str), "id", "text", problem_id)
    outcomes: Iterable[Converted]
    if str(name) in BENCHMARKS:
        local = None if file is None else str(file)
        source = Source(str(name), split, local, options=options or {})
        outcomes = (outcome for _, outcome in source.outcomes())
    else:
        problems = load_problems(name, split=split, file=file, options=options)
        path = solutions_file(Path(name))
        samples: Iterable[Sample] = read_solutions(path) if path.is_file() else ()
        solutions: dict[str, str] = {}
        for sample in samples:  # of several the first one is the reference, as in a benchmark's row
            solutions.setdefault(sample.problem_id, sample.completion)
        outcomes = [SolvedProblem(problem, solutions.get(problem.id)) for problem in problems]
    long_id = f"{name}/{problem_id}"
    ids: list[str] = []
    for outcome in outcomes:
        row_id = outcome.row_id if isinstance(outcome, LeftOut) else outcome.problem.id
        ids.append(row_id)
        if row_id not in (problem_id, long_id):
            continue
        if isinstance(outcome, LeftOut):
            raise InvalidValueError(f"id: {row_id!r} is left out: {outcome.reason}")
        return outcome
    hint = suggestion(long_id, ids) or suggestion(problem_id, ids)
    raise InvalidValueError(
        f"id: {problem_id!r} is not in {name}, which has {counted(len(ids))}{hint}"
    )


def solutions_file(problems: Path) -> Path:
    """Return where the reference solutions of a problems file lie: X.solutions.jsonl beside X."""
    return as_path("problems", problems).with_suffix(".solutions.jsonl")


def read_solutions(path: Path) -> Iterator[Sample]:
    """Yield the reference solutions of a file; they need no number. Raises as `read_jsonl`."""
    return read_jsonl(path, lambda row: Sample.from_json({"sample": 0, **row}))
