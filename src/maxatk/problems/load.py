"""Load problems by name: a benchmark of `BENCHMARKS`, or the path of a problems.jsonl."""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.check import at_least
from maxatk.errors import DataError, InvalidValueError, suggestion, unknown_name
from maxatk.jsonl import read_jsonl
from maxatk.problems.benchmarks import BENCHMARKS
from maxatk.problems.benchmarks.base import Converted, LeftOut, SolvedProblem
from maxatk.problems.prepare import solutions_file
from maxatk.problems.source import open_source
from maxatk.records import Problem, Sample
from maxatk.verifier import problem_job

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Loaded:
    """What a benchmark gave: problems with their reference solutions, and rows left out."""

    solved: tuple[SolvedProblem, ...]
    left_out: tuple[LeftOut, ...]


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
    at_least("limit", limit, 1)
    if str(name) in BENCHMARKS:
        loaded = load_benchmark(
            str(name), split=split, limit=limit, file=file, revision=revision, options=options
        )
        if loaded.left_out:
            reasons = Counter(row.reason for row in loaded.left_out)
            counted = "; ".join(f"{count} {reason}" for reason, count in reasons.most_common())
            _log.warning("%s: %d rows were left out: %s", name, len(loaded.left_out), counted)
        return [solved.problem for solved in loaded.solved]
    if Path(name).suffix != ".jsonl":
        raise unknown_name("problems", str(name), [*BENCHMARKS, "a path ending in .jsonl"])
    if any(value is not None for value in (split, file, revision, options)):
        raise InvalidValueError(
            "split, file, revision, options: are for benchmarks; a problems.jsonl has none of them"
        )
    problems = read_jsonl(name, Problem.from_json)
    return list(problems_by_id(itertools.islice(problems, limit), source=str(name)).values())


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
    there, with the closest one, or whose row is left out; otherwise as `load_problems`.
    """
    wanted = (problem_id, f"{name}/{problem_id}")
    seen: list[str] = []
    made: Iterable[Converted]
    if str(name) in BENCHMARKS:
        source = open_source(str(name), split=split, file=file, options=options)
        made = (outcome for _, outcome in source.outcomes())
    else:
        problems = load_problems(name, split=split, file=file, options=options)
        path = solutions_file(Path(name))
        samples = read_jsonl(path, Sample.from_json) if path.is_file() else ()
        solutions = {sample.problem_id: sample.completion for sample in samples}
        made = [SolvedProblem(problem, solutions.get(problem.id)) for problem in problems]
    for found in made:
        found_id = found.row_id if isinstance(found, LeftOut) else found.problem.id
        if found_id in wanted:
            if isinstance(found, LeftOut):
                raise InvalidValueError(f"id: {found_id!r} is left out: {found.reason}")
            return found
        seen.append(found_id)
    raise InvalidValueError(
        f"id: {problem_id!r} is not among the {len(seen)} problems of {name}"
        f"{suggestion(wanted[1], seen) or suggestion(problem_id, seen)}"
    )


def problems_by_id(problems: Iterable[Problem], *, source: str) -> dict[str, Problem]:
    """Return problems by their id, in their order; `source` starts the messages.

    Raises DataError where there are none or an id occurs twice.
    """
    by_id: dict[str, Problem] = {}
    for problem in problems:
        if problem.id in by_id:
            raise DataError(f"{source}: the id {problem.id!r} occurs twice")
        by_id[problem.id] = problem
    if not by_id:
        raise DataError(f"{source}: holds no problems")
    return by_id


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
    source = open_source(name, split=split, file=file, revision=revision, options=options)
    at_least("limit", limit, 1)
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


def read_problems(
    problems: str | Path | Sequence[Problem], *, limit: int | None = None
) -> tuple[dict[str, Problem], str | None]:
    """Return the first problems by id, and the name that they were loaded by, if they were.

    Raises as `load_problems` and `problems_by_id`, and InvalidValueError for an unknown rule of
    comparison.
    """
    source = str(problems) if isinstance(problems, (str, Path)) else None
    if isinstance(problems, (str, Path)):
        problems = load_problems(problems, limit=limit)
    by_id = problems_by_id(problems[:limit], source=source or "problems")
    for problem in by_id.values():
        if problem.tests:
            problem_job("", problem)  # an unknown comparison rule is refused now, not in the middle
    return by_id, source
