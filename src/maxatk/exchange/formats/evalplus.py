"""EvalPlus: `*_eval_results.json`, one object with the samples of every task.

Source: github.com/evalplus/evalplus, `evaluate.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maxatk.errors import DataError
from maxatk.exchange import log
from maxatk.exchange.log import LogFormat, LogRow, RawRow

_PASS = "pass"


def _convert(row: RawRow, _: Mapping[str, str]) -> list[LogRow]:
    tasks = log.field(row, "eval")
    if not isinstance(tasks, dict):
        raise DataError(f"field 'eval': must be an object of tasks, got {tasks!r:.60}")
    return [
        _sample(task, number, sample)
        for task, samples in tasks.items()
        for number, sample in enumerate(samples)
    ]


def _sample(task: str, number: int, sample: Any) -> LogRow:
    if not isinstance(sample, dict) or not isinstance(sample.get("base_status"), str):
        raise DataError(
            f"field 'eval.{task}.{number}.base_status': must be text, got {sample!r:.60}"
        )
    base = float(sample["base_status"] == _PASS)
    columns = {"base": base}
    if sample.get("plus_status") is not None:  # absent where only the base tests were run
        columns["plus"] = base * float(sample["plus_status"] == _PASS)
    solution = log.text(sample, "solution") if sample.get("solution") is not None else None
    return LogRow(task, number, solution, columns.get("plus", base), columns, program=solution)


FORMAT = LogFormat(
    title="EvalPlus's eval_results.json",
    matches=lambda row: isinstance(row.get("eval"), dict) and "hash" in row,
    convert=_convert,
)
