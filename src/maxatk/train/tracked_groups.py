"""The groups of a step on the trackers that show texts: a table of W&B, traces of trackio."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

GROUPS = "groups"
"""The name of the table and of the traces."""


def send(rows: Sequence[Mapping[str, Any]], *, trackers: Sequence[str], step: int) -> None:
    """Send the rows of some groups, as `group_row` has them, to those of `trackers` that are on.

    A completion is a row of a table, or a trace with its prompt; `step` is the optimizer step.
    """
    samples = [_flat(row, sample) for row in rows for sample in row["samples"]]
    if "wandb" in trackers and (wandb := importlib.import_module("wandb")).run is not None:
        columns = list(dict.fromkeys(name for sample in samples for name in sample))
        data = [[sample.get(name) for name in columns] for sample in samples]
        table = wandb.Table(columns=columns, data=data)
        wandb.log({GROUPS: table, "train/global_step": step})
    if "trackio" in trackers:
        trackio = importlib.import_module("trackio")
        traces = [trackio.Trace(*_turns_and_rest(sample)) for sample in samples]
        trackio.log({GROUPS: traces, "train/global_step": step})


def _flat(row: Mapping[str, Any], sample: Mapping[str, Any]) -> dict[str, Any]:
    about = {"step": row["step"], "group": row["group"], "k": row["k"], "prompt": row["prompt"]}
    named = {f"rewards/{name}": value for name, value in sample.get("rewards", {}).items()}
    plain = {name: value for name, value in sample.items() if name not in ("rewards", "failure")}
    failure = {"failure": json.dumps(sample["failure"])} if "failure" in sample else {}
    return {**about, **plain, **named, **failure}


def _turns_and_rest(sample: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    turns = [("user", sample["prompt"]), ("assistant", sample["text"])]
    rest = {name: value for name, value in sample.items() if name not in ("prompt", "text")}
    return [{"role": role, "content": text} for role, text in turns], rest
