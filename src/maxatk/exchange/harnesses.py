"""The logs of two evaluation harnesses: lm-evaluation-harness and inspect_ai."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.check import existing_file
from maxatk.errors import DataError, MissingDependencyError
from maxatk.exchange import log
from maxatk.exchange.log import LogFormat, LogRow, PlacedRow, RawRow
from maxatk.records import Problem, Sample, Score

SCORER = "maxatk"  # the scorer whose score is our reward, in the logs that are written

_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}


def _lm_eval(row: RawRow, mapping: Mapping[str, str]) -> list[LogRow]:
    """Read a row of samples_*.jsonl (`--log_samples`): a document under one filter.

    A task with several filters has several rows for a document: `--map filter=NAME` chooses one.
    The metric of a row becomes the reward; a document that was repeated has one metric for all its
    responses, so its samples carry no reward of their own.

    Source: github.com/EleutherAI/lm-evaluation-harness, `evaluator.py`.
    """
    if "filter" in mapping and row.get("filter") != mapping["filter"]:
        return []
    problem = log.identifier(log.field(row, "doc_id"), "doc_id")
    values = ((name, log.as_number(row.get(name))) for name in log.texts(row, "metrics"))
    metrics = {name: number for name, number in values if number is not None}
    prompt, answer = _prompt(row), row.get("target")
    responses = _responses(row)
    expected = None if answer is None else str(answer)
    alone = len(responses) == 1
    value = next(iter(metrics.values()), None) if alone else None
    columns = metrics if alone else {}
    return [
        LogRow(problem, number, response, value, columns, prompt=prompt, answer=expected)
        for number, response in enumerate(responses)
    ]


def _responses(row: RawRow) -> list[str]:
    # A list a request, and in it a list of repeats; a choice among answers has pairs instead.
    responses = log.field(row, "resps")
    inner = responses[0] if isinstance(responses, list) and len(responses) == 1 else None
    if not isinstance(inner, list) or not all(isinstance(item, str) for item in inner):
        raise DataError(
            "field 'resps': must be one list of generated texts; a task of multiple choice has "
            f"none, got {responses!r:.60}"
        )
    return inner


def _prompt(row: RawRow) -> str | None:
    value: Any = row.get("arguments")
    for name in ("gen_args_0", "arg_0"):
        value = value.get(name) if isinstance(value, Mapping) else None
    return log.text_or_none(value)


LM_EVAL = LogFormat(
    title="lm-eval's samples",
    matches=lambda row: {"doc_id", "resps", "filtered_resps"} <= row.keys(),
    convert=_lm_eval,
    choices=("filter",),
    single="filter",
)


def _inspect_rows(path: Path) -> Iterator[PlacedRow]:
    existing_file(path)
    try:
        from inspect_ai.log import read_eval_log
    except ImportError as error:
        raise _no_inspect() from error
    try:
        samples = read_eval_log(str(path)).samples or []
    except Exception as error:  # its own errors, zipfile's and pydantic's
        raise DataError(f"{path}: inspect_ai does not read it: {error}") from error
    for sample in samples:
        place = f"{path}, sample {sample.id}, epoch {sample.epoch}"
        yield place, functools.partial(_as_row, sample)


def _no_inspect() -> MissingDependencyError:
    return MissingDependencyError(
        "logs of inspect need the package 'inspect_ai': pip install 'maxatk[inspect]'"
    )


def _as_row(sample: Any) -> RawRow:
    return {
        "id": sample.id,
        "epoch": sample.epoch,
        "input": sample.input,
        "target": sample.target,
        "completion": sample.output.completion,
        "scores": {name: score.value for name, score in (sample.scores or {}).items()},
    }


def _inspect(row: RawRow, mapping: Mapping[str, str]) -> list[LogRow]:
    """Read a sample of a log, `.eval` or `.json`, that inspect's own reader has read.

    An epoch is a sample. The score of one scorer is the reward, letters as inspect reads them (C
    is 1, P one half, I and N are 0); with several scorers `--map scorer=NAME` chooses. Every score
    is a column.

    Source: inspect.aisi.org.uk/eval-logs.html.
    """
    scores = {name: _value(value, name) for name, value in row["scores"].items()}
    scorer = mapping.get("scorer") or next(iter(scores), None)
    if ("scorer" not in mapping and len(scores) > 1) or (scores and scorer not in scores):
        raise DataError(f"field 'scores': has {', '.join(scores)}; --map scorer=NAME chooses one")
    prompt, target = row["input"], row["target"]
    return [
        LogRow(
            log.identifier(row["id"], "id"),
            row["epoch"] - 1,
            row["completion"],
            scores.get(scorer) if scorer else None,  # None too where the sample failed
            {name: value for name, value in scores.items() if value is not None},
            prompt=prompt if isinstance(prompt, str) else "\n".join(m.text for m in prompt),
            answer=target if isinstance(target, str) else "\n".join(target),
        )
    ]


def _value(value: Any, scorer: str) -> float | None:
    if isinstance(value, str) and value in _LETTERS:
        return _LETTERS[value]
    return log.reward(value, f"scores.{scorer}")


INSPECT = LogFormat(
    title="a log of inspect_ai",
    matches=lambda row: (
        {"eval", "plan", "version"} <= row.keys() or {"epoch", "scores"} <= row.keys()
    ),
    convert=_inspect,
    choices=("scorer",),
    rows=_inspect_rows,
)


def write_inspect_log(
    rows: Sequence[tuple[Score, Sample | None, Problem | None]], model: str, out: Path
) -> None:
    """Write the log of a run with inspect's own writer: our samples are its epochs, from 1.

    The reward is the score of `SCORER`; a sample without a reward has no score. Raises
    MissingDependencyError without inspect_ai.
    """
    try:
        from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSpec, write_eval_log
    except ImportError as error:
        raise _no_inspect() from error
    ids = list(dict.fromkeys(score.problem_id for score, _, _ in rows))
    epochs = max(score.sample for score, _, _ in rows) + 1
    spec = EvalSpec(
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        task="maxatk",
        dataset=EvalDataset(samples=len(ids), sample_ids=list(ids)),
        model=model,
        config=EvalConfig(epochs=epochs),
    )
    samples = [_inspect_sample(*row, model=model) for row in rows]
    write_eval_log(EvalLog(status="success", eval=spec, samples=samples), str(out))


def _inspect_sample(
    score: Score, sample: Sample | None, problem: Problem | None, *, model: str
) -> Any:
    from inspect_ai.log import EvalSample
    from inspect_ai.model import ModelOutput
    from inspect_ai.scorer import Score as InspectScore

    return EvalSample(
        id=score.problem_id,
        epoch=score.sample + 1,
        input="" if problem is None else problem.prompt,
        target="" if problem is None or problem.answer is None else problem.answer,
        output=ModelOutput.from_content(model, "" if sample is None else sample.completion),
        scores={} if score.reward is None else {SCORER: InspectScore(value=score.reward)},
        metadata={} if problem is None else dict(problem.meta),
    )
