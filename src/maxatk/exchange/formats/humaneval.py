"""human-eval: the lines of `evaluate_functional_correctness`, with `passed`.

Source: github.com/openai/human-eval, `evaluation.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from maxatk.errors import DataError
from maxatk.exchange import log
from maxatk.exchange.log import LogFormat, LogRow, RawRow


def _convert(row: RawRow, _: Mapping[str, str]) -> list[LogRow]:
    passed = row.get("passed")
    if not isinstance(passed, bool):
        raise DataError(f"field 'passed': must be true or false, got {passed!r:.60}")
    task = log.identifier(log.field(row, "task_id"), "task_id")
    return [LogRow(task, completion=log.text(row, "completion"), reward=float(passed))]


FORMAT = LogFormat(
    title="human-eval's results",
    matches=lambda row: {"task_id", "completion", "passed"} <= row.keys(),
    convert=_convert,
)
