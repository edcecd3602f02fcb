"""verl: the JSON lines of `rollout_data_dir` and `validation_data_dir`, one file a step.

An input is its own id.

Source: github.com/volcengine/verl, `ray_trainer.py`, `_dump_generations`.
"""

from __future__ import annotations

from collections.abc import Mapping

from maxatk.exchange import log
from maxatk.exchange.log import LogFormat, LogRow, RawRow

_OWN = ("input", "output", "gts", "score")


def _convert(row: RawRow, _: Mapping[str, str]) -> list[LogRow]:
    prompt, truth = log.text(row, "input"), row.get("gts")
    return [
        LogRow(
            prompt,
            None,
            log.text(row, "output"),
            log.reward(log.field(row, "score"), "score"),
            log.numbers(row, without=_OWN),
            prompt=prompt,
            answer=None if truth is None else str(truth),
        )
    ]


FORMAT = LogFormat(
    title="verl's dumped generations",
    matches=lambda row: {"input", "output", "score"} <= row.keys(),
    convert=_convert,
)
