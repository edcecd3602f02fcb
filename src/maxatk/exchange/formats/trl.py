"""TRL: the parquet files of `log_completions`, one a logging step.

Every reward function has a column of its own. With one of them it is the reward; with several,
`--map reward=NAME` chooses. A prompt is its own id.

Source: github.com/huggingface/trl, `grpo_trainer.py`, `log`.
"""

from __future__ import annotations

from collections.abc import Mapping

from maxatk.errors import DataError
from maxatk.exchange import log
from maxatk.exchange.log import LogFormat, LogRow, RawRow

_OWN = ("step", "prompt", "completion", "advantage")


def _convert(row: RawRow, mapping: Mapping[str, str]) -> list[LogRow]:
    prompt = log.conversation(log.field(row, "prompt"))
    completion = log.conversation(log.field(row, "completion"))
    if not prompt or completion is None:
        raise DataError(f"field 'prompt': must be text or messages, got {row['prompt']!r:.60}")
    columns = log.numbers(row, without=())
    rewards = [name for name in columns if name not in _OWN]
    if "reward" not in mapping and len(rewards) != 1:
        raise DataError(
            f"field 'reward': {len(rewards)} columns may be it ({', '.join(rewards) or 'none'}); "
            "--map reward=NAME chooses one"
        )
    value = None if "reward" in mapping else columns[rewards[0]]
    return [LogRow(prompt, None, completion, value, columns, prompt=prompt)]


FORMAT = LogFormat(
    title="TRL's logged completions",
    matches=lambda row: {"step", "prompt", "completion", "advantage"} <= row.keys(),
    convert=_convert,
)
