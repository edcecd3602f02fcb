"""The file groups.jsonl of a training: groups of completions and rows of the log, by step.

A line is `{"step":S,"training":{..}}` (the settings, when it begins and when it resumes),
`{"step":S,"group":KEY,..}` or `{"step":S,"log":{..}}`, in the order of the optimizer steps.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from maxatk.bounded import LONGEST as LONGEST_LINE
from maxatk.bounded import json_value, lines_of, placed
from maxatk.errors import DataError, InvalidValueError
from maxatk.folders import TRAIN_RECORD, TRAINER_STATE, last_checkpoint, read_training

GROUPS = "groups.jsonl"  # in the folder of the training

LONGEST = 1 << 15  # characters of a text that is kept

_START = b'{"step":'  # of every line
_HEAD = re.compile(rb'\{"step":(\d{1,18}),"(training|group|log)":(?:"(\w+)")?')


class Head(NamedTuple):
    """What a line begins with; the key is that of the prompt of a group."""

    step: int
    kind: str
    key: str


def head_of(line: bytes) -> Head | None:
    """Return the head of a line; None for one that is torn or not of this package."""
    match = _HEAD.match(line)
    if match is None or not line.endswith(b"}\n"):
        return None
    return Head(int(match[1]), match[2].decode(), (match[3] or b"").decode())


def training_log(folder: Path) -> list[dict[str, Any]] | None:
    """Return the rows of a training's log; None without one, DataError where they are damaged.

    A training that has ended has them in train.json, one that runs or was killed in groups.jsonl,
    and one that keeps no groups in its last checkpoint.
    """
    record = read_training(folder) if (folder / TRAIN_RECORD).is_file() else {}
    if "log_history" not in record:
        if (folder / GROUPS).is_file():
            return _together(logged_rows(folder / GROUPS))
        checkpoint = last_checkpoint(folder)
        if checkpoint is not None:
            record = read_training(Path(checkpoint), TRAINER_STATE)
    return record.get("log_history", []) if record else None


def _together(rows: Iterable[tuple[int, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return rows of the log, of which those of one step that say nothing twice are one.

    A training by `best_of` has a row of its function and one of the trainer for every step.
    """
    together: list[dict[str, Any]] = []
    step_before = None
    for step, row in rows:
        if step == step_before and together[-1].keys().isdisjoint(row):
            together[-1] = {**together[-1], **row}
        else:
            together.append(row)
        step_before = step
    return together


def logged_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield step and row of the log that a file holds; raises DataError for a damaged one."""
    for number, line in lines_of(path):
        head = head_of(line)
        if head is None or head.kind != "log":
            continue
        with placed(f"{path}:{number}: no row of a log"):
            row = json_value(line)["log"]
            if not isinstance(row, dict):
                raise DataError(f"got {row!r:.60}")
        yield head.step, row


def prompt_key(prompt: str) -> str:
    """Return what stands for a prompt, equal in two trainings: 12 hexadecimal digits."""
    return hashlib.sha256(prompt.encode("utf-8", "replace")).hexdigest()[:12]


def group_row(
    step: int, *, name: Any, prompt: str, k: int, samples: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the line of a group; `name` is the problem's id, None where it has none."""
    return {
        "step": step,
        "group": prompt_key(prompt if name is None else str(name)),
        "id": name,
        "k": k,
        "prompt": shortened(prompt),
        "samples": samples,
    }


def shortened(text: str) -> str:
    """Return as much of a text as is kept."""
    return text if len(text) <= LONGEST else text[:LONGEST] + " …"


def rounded(value: Any) -> float | None:
    """Return a number with seven digits, those of single precision; None for NaN."""
    number = float(f"{value:.7g}")
    return number if math.isfinite(number) else None


def refuse_other_file(path: Path) -> None:
    """Raise InvalidValueError for a file that is no record of a training, and would be emptied."""
    if not path.exists():
        return
    with path.open("rb") as file:
        first = file.readline(LONGEST_LINE)
    is_torn = not first.endswith(b"\n")  # by a kill, as the first line was written
    begun = first[: len(_START)] == _START[: len(first)]
    if head_of(first) is None and not (is_torn and begun):
        raise InvalidValueError(
            f"{path}: is no record of a training, which would take its place; its first line is "
            f"{first!r:.60}; allowed: a folder without such a file"
        )


def _drop_after(path: Path, step: int) -> None:
    """Cut a file, which is made where it is missing, behind its lines of the first steps."""
    kept_bytes = 0
    with path.open("a+b") as file:
        file.seek(0)
        for line in iter(lambda: file.readline(LONGEST_LINE), b""):
            head = head_of(line)
            if head is None or head.step > step:
                break
            kept_bytes += len(line)
        file.truncate(kept_bytes)


class GroupLog:
    """Writes the file, which goes on after `step` optimizer steps.

    What the file holds of later steps is dropped, because a resumed training takes them again.
    `about` are the settings that a reader is told.

    Raises InvalidValueError for a file of that name that no training has written.
    """

    def __init__(self, path: Path, *, step: int, about: Mapping[str, Any]) -> None:
        refuse_other_file(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        _drop_after(path, step)
        self.append([{"step": step, "training": about}])

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append lines; raises OSError where they cannot be written, as on a full disk."""
        lines = []
        for row in rows:
            text = json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n"
            # A lone surrogate, which a model can produce, cannot be written to a file.
            lines.append(text.encode("utf-8", "replace"))
        with self._path.open("ab") as file:
            file.write(b"".join(lines))  # in one call: a reader sees whole lines
