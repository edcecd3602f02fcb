"""A run as a log of inspect_ai, made of its own types; importing this needs inspect_ai."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalLog,
    EvalSample,
    EvalSpec,
    write_eval_log,
)
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import Score as InspectScore

from maxatk.records import Problem, Sample, Score

SCORER = "maxatk"


def as_log(rows: Sequence[tuple[Score, Sample | None, Problem | None]], model: str) -> EvalLog:
    """Return the log of a run: a sample of ours is an epoch, its reward the score of `maxatk`.

    Epochs count from 1. A sample without a reward has no score.
    """
    ids = list(dict.fromkeys(score.problem_id for score, _, _ in rows))
    epochs = max(score.sample for score, _, _ in rows) + 1
    spec = EvalSpec(
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        task="maxatk",
        dataset=EvalDataset(samples=len(ids), sample_ids=list(ids)),
        model=model,
        config=EvalConfig(epochs=epochs),
    )
    return EvalLog(
        status="success", eval=spec, samples=[_sample(*row, model=model) for row in rows]
    )


def _sample(
    score: Score, sample: Sample | None, problem: Problem | None, *, model: str
) -> EvalSample:
    completion = "" if sample is None else sample.completion
    reward = {} if score.reward is None else {SCORER: InspectScore(value=score.reward)}
    return EvalSample(
        id=score.problem_id,
        epoch=score.sample + 1,
        input="" if problem is None else problem.prompt,
        target="" if problem is None or problem.answer is None else problem.answer,
        output=ModelOutput.from_content(model, completion),
        scores=reward,
        metadata={} if problem is None else dict(problem.meta),
    )


def write_log(log: EvalLog, out: Path) -> None:
    """Write a log with inspect's own writer."""
    write_eval_log(log, str(out))
