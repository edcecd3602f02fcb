"""The log and the record of a training by verl, under the names that a training by TRL has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maxatk.check import is_number
from maxatk.training import Groups, Step, TrainingRecord
from maxatk.training.keys import REWARD
from maxatk.verl.loss import response_lengths
from maxatk.verl.rows import returned

FIELDS = ("prompts", "responses", "extra_fields", "extra_info")  # of verl's batch, that are shown

_OWN = "maxatk/"  # what keys of verl's log begin with that are named as in a training by TRL
_NAMES = {
    "actor/pg_loss": "loss",
    "actor/grad_norm": "grad_norm",
    "actor/kl_loss": "kl",
    "actor/pg_clipfrac": "clip_ratio/region_mean",
    "response_length/mean": "completions/mean_length",
    "response_length/clip_ratio": "completions/clipped_ratio",
    "timing_s/step": "step_time",
}


def logged_values(step: Step) -> dict[str, float]:
    """Return the log values of a step as verl's log has them."""
    values = {**step.metrics, REWARD: step.mean_reward}
    return {_OWN + name: value for name, value in values.items()}


def log_row(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return a row of verl's log with the names of a training by TRL, and nothing else of it."""
    row = {
        name.removeprefix(_OWN): float(value)
        for name, value in metrics.items()
        if name.startswith(_OWN)
    }
    for verls_name, name in _NAMES.items():
        if verls_name in metrics:
            row[name] = float(metrics[verls_name])
    return row


def record_groups(
    record: TrainingRecord,
    groups: Groups,
    step: Step,
    *,
    number: int,
    members: list[list[list[int]]],
    data: Any,
    tokenizer: Any,
) -> None:
    """Write the first groups of a rollout batch, after the optimizer step of that `number`.

    `members` are the rows of each sample of the groups; `data` has `FIELDS` and the mask of
    responses.
    """
    lengths = response_lengths(data)

    def text(column: str, row: int) -> str:
        return str(tokenizer.decode(data[column][row], skip_special_tokens=True))

    def whole_text(rows: list[int]) -> str:
        return "\n\n".join(text("responses", row) for row in rows)

    kept = members[: record.most]
    record.add(
        number,
        groups,
        step.advantages,
        prompts=[text("prompts", samples[0][0]) for samples in kept],
        texts=[[whole_text(rows) for rows in samples] for samples in kept],
        ids=[_problem_id(data, samples[0][0]) for samples in kept],
        tokens=[[int(lengths[rows].sum()) for rows in samples] for samples in kept],
        tests=[
            [_tests(returned(data["extra_fields"][rows[-1]])) for rows in samples]
            for samples in kept
        ],
    )


def _problem_id(data: Any, row: int) -> Any:
    extra = data["extra_info"][row] if "extra_info" in data else None
    return extra.get("id") if isinstance(extra, Mapping) else None


def _tests(extra: Mapping[str, Any]) -> dict[str, int]:
    """Return what tests said, where the reward function returned it."""
    passed = extra.get("passed")
    total = extra.get("total")
    if not (is_number(passed) and total):
        return {}
    return {"passed": int(passed), "tests": int(total)}
