"""Load problems by name: a benchmark of `BENCHMARKS`, or the path of a problems.jsonl."""

from __future__ import annotations

import dataclasses
import itertools
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from maxatk.errors import (
    DataError,
    InvalidValueError,
    MissingDependencyError,
    MissingFileError,
    unknown_name,
)
from maxatk.problems import code_contests, mbpp
from maxatk.problems.rows import LeftOut, SolvedProblem
from maxatk.records import Problem, read_jsonl

_log = logging.getLogger(__name__)

# Each module has HUB (name, configuration), SPLITS and `convert(row)`. A new benchmark is one
# module and one row.
BENCHMARKS: dict[str, ModuleType] = {
    "mbpp": mbpp,
    "code_contests": code_contests,
}


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
) -> list[Problem]:
    """Return the problems of a benchmark, or of a problems.jsonl when `name` is a path.

    `split` defaults to the benchmark's test split; `limit` keeps the first problems; `file` is a
    local JSONL or JSON file of the benchmark's own schema, read instead of the hub's data set.
    Rows that do not make a problem are left out and counted in a log message.

    Raises InvalidValueError for an unknown name or split, MissingFileError without the file,
    DataError for a row that does not have the schema.
    """
    _check_limit(limit)
    if str(name) in BENCHMARKS:
        loaded = load_benchmark(str(name), split=split, limit=limit, file=file)
        if loaded.left_out:
            _log.warning("%s: %d rows were left out", name, len(loaded.left_out))
        return [solved.problem for solved in loaded.solved]
    if Path(name).suffix != ".jsonl":
        raise unknown_name("problems", str(name), [*BENCHMARKS, "a path ending in .jsonl"])
    if split is not None or file is not None:
        raise InvalidValueError("split, file: are for benchmarks; a problems.jsonl has neither")
    rows = itertools.islice(read_jsonl(name, Problem.from_json), limit)
    return list(problems_by_id(rows, source=str(name)).values())


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
) -> Loaded:
    """Return the problems of a benchmark with reference solutions and the rows left out.

    Arguments and errors are those of `load_problems`.
    """
    if name not in BENCHMARKS:
        raise unknown_name("problems", name, BENCHMARKS)
    _check_limit(limit)
    module = BENCHMARKS[name]
    if split is not None and split not in module.SPLITS:
        raise unknown_name("split", split, module.SPLITS)
    if file is not None and split is not None:
        raise InvalidValueError(
            f"split: a local file is read whole, so {split!r} cannot be chosen from it; leave out "
            "split or file"
        )
    rows = _file_rows(Path(file)) if file else _hub_rows(module, split or "test")
    solved: list[SolvedProblem] = []
    left_out: list[LeftOut] = []
    for number, row in enumerate(rows):
        if limit is not None and len(solved) == limit:
            break
        converted = _convert(module, row, place=f"{file or name}, row {number}")
        (solved if isinstance(converted, SolvedProblem) else left_out).append(converted)
    return Loaded(solved=tuple(solved), left_out=tuple(left_out))


def _check_limit(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise InvalidValueError(f"limit: must be at least 1, got {limit}")


def _convert(module: ModuleType, row: Mapping[str, Any], *, place: str) -> Any:
    try:
        return module.convert(row)
    except KeyError as error:
        raise DataError(f"{place}: missing column {error.args[0]!r}; got {sorted(row)}") from error
    except (TypeError, AttributeError, ValueError) as error:
        raise DataError(f"{place}: does not have the schema ({error})") from error


def _file_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    if path.suffix == ".jsonl":
        return read_jsonl(path, lambda row: row)
    if not path.is_file():
        raise MissingFileError(f"file: {str(path)!r} does not exist")
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # text that is not UTF-8 is one too
        raise DataError(f"{path}: not a JSON file ({error})") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{path}: must hold a JSON array of rows")
    return iter(rows)


def _hub_rows(module: ModuleType, split: str) -> Iterable[Mapping[str, Any]]:
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise MissingDependencyError(
            "loading a benchmark from the hub needs the package 'datasets': "
            "pip install 'maxatk[train]', or give a local file"
        ) from error
    name, configuration = module.HUB
    try:
        rows: Iterable[Mapping[str, Any]] = load_dataset(
            name, configuration, split=split, streaming=True
        )
    except (OSError, ValueError) as error:
        raise DataError(
            f"{name}: cannot be loaded from the hub ({error}); without a network, give a local "
            "file of the same schema with file="
        ) from error
    return rows
