"""From a benchmark to problems.jsonl: filtered, split, counted, and the same bytes every time."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from maxatk.check import (
    as_path,
    at_least,
    existing_file,
    function_or_none,
    is_whole,
    require,
)
from maxatk.errors import DataError, InvalidValueError, MissingFileError, counted
from maxatk.folders import file_digest, read_json, write_json
from maxatk.problems.benchmarks.base import (
    PROMPTS_VERSION,
    Checker,
    LeftOut,
    SolvedProblem,
)
from maxatk.problems.checkers import read_checkers, refuse_strangers, with_checker
from maxatk.problems.journal import Journal, is_journal
from maxatk.problems.load import solutions_file
from maxatk.problems.overlap import Overlap, contest_keys
from maxatk.problems.source import BadRows, Source
from maxatk.python_numbers import use_python_numbers
from maxatk.settings import from_mapping
from maxatk.verifier import Progress
from maxatk.version import VERSION
from maxatk.writing import atomic_write, check_file

CountTokens = Callable[[str], int]

_MANIFEST = ".manifest.json"  # beside the problems: what they were made of
_LEFT_OUT = ".left_out.jsonl"  # beside the problems: the rows that make none, and the reasons
_WORK = ".work"  # beside the problems, while they are made


@dataclasses.dataclass(frozen=True)
class PrepareSettings(Source):
    """How one problems file is made of one benchmark.

    `max_prompt_tokens` leaves out longer prompts, counted by `tokenizer` (a model's folder or hub
    name) in its chat template. `max_solution_length` leaves out problems whose reference solution
    has more characters, or that have none: a rough measure of difficulty. `overlap` leaves out the
    problems another data set holds, `bad_rows` "leave_out" rows without the schema instead of
    stopping. `solutions` is how many of the programs known to solve a problem are written, where a
    row has several. `checkers` is a file for `read_checkers`. `parts` (name -> weight) splits at
    random by `seed`, in proportion to the weights.
    """

    limit: int | None = None
    tokenizer: str | None = None
    max_prompt_tokens: int | None = None
    max_solution_length: int | None = None
    overlap: Overlap | None = None
    bad_rows: BadRows = "stop"
    solutions: int = 1
    checkers: str | None = None
    parts: dict[str, int] = dataclasses.field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        use_python_numbers(self)
        super().__post_init__()
        for name in ("limit", "max_prompt_tokens", "max_solution_length", "solutions"):
            at_least(name, getattr(self, name), 1)
        if self.max_prompt_tokens is not None and self.tokenizer is None:
            raise InvalidValueError(
                "tokenizer: is needed to count max_prompt_tokens; name the policy's model"
            )
        if self.overlap is not None and self.benchmark != "codeforces":
            raise InvalidValueError(
                f"overlap: is for codeforces, whose ids other data sets share; got benchmark="
                f"{self.benchmark!r}"
            )
        if self.checkers is not None:
            existing_file(Path(self.checkers))
        require(len(self.parts) != 1, "parts", "two or more", sorted(self.parts))
        for name, weight in self.parts.items():
            require(is_whole(weight, 1), f"parts.{name}", "a positive number", weight)
            if not str(name).replace("_", "").replace("-", "").isalnum():
                raise InvalidValueError(f"parts: {name!r} must be a word, it names a file")


def read_sets(recipe: Mapping[str, Any]) -> dict[str, PrepareSettings]:
    """Return the settings of every set of a recipe: a mapping with the key `sets`.

    `tokenizer` and `seed` beside it are for sets without their own. Raises InvalidValueError.
    """
    shared = from_mapping(_DataRecipe, recipe, where="recipe")
    if not shared.sets:
        raise InvalidValueError("recipe.sets: must name at least one set")
    sets = {}
    for name, settings in shared.sets.items():
        where = f"recipe.sets.{name}"
        require(isinstance(settings, Mapping), where, "a mapping of settings", settings)
        with_shared = {"tokenizer": shared.tokenizer, "seed": shared.seed, **settings}
        sets[str(name)] = from_mapping(PrepareSettings, with_shared, where=where)
    return sets


@dataclasses.dataclass(frozen=True)
class _DataRecipe:
    sets: dict[str, Any]
    tokenizer: str | None = None
    seed: int = 0


def outputs(out: Path, parts: Iterable[str] = ()) -> dict[str, Path]:
    """Return the problems files of a preparation into `out` by part: out-PART.jsonl, or `out`.

    Raises InvalidValueError where `out` does not end in .jsonl.
    """
    if out.suffix != ".jsonl":
        raise InvalidValueError(f"out: {str(out)!r} must end in .jsonl")
    return {name: out.with_name(f"{out.stem}-{name}.jsonl") for name in parts} or {"": out}


def refuse_foreign_outputs(settings: PrepareSettings, out: str | Path) -> None:
    """Raise InvalidValueError where a file to be written is read, or of another than `prepare`."""
    require(isinstance(settings, PrepareSettings), "settings", "PrepareSettings", settings)
    out = as_path("out", out)
    reads = [*settings.files, settings.checkers]
    if settings.overlap is not None:
        reads += [path for source in settings.overlap.sources() for path in source.files]
    paths = _files(out, outputs(out, settings.parts))
    work = out.with_suffix(_WORK)
    for path in [*paths, out.with_suffix(_MANIFEST), work]:
        check_file("out", path, reads=reads)
    if work.exists() and not is_journal(work):
        _refuse_foreign(work, None)
    digests = _written_digests(out)
    is_begun = digests is None and work.exists()
    for path in paths:
        if path.exists() and not is_begun:
            _refuse_foreign(path, (digests or {}).get(path.name))
    if digests is None and out.with_suffix(_MANIFEST).exists():
        _refuse_foreign(out.with_suffix(_MANIFEST), None)


def _written_digests(out: Path) -> dict[str, str] | None:
    """Return the SHA-256 of each file by the manifest beside it, None where none is of ours."""
    path = out.with_suffix(_MANIFEST)
    try:
        files = read_json(path)["files"]
        return {name: file["sha256"] for name, file in files.items()}
    except (MissingFileError, DataError, LookupError, TypeError, AttributeError):
        return None


def _refuse_foreign(path: Path, written_digest: str | None) -> None:
    """Raise InvalidValueError for a file that is not as a preparation has written it."""
    if written_digest is None:
        raise InvalidValueError(
            f"out: {str(path)!r} exists, and `maxatk problems prepare` did not write it; name "
            "another file, or remove it"
        )
    if file_digest(path) != written_digest:
        raise InvalidValueError(
            f"out: {str(path)!r} has changed since `maxatk problems prepare` wrote it, and would "
            "be written over; name another file, or move it away and add it again afterwards"
        )


def _files(out: Path, problems: Mapping[str, Path]) -> list[Path]:
    """Return the files that a preparation writes, but for its manifest."""
    solutions = map(solutions_file, problems.values())
    return [*problems.values(), *solutions, out.with_suffix(_LEFT_OUT)]


def prepare(
    settings: PrepareSettings,
    out: str | Path,
    *,
    count_tokens: CountTokens | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Make a problems file (one for each part) as `settings` say and return its manifest.

    Beside X.jsonl lie its solutions, X.left_out.jsonl with the rows left out and the reasons, and
    X.manifest.json with settings, counts and hashes. Memory holds one problem and the ids. The same
    call resumes a preparation that was killed, and leaves a finished one as it is. `count_tokens`
    of a prompt is needed for `max_prompt_tokens`; `progress(done, total)` counts rows. Raises
    InvalidValueError, MissingFileError and DataError, before the first row where that can be.
    """
    refuse_foreign_outputs(settings, out)
    function_or_none("count_tokens", count_tokens)
    function_or_none("progress", progress)
    out = Path(out)
    problems = outputs(out, settings.parts)
    manifest_file = out.with_suffix(_MANIFEST)
    work = out.with_suffix(_WORK)
    if settings.max_prompt_tokens is not None and count_tokens is None:
        raise InvalidValueError("count_tokens: is needed to count max_prompt_tokens")
    settings.check()
    identity = _identity(settings)
    files = _files(out, problems)
    if manifest_file.is_file() and not work.exists() and all(map(Path.is_file, files)):
        manifest = read_json(manifest_file)
        # The file holds lists where `identity` has tuples: both are compared as JSON has them.
        if {name: manifest.get(name) for name in identity} == json.loads(json.dumps(identity)):
            return manifest
    checkers = read_checkers(settings.checkers) if settings.checkers is not None else {}
    with contextlib.closing(Journal(work, identity, solutions=settings.solutions)) as journal:
        _convert_rows(settings, journal, checkers, count_tokens, progress)
        if settings.limit is None:
            refuse_strangers(checkers, journal.ids, source=str(settings.checkers))
        # A kill between the files would leave some that are not those of the manifest before.
        manifest_file.unlink(missing_ok=True)
        manifest = {**identity, **_write(out, problems, journal, settings)}
        write_json(manifest_file, manifest)
        work.unlink()  # while it is held: it is nobody else's yet
    return manifest


def _identity(settings: PrepareSettings) -> dict[str, Any]:
    """Return what a preparation is made of: equal ones make the same files."""
    overlap = settings.overlap
    chosen = dataclasses.asdict(settings)
    for name in ("file", "split", "revision", "options", "benchmark", "overlap"):
        del chosen[name]  # `source` and `overlap` below describe them, files by their hashes
    if settings.checkers is None:
        del chosen["checkers"]
    else:
        chosen["checkers"] = file_digest(Path(settings.checkers))
    return {
        "version": VERSION,
        "prompts": PROMPTS_VERSION,
        "source": settings.describe(),
        "overlap": [source.describe() for source in overlap.sources()] if overlap else [],
        "settings": chosen,
    }


def split_ids(ids: Iterable[str], parts: Mapping[str, int], *, seed: int) -> dict[str, str]:
    """Return the part of every id: a random split in proportion to the weights, exact in size.

    By a hash of seed and id, whatever the order of the ids. Raises InvalidValueError for an empty
    part.
    """
    order = sorted(ids, key=lambda name: hashlib.sha256(f"{seed}\0{name}".encode()).digest())
    total = sum(parts.values())
    part_of: dict[str, str] = {}
    weight_so_far = 0
    start = 0
    for part, weight in parts.items():
        weight_so_far += weight
        end = round(len(order) * weight_so_far / total)
        if end == start:
            raise InvalidValueError(f"parts: {part!r} would get none of {counted(len(order))}")
        part_of |= dict.fromkeys(order[start:end], part)
        start = end
    return part_of


def _convert_rows(
    settings: PrepareSettings,
    journal: Journal,
    checkers: Mapping[str, Checker],
    count_tokens: CountTokens | None,
    progress: Progress | None,
) -> None:
    """Add the rows that the journal does not have yet, until `limit` problems are in it."""
    overlap = settings.overlap
    keys_elsewhere = overlap.keys() if overlap else set()
    for row, outcome in settings.outcomes(start=journal.rows, bad_rows=settings.bad_rows):
        if len(journal.ids) == settings.limit:
            break
        if isinstance(outcome, SolvedProblem):
            problem = with_checker(outcome.problem, checkers)
            outcome = dataclasses.replace(outcome, problem=problem)
            reason: str | None
            if overlap and contest_keys(row) & keys_elsewhere:
                reason = f"is in {overlap.benchmark} too"
            elif outcome.problem.id in journal.ids:
                reason = "an earlier row has its id"
            else:
                reason = _too_long(outcome, settings, count_tokens)
            if reason is not None:
                outcome = LeftOut(outcome.problem.id, reason)
        journal.add(outcome)
        if progress is not None:
            progress(journal.rows, journal.rows + 1)  # only reading them all would tell how many
    if progress is not None:
        progress(journal.rows, journal.rows)


def _too_long(
    solved: SolvedProblem, settings: PrepareSettings, count_tokens: CountTokens | None
) -> str | None:
    """Return why a problem is too long for the settings, or None where it is not."""
    longest = settings.max_solution_length
    solution = solved.solution
    if longest is not None and (not solution or len(solution) > longest):
        return f"has no solution of at most {longest} characters"
    most = settings.max_prompt_tokens
    if most is not None and count_tokens and count_tokens(solved.problem.prompt) > most:
        return f"its prompt is longer than {most} tokens"
    return None


def _write(
    out: Path, problems: Mapping[str, Path], journal: Journal, settings: PrepareSettings
) -> dict[str, Any]:
    """Write all files but the manifest; return the counts, and lines and SHA-256 of each file."""
    part_of = split_ids(journal.ids, settings.parts if journal.ids else {}, seed=settings.seed)
    counts = dict.fromkeys(("tests", "duplicates", "with_duplicates", "solutions"), 0)
    files = _files(out, problems)
    left_out = out.with_suffix(_LEFT_OUT)
    reasons: Counter[str] = Counter()
    lines = dict.fromkeys(files, 0)
    with contextlib.ExitStack() as stack:
        partial = {path: stack.enter_context(atomic_write(path)) for path in files}
        opened = {path: stack.enter_context(partial[path].open("w")) for path in files}

        def write(path: Path, text: str) -> None:
            opened[path].write(f"{text}\n")
            lines[path] += 1

        # The texts are JSON already and are written as they are: a problem may have megabytes.
        for name, problem, solutions_or_reason, tests, dropped in journal.texts():
            if problem == "null":
                write(left_out, solutions_or_reason)
                reasons[json.loads(solutions_or_reason)["reason"]] += 1
                continue
            path = problems[part_of.get(json.loads(name), "")]
            write(path, problem)
            for sample in json.loads(solutions_or_reason):
                write(solutions_file(path), json.dumps(sample))
                counts["solutions"] += 1
            counts["tests"] += int(tests)
            counts["duplicates"] += int(dropped)
            if dropped != "0":
                counts["with_duplicates"] += 1
    counts = {"rows": journal.rows, "kept": len(journal.ids), **counts}
    return {
        "counts": {**counts, "left_out": dict(reasons.most_common())},
        "files": {
            path.name: {"lines": count, "sha256": file_digest(path)}
            for path, count in lines.items()
        },
    }
