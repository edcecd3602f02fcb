"""lm-evaluation-harness: the samples_*.jsonl of `--log_samples`.

A row is a document under one filter. A task with several filters has several rows for a document:
`--map filter=NAME` chooses one. The metric of a row becomes the reward; a document that was
repeated has one metric for all its responses, so its samples carry no reward of their own.

Source: github.com/EleutherAI/lm-evaluation-harness, `evaluator.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maxatk.errors import DataError
from maxatk.exchange import log
from maxatk.exchange.log import LogFormat, LogRow, RawRow


def _convert(row: RawRow, mapping: Mapping[str, str]) -> list[LogRow]:
    if "filter" in mapping and row.get("filter") != mapping["filter"]:
        return []
    problem = log.identifier(log.field(row, "doc_id"), "doc_id")
    metrics = {
        name: number for name in _names(row) if (number := log.as_number(row.get(name))) is not None
    }
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


def _names(row: RawRow) -> list[str]:
    names = log.field(row, "metrics")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError(f"field 'metrics': must be a list of names, got {names!r:.60}")
    return names


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
    return value if isinstance(value, str) else None


FORMAT = LogFormat(
    title="lm-eval's samples",
    matches=lambda row: {"doc_id", "resps", "filtered_resps"} <= row.keys(),
    convert=_convert,
    choices=("filter",),
    single="filter",
)
