"""The record of a training, groups.jsonl: groups of completions and rows of the log, by step.

A line is `{"step":S,"training":{..}}` (the settings, when it begins and when it resumes),
`{"step":S,"group":KEY,..}` or `{"step":S,"log":{..}}`, in the order of the optimizer steps.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from maxatk.errors import DataError
from maxatk.folders import TRAIN_RECORD, TRAINER_STATE, last_checkpoint, read_training

GROUPS = "groups.jsonl"  # in the folder of the training

LONGEST = 1 << 15  # characters of a text that is kept

_TRACKED = "groups"  # the name of the table and of the traces
_HEAD = re.compile(rb'\{"step":(\d+),"(training|group|log)":(?:"(\w+)")?')


class Head(NamedTuple):
    """What a line begins with; the key is that of the prompt of a group."""

    step: int
    kind: str
    key: str


def head_of(line: bytes) -> Head | None:
    """Return the head of a line; None for one that is torn or not of this package."""
    found = _HEAD.match(line)
    if found is None or not line.endswith(b"}\n"):
        return None
    return Head(int(found[1]), found[2].decode(), (found[3] or b"").decode())


def training_log(folder: Path) -> list[dict[str, Any]] | None:
    """Return the rows of a training's log; None without one, DataError where they are damaged."""
    found = read_training(folder) if (folder / TRAIN_RECORD).is_file() else {}
    checkpoint = last_checkpoint(folder)
    if "log_history" not in found and (folder / GROUPS).is_file():
        return list(_logged(folder / GROUPS))
    if "log_history" not in found and checkpoint is not None:
        found = read_training(Path(checkpoint), TRAINER_STATE)
    return found.get("log_history", []) if found else None


def _logged(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            head = head_of(line)
            if head is None or head.kind != "log":
                continue
            try:
                yield dict(json.loads(line)["log"])
            except (ValueError, TypeError) as error:
                raise DataError(f"{path}:{number}: no row of a log: {error}") from error


def prompt_key(prompt: str) -> str:
    """Return what stands for a prompt, equal in two trainings: 12 hexadecimal digits."""
    return hashlib.sha256(prompt.encode("utf-8", "replace")).hexdigest()[:12]


def group_row(
    step: int, *, name: Any, prompt: str, k: int, samples: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the line of a group; `name` is the problem's id, None where it has none."""
    key = prompt_key(prompt if name is None else str(name))
    about = {"step": step, "group": key, "id": name, "k": k}
    return {**about, "prompt": shortened(prompt), "samples": samples}


def shortened(text: str) -> str:
    """Return as much of a text as is kept."""
    return text if len(text) <= LONGEST else text[:LONGEST] + " …"


def rounded(value: Any) -> float | None:
    """Return a number with seven digits, those of single precision; None for NaN."""
    number = float(f"{value:.7g}")
    return number if math.isfinite(number) else None


class GroupLog:
    """Writes the record of a training, which goes on after `step` optimizer steps.

    What the file holds of later steps is dropped. `about` are the settings that a reader is told.
    """

    def __init__(self, path: Path, *, step: int, about: Mapping[str, Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        kept = 0  # bytes of the whole lines of the first `step` optimizer steps
        with path.open("a+b") as file:
            file.seek(0)
            for line in file:
                head = head_of(line)
                if head is None or head.step > step:
                    break
                kept += len(line)
            file.truncate(kept)
        self.append([{"step": step, "training": about}])

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append lines; raises OSError where they cannot be written, as on a full disk."""
        lines = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
        # A lone surrogate, which a model can produce, cannot be written to a file.
        data = "".join(line + "\n" for line in lines).encode("utf-8", "replace")
        with self._path.open("ab") as file:
            file.write(data)


def send_groups(
    rows: Sequence[Mapping[str, Any]],
    *,
    trackers: Sequence[str],
    step: int | None = None,
    beside: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Send `group_row`s to those of `trackers` that are on: a table of W&B, traces of trackio.

    `step` is that of the tracker, where the trainer gives it one; `beside` is logged with them.
    """
    if not rows:
        return
    samples = [_flat(row, sample) for row in rows for sample in row["samples"]]
    if "wandb" in trackers and (wandb := importlib.import_module("wandb")).run is not None:
        columns = list(dict.fromkeys(name for sample in samples for name in sample))
        data = [[sample.get(name) for name in columns] for sample in samples]
        table = wandb.Table(columns=columns, data=data)
        wandb.log({_TRACKED: table, **beside}, step=step)
    if "trackio" in trackers:
        trackio = importlib.import_module("trackio")
        traces = []
        for rest in samples:
            turns = {"user": rest.pop("prompt"), "assistant": rest.pop("text")}
            shown = [{"role": role, "content": text} for role, text in turns.items()]
            traces.append(trackio.Trace(shown, rest))
        trackio.log({_TRACKED: traces, **beside}, step=step)


def _flat(row: Mapping[str, Any], sample: Mapping[str, Any]) -> dict[str, Any]:
    flat = {name: row[name] for name in ("step", "group", "k", "prompt")} | dict(sample)
    named = {f"rewards/{name}": value for name, value in flat.pop("rewards", {}).items()}
    if "failure" in flat:
        flat["failure"] = json.dumps(flat["failure"])
    return flat | named
