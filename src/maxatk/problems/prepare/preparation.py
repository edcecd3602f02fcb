"""From a benchmark to problems.jsonl: filtered, split, counted, and the same bytes every time."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from maxatk.errors import InvalidValueError
from maxatk.folders import read_json, write_json
from maxatk.problems.benchmarks import prompts
from maxatk.problems.benchmarks.base import (
    Converted,
    LeftOut,
    Row,
    SolvedProblem,
    without_duplicate_tests,
)
from maxatk.problems.prepare.journal import Journal
from maxatk.problems.prepare.outputs import LineFile, Outputs, outputs
from maxatk.problems.prepare.overlap import KEY_COLUMNS, ContestKey, codeforces_keys, contest_keys
from maxatk.problems.prepare.sets import Overlap, PrepareSettings
from maxatk.problems.source import Source
from maxatk.records import Sample
from maxatk.verifier import Progress
from maxatk.version import VERSION

CountTokens = Callable[[str], int]


def prepare(
    settings: PrepareSettings,
    out: str | Path,
    *,
    solutions: str | Path | None = None,
    count_tokens: CountTokens | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Make a problems file (one for each part) as `settings` say and return its manifest.

    Beside it lie the reference solutions, the rows left out, and the manifest with the counts
    (`outputs` names them). Time is linear in the rows; memory holds one problem and the ids.
    The same call resumes a preparation that was killed, and leaves a finished one as it is. The
    files depend on settings, data and the version of the package alone. `count_tokens(prompt)` is
    needed for `max_prompt_tokens`; `progress(done, total)` counts rows.

    Where no row becomes a problem the files are empty. Raises InvalidValueError, MissingFileError
    and DataError, for what can be checked beforehand before the first row is converted.
    """
    files = outputs(Path(out), settings.parts, solutions=solutions)
    if settings.max_prompt_tokens is not None and count_tokens is None:
        raise InvalidValueError("count_tokens: is needed to count max_prompt_tokens")
    source = settings.source()
    source.check()
    identity = _identity(settings, source)
    finished = _finished(files, identity)
    if finished is not None:
        return finished
    with Journal(files.work, identity) as journal:
        stages = _Stages(settings, count_tokens, journal.ids)
        _convert_rows(source, settings, stages, journal, progress)
        manifest = {**identity, "counts": _counts(journal)}
        manifest["files"] = _write(files, journal, settings)
    write_json(files.manifest, manifest)
    files.work.unlink()
    return manifest


def split_ids(ids: Iterable[str], parts: Mapping[str, int], *, seed: int) -> dict[str, str]:
    """Return the part of every id: a random split in proportion to the weights, exact in size.

    The order is that of a hash of seed and id, so it depends neither on the order of the ids nor
    on the version of a random number generator. Raises InvalidValueError for an empty part.
    """
    order = sorted(ids, key=lambda name: hashlib.sha256(f"{seed}\0{name}".encode()).digest())
    total, weight, start = sum(parts.values()), 0, 0
    found: dict[str, str] = {}
    for part, share in parts.items():
        weight += share
        end = round(len(order) * weight / total)
        if end == start:
            raise InvalidValueError(
                f"parts: {len(order)} problems are too few, {part!r} would get none"
            )
        found |= dict.fromkeys(order[start:end], part)
        start = end
    return found


class _Stages:
    """The filters between a row's problem and the file, in the order in which they are counted."""

    def __init__(
        self, settings: PrepareSettings, count_tokens: CountTokens | None, ids: set[str]
    ) -> None:
        self._settings, self._count_tokens, self._ids = settings, count_tokens, ids
        self._taken = overlap_keys(settings.overlap) if settings.overlap else set()

    def apply(self, row: Row, solved: SolvedProblem) -> tuple[Converted, int]:
        """Return the problem as it is written and its dropped tests, or why it is left out."""
        settings, problem = self._settings, solved.problem
        if settings.overlap and codeforces_keys(row) & self._taken:
            return LeftOut(problem.id, f"is in {settings.overlap.benchmark} too"), 0
        if problem.id in self._ids:
            return LeftOut(problem.id, "an earlier row has its id"), 0
        longest = settings.max_solution_length
        if longest is not None and len(solved.solution or " " * (longest + 1)) > longest:
            return LeftOut(problem.id, f"has no solution of at most {longest} characters"), 0
        dropped = 0
        if settings.duplicate_tests == "drop":
            problem, dropped = without_duplicate_tests(problem)
        if settings.max_prompt_tokens is not None and self._count_tokens is not None:
            tokens = self._count_tokens(problem.prompt)
            if tokens > settings.max_prompt_tokens:
                reason = f"its prompt is longer than {settings.max_prompt_tokens} tokens"
                return LeftOut(problem.id, reason), 0
        return dataclasses.replace(solved, problem=problem), dropped


def overlap_keys(overlap: Overlap) -> set[ContestKey]:
    """Return the (contest, index) keys of every problem of another data set."""
    return {
        key
        for source in overlap.sources()
        for _, row in source.rows(only=KEY_COLUMNS)
        for key in contest_keys(row)
    }


def _convert_rows(
    source: Source,
    settings: PrepareSettings,
    stages: _Stages,
    journal: Journal,
    progress: Progress | None,
) -> None:
    total, counts = source.count(), journal.counts
    for row, outcome in source.outcomes(start=counts.rows, bad_rows=settings.bad_rows):
        if settings.limit is not None and counts.kept == settings.limit:
            break
        dropped = 0
        if isinstance(outcome, SolvedProblem):
            outcome, dropped = stages.apply(row, outcome)
        if isinstance(outcome, SolvedProblem):
            journal.keep(outcome, dropped=dropped)
        else:
            journal.leave_out(outcome)
        if progress is not None:
            progress(counts.rows, max(total or 0, counts.rows + (total is None)))
    if progress is not None and counts.rows != total:
        progress(counts.rows, counts.rows)


def _identity(settings: PrepareSettings, source: Source) -> dict[str, Any]:
    overlap = settings.overlap
    chosen = dataclasses.asdict(settings)
    for place in ("file", "split", "revision", "options", "benchmark", "overlap"):
        del chosen[place]  # `source` and `overlap` say what they stand for
    return {
        "version": VERSION,
        "prompts": prompts.VERSION,
        "source": source.describe(),
        "overlap": [found.describe() for found in overlap.sources()] if overlap else [],
        "settings": chosen,
    }


def _finished(files: Outputs, identity: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the manifest of the same preparation where all its files still lie as written."""
    if files.work.exists() or not files.manifest.is_file():
        return None
    manifest = read_json(files.manifest)
    before = {name: manifest.get(name) for name in identity}
    if before != json.loads(json.dumps(identity)):
        return None
    paths = [*files.problems.values(), *files.solutions.values(), files.left_out]
    return manifest if all(path.is_file() for path in paths) else None


def _counts(journal: Journal) -> dict[str, Any]:
    counts = journal.counts
    numbers = {f.name: getattr(counts, f.name) for f in dataclasses.fields(counts)}
    return {**numbers, "left_out": dict(numbers.pop("reasons").most_common())}


def _write(files: Outputs, journal: Journal, settings: PrepareSettings) -> dict[str, Any]:
    """Write problems, solutions and the rows left out; return name, lines and SHA-256 of each."""
    parts = settings.parts if journal.ids else {}
    part_of = split_ids(journal.ids, parts, seed=settings.seed)
    with contextlib.ExitStack() as stack:
        problems = {
            name: stack.enter_context(LineFile(path)) for name, path in files.problems.items()
        }
        solutions = {
            name: stack.enter_context(LineFile(path)) for name, path in files.solutions.items()
        }
        left_out = stack.enter_context(LineFile(files.left_out))
        for kept in journal.kept():
            part = part_of.get(kept.problem_id, "")
            problems[part].write(kept.problem)
            if kept.solution is not None:
                sample = Sample(problem_id=kept.problem_id, sample=0, completion=kept.solution)
                solutions[part].write(json.dumps(sample.to_json()))
        for row in journal.left_out():
            left_out.write(json.dumps(dataclasses.asdict(row)))
    written = [*problems.values(), *solutions.values(), left_out]
    return {lines.path.name: {"lines": lines.count, "sha256": lines.sha256} for lines in written}
