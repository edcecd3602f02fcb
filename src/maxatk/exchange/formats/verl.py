"""verl: the JSON lines of `rollout_data_dir` and `validation_data_dir`, one file a step.

An input is its own id. Rows with which verl fills a rollout batch are no samples.

Source: github.com/volcengine/verl, `trainer_base.py`, `_dump_generations`; `padding_utils.py`,
`upsample_batch_to_divisible_size`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from maxatk.exchange import log
from maxatk.exchange.log import LogFormat, LogRow, RawRow

_OWN = ("input", "output", "gts", "score")
_FILLS = re.compile(r"pad[0-9a-f]{32}_\d+_\d+")


def _convert(row: RawRow, _: Mapping[str, str]) -> list[LogRow]:
    if _FILLS.fullmatch(str(row.get("uid"))):
        return []
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
