"""From a benchmark to problems.jsonl: filtered, split, counted, and the same bytes every time."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from maxatk.check import at_least, is_whole, require
from maxatk.errors import InvalidValueError
from maxatk.folders import atomic_write, file_digest, read_json, write_json
from maxatk.problems.benchmarks.base import PROMPTS_VERSION, Converted, LeftOut, SolvedProblem
from maxatk.problems.source import BadRows, Overlap, Source, contest_keys, open_source
from maxatk.records import Sample
from maxatk.settings import from_mapping
from maxatk.verifier import Progress
from maxatk.version import VERSION

CountTokens = Callable[[str], int]
_PARTS = 2  # a random split has at least so many


@dataclasses.dataclass(frozen=True)
class PrepareSettings:
    """How one problems file is made of one benchmark.

    `benchmark`, `split`, `file`, `revision`, `options` and `limit` are those of `load_problems`.
    `max_prompt_tokens` leaves out longer prompts, counted by `tokenizer` (a model's folder or hub
    name) in its chat template. `max_solution_length` leaves out problems whose reference solution
    has more characters, or that have none: a rough measure of difficulty. `overlap` leaves out the
    problems another data set holds. `bad_rows` "leave_out" leaves out rows without the schema
    instead of stopping. `parts` (name -> weight) splits the problems at random by `seed`, in
    proportion to the weights.
    """

    benchmark: str
    split: str | None = None
    file: str | None = None
    revision: str | None = None
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    limit: int | None = None
    tokenizer: str | None = None
    max_prompt_tokens: int | None = None
    max_solution_length: int | None = None
    overlap: Overlap | None = None
    bad_rows: BadRows = "stop"
    parts: dict[str, int] = dataclasses.field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("limit", "max_prompt_tokens", "max_solution_length"):
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
        require(len(self.parts) not in range(1, _PARTS), "parts", "two or more", sorted(self.parts))
        for name, weight in self.parts.items():
            require(is_whole(weight, 1), f"parts.{name}", "a positive number", weight)
            if not str(name).replace("_", "").replace("-", "").isalnum():
                raise InvalidValueError(f"parts: {name!r} must be a word, it names a file")

    def source(self) -> Source:
        """Return the benchmark's source; the errors are those of `open_source`."""
        return open_source(
            self.benchmark,
            split=self.split,
            file=self.file,
            revision=self.revision,
            options=self.options,
        )


def read_sets(recipe: Mapping[str, Any]) -> dict[str, PrepareSettings]:
    """Return the settings of every set of a recipe: a mapping with the key `sets`.

    `tokenizer` and `seed` beside `sets` hold for the sets that have none of their own. Raises
    InvalidValueError naming the key, the value and what is allowed.
    """
    shared = from_mapping(_DataRecipe, recipe, where="recipe")
    if not shared.sets:
        raise InvalidValueError("recipe.sets: must name at least one set")
    found = {}
    for name, settings in shared.sets.items():
        where = f"recipe.sets.{name}"
        require(isinstance(settings, Mapping), where, "a mapping of settings", settings)
        given = {"tokenizer": shared.tokenizer, "seed": shared.seed, **settings}
        found[str(name)] = from_mapping(PrepareSettings, given, where=where)
    return found


@dataclasses.dataclass(frozen=True)
class _DataRecipe:
    sets: dict[str, Any]
    tokenizer: str | None = None
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class Outputs:
    """The files of one preparation: `problems` by part, named by the caller, and what lies beside.

    `left_out` lists the rows left out with the reason; `manifest` holds settings, counts, hashes.
    """

    problems: dict[str, Path]
    left_out: Path
    manifest: Path
    work: Path

    @property
    def data(self) -> list[Path]:
        """All files but the manifest."""
        problems = self.problems.values()
        return [*problems, *map(solutions_file, problems), self.left_out]


def outputs(out: Path, parts: Iterable[str] = ()) -> Outputs:
    """Return the files of a preparation into `out`; with parts, one file for each: out-PART.jsonl.

    Raises InvalidValueError where `out` does not end in .jsonl.
    """
    if out.suffix != ".jsonl":
        raise InvalidValueError(f"out: {str(out)!r} must end in .jsonl")
    return Outputs(
        {name: out.with_name(f"{out.stem}-{name}.jsonl") for name in parts} or {"": out},
        left_out=out.with_suffix(".left_out.jsonl"),
        manifest=out.with_suffix(".manifest.json"),
        work=out.with_suffix(".work"),
    )


def solutions_file(problems: Path) -> Path:
    """Return where the reference solutions of a problems file lie: X.solutions.jsonl beside X."""
    return problems.with_suffix(".solutions.jsonl")


class Journal:
    """A context manager over the working file; what an earlier run left there is read first.

    Its first line says which preparation it is, every other is a row of the data set: five JSON
    texts with tabs between them, of id, problem, solution or reason, tests and dropped tests. A
    torn last line is dropped; a file of another preparation is begun anew. `rows` and `ids` are
    those of the file.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        self.path, self.rows, self.ids = path, 0, set[str]()
        header = json.dumps(identity, sort_keys=True).encode() + b"\n"
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+b")
        self._file.seek(0)
        end = 0
        if self._file.readline() == header:
            end = len(header)
            for line in self._file:
                if not line.endswith(b"\n"):
                    break
                end += len(line)
                self._count(line.decode())
        self._file.truncate(end)
        if not end:
            self._file.write(header)

    def add(self, row: Converted) -> None:
        """Append what a row of the data set has become."""
        fields: list[Any]
        if isinstance(row, LeftOut):
            fields = [row.row_id, None, dataclasses.asdict(row), 0, 0]
        else:
            problem, solution = row.problem, row.solution
            sample = None if solution is None else Sample(problem.id, 0, solution).to_json()
            fields = [problem.id, problem.to_json(), sample, len(problem.tests), row.dropped]
        line = "\t".join(map(json.dumps, fields)) + "\n"
        self._file.write(line.encode())
        self._count(line)

    def texts(self) -> Iterator[list[str]]:
        """Yield the five texts of every row, in the order of the file."""
        self._file.flush()
        with self.path.open() as lines:
            next(lines)
            yield from (line.rstrip("\n").split("\t") for line in lines)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _count(self, line: str) -> None:
        self.rows += 1
        name, problem, _ = line.split("\t", 2)
        if problem != "null":
            self.ids.add(json.loads(name))


def prepare(
    settings: PrepareSettings,
    out: str | Path,
    *,
    count_tokens: CountTokens | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Make a problems file (one for each part) as `settings` say and return its manifest.

    Beside it lie the reference solutions, the rows left out, and the manifest (`outputs` names
    them). Memory holds one problem and the ids. The same call resumes a preparation that was
    killed, and leaves a finished one as it is. `count_tokens(prompt)` is needed for
    `max_prompt_tokens`; `progress(done, total)` counts rows. Raises InvalidValueError,
    MissingFileError and DataError, before the first row is converted where that can be.
    """
    files = outputs(Path(out), settings.parts)
    if settings.max_prompt_tokens is not None and count_tokens is None:
        raise InvalidValueError("count_tokens: is needed to count max_prompt_tokens")
    source = settings.source()
    source.check()
    identity = _identity(settings, source)
    finished = _finished(files, identity)
    if finished is not None:
        return finished
    with Journal(files.work, identity) as journal:
        _convert_rows(source, settings, journal, count_tokens, progress)
        manifest = {**identity, **_write(files, journal, settings)}
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


def _convert_rows(
    source: Source,
    settings: PrepareSettings,
    journal: Journal,
    count_tokens: CountTokens | None,
    progress: Progress | None,
) -> None:
    overlap = settings.overlap
    taken = overlap.keys() if overlap else set()
    for row, made in source.outcomes(start=journal.rows, bad_rows=settings.bad_rows):
        if len(journal.ids) == settings.limit:
            break
        if isinstance(made, SolvedProblem):
            name = made.problem.id
            if overlap and contest_keys(row) & taken:
                made = LeftOut(name, f"is in {overlap.benchmark} too")
            elif name in journal.ids:
                made = LeftOut(name, "an earlier row has its id")
            elif reason := _too_long(made, settings, count_tokens):
                made = LeftOut(name, reason)
        journal.add(made)
        if progress is not None:
            progress(journal.rows, journal.rows + 1)  # only reading them all would tell how many
    if progress is not None:
        progress(journal.rows, journal.rows)


def _too_long(
    solved: SolvedProblem, settings: PrepareSettings, count_tokens: CountTokens | None
) -> str | None:
    longest, solution = settings.max_solution_length, solved.solution
    if longest is not None and (not solution or len(solution) > longest):
        return f"has no solution of at most {longest} characters"
    most = settings.max_prompt_tokens
    if most is not None and count_tokens and count_tokens(solved.problem.prompt) > most:
        return f"its prompt is longer than {most} tokens"
    return None


def _identity(settings: PrepareSettings, source: Source) -> dict[str, Any]:
    overlap = settings.overlap
    chosen = dataclasses.asdict(settings)
    for place in ("file", "split", "revision", "options", "benchmark", "overlap"):
        del chosen[place]  # `source` and `overlap` say what they stand for
    return {
        "version": VERSION,
        "prompts": PROMPTS_VERSION,
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
    return manifest if all(path.is_file() for path in files.data) else None


def _write(files: Outputs, journal: Journal, settings: PrepareSettings) -> dict[str, Any]:
    """Write all files but the manifest; return the counts, and lines and SHA-256 of each file."""
    part_of = split_ids(journal.ids, settings.parts if journal.ids else {}, seed=settings.seed)
    counts = dict.fromkeys(("tests", "duplicates", "with_duplicates", "solutions"), 0)
    reasons, lines = Counter[str](), dict.fromkeys(files.data, 0)
    with contextlib.ExitStack() as stack:
        partial = {path: stack.enter_context(atomic_write(path)) for path in files.data}
        opened = {path: stack.enter_context(partial[path].open("w")) for path in files.data}

        def write(path: Path, text: str) -> None:
            opened[path].write(f"{text}\n")
            lines[path] += 1

        for name, problem, other, tests, dropped in journal.texts():
            if problem == "null":
                write(files.left_out, other)
                reasons[json.loads(other)["reason"]] += 1
                continue
            path = files.problems[part_of.get(json.loads(name), "")]
            write(path, problem)
            if other != "null":
                write(solutions_file(path), other)
                counts["solutions"] += 1
            counts["tests"] += int(tests)
            counts["duplicates"] += int(dropped)
            counts["with_duplicates"] += dropped != "0"
    counts = {"rows": journal.rows, "kept": len(journal.ids), **counts}
    return {
        "counts": {**counts, "left_out": dict(reasons.most_common())},
        "files": {p.name: {"lines": n, "sha256": file_digest(p)} for p, n in lines.items()},
    }
