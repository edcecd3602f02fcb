"""Groups of completions sent to a tracker: a table of W&B, traces of trackio."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

_NAME = "groups"  # of the table and of the traces


def send_groups(
    rows: Sequence[Mapping[str, Any]],
    *,
    trackers: Sequence[str],
    step: int | None = None,
    beside: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Send rows of `group_log.group_row` to those of `trackers` that are on.

    `step` is that of the tracker, where the trainer gives it one; `beside` is logged with them.
    """
    if not rows:
        return
    samples = [_flat(row, sample) for row in rows for sample in row["samples"]]
    if "wandb" in trackers:
        wandb = importlib.import_module("wandb")
        if wandb.run is not None:
            wandb.log({_NAME: _table(wandb, samples), **beside}, step=step)
    if "trackio" in trackers:
        trackio = importlib.import_module("trackio")
        traces = [_trace(trackio, sample) for sample in samples]
        trackio.log({_NAME: traces, **beside}, step=step)


def _flat(row: Mapping[str, Any], sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return one sample with what it shares with its group, without inner mappings."""
    columns = {name: row[name] for name in ("step", "group", "k", "prompt")}
    columns |= sample
    for name, value in columns.pop("rewards", {}).items():
        columns[f"rewards/{name}"] = value
    if "failure" in columns:
        columns["failure"] = json.dumps(columns["failure"])
    return columns


def _table(wandb: Any, samples: Sequence[Mapping[str, Any]]) -> Any:
    columns = list(dict.fromkeys(name for sample in samples for name in sample))
    data = [[sample.get(name) for name in columns] for sample in samples]
    return wandb.Table(columns=columns, data=data)


def _trace(trackio: Any, sample: Mapping[str, Any]) -> Any:
    turns = [
        {"role": "user", "content": sample["prompt"]},
        {"role": "assistant", "content": sample["text"]},
    ]
    details = {name: value for name, value in sample.items() if name not in ("prompt", "text")}
    return trackio.Trace(turns, details)
