"""inspect_ai: its logs, `.eval` and `.json`, through its own reader.

An epoch is a sample. The score of one scorer is the reward, letters as inspect reads them (C is 1,
P one half, I and N are 0); with several scorers `--map scorer=NAME` chooses. Every score is a
column.

Source: inspect.aisi.org.uk/eval-logs.html.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from maxatk.errors import DataError, MissingDependencyError, MissingFileError
from maxatk.exchange import log
from maxatk.exchange.log import LogFormat, LogRow, PlacedRow, RawRow

_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}


def _rows(path: Path) -> Iterator[PlacedRow]:
    if not path.is_file():
        raise MissingFileError(f"{path}: no such file")
    try:
        from inspect_ai.log import read_eval_log
    except ImportError as error:
        raise MissingDependencyError(
            "logs of inspect need the package 'inspect_ai': pip install 'maxatk[inspect]'"
        ) from error
    try:
        samples = read_eval_log(str(path)).samples or []
    except Exception as error:  # its own errors, zipfile's and pydantic's
        raise DataError(f"{path}: inspect_ai does not read it: {error}") from error
    for sample in samples:
        place = f"{path}, sample {sample.id}, epoch {sample.epoch}"
        yield place, functools.partial(_as_row, sample)


def _as_row(sample: Any) -> RawRow:
    return {
        "id": sample.id,
        "epoch": sample.epoch,
        "input": sample.input,
        "target": sample.target,
        "completion": sample.output.completion,
        "scores": {name: score.value for name, score in (sample.scores or {}).items()},
        "error": None if sample.error is None else sample.error.message,
    }


def _convert(row: RawRow, mapping: Mapping[str, str]) -> list[LogRow]:
    scores = {name: _value(value, name) for name, value in row["scores"].items()}
    scorer = mapping.get("scorer") or next(iter(scores), None)
    if ("scorer" not in mapping and len(scores) > 1) or (scores and scorer not in scores):
        raise DataError(f"field 'scores': has {', '.join(scores)}; --map scorer=NAME chooses one")
    prompt = row["input"]
    if not isinstance(prompt, str):
        prompt = "\n".join(message.text for message in prompt)
    target = row["target"]
    return [
        LogRow(
            log.identifier(row["id"], "id"),
            row["epoch"] - 1,
            row["completion"],
            scores.get(scorer) if scorer else None,  # None too where the sample failed
            {name: value for name, value in scores.items() if value is not None},
            prompt=prompt,
            answer=target if isinstance(target, str) else "\n".join(target),
        )
    ]


def _value(value: Any, scorer: str) -> float | None:
    if isinstance(value, str) and value in _LETTERS:
        return _LETTERS[value]
    return log.reward(value, f"scores.{scorer}")


FORMAT = LogFormat(
    title="a log of inspect_ai",
    matches=lambda row: {"eval", "plan", "version"} <= row.keys() or "epoch" in row,
    convert=_convert,
    choices=("scorer",),
    rows=_rows,
)
