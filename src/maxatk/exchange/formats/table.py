"""A plain table: problem_id, sample, reward, and further numbers."""

from __future__ import annotations

from collections.abc import Mapping

from maxatk.exchange import log
from maxatk.exchange.log import LogFormat, LogRow, RawRow

_OWN = ("problem_id", "sample", "reward", "completion", "prompt", "answer")


def _convert(row: RawRow, mapping: Mapping[str, str]) -> list[LogRow]:
    """Return the sample of a row; what `mapping` gives need not be there.

    A row of a completion without a reward is one to be verified.
    """
    problem_id, reward = "", None
    if "problem_id" not in mapping:
        problem_id = log.identifier(log.field(row, "problem_id"), "problem_id")
    if "reward" not in mapping and ("reward" in row or row.get("completion") is None):
        reward = log.reward(log.field(row, "reward"), "reward")
    sample = row.get("sample")
    completion, prompt = row.get("completion"), row.get("prompt")
    return [
        LogRow(
            problem_id,
            None if sample is None else log.index(sample, "sample"),
            completion if isinstance(completion, str) else None,
            reward,
            log.numbers(row, without=(*_OWN, *mapping.values())),
            prompt=prompt if isinstance(prompt, str) else None,
        )
    ]


FORMAT = LogFormat(
    title="a table of problem_id, sample, reward",
    matches=lambda row: "problem_id" in row and ("reward" in row or "completion" in row),
    convert=_convert,
)
