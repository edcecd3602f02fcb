"""Folders of finished and resumed work: JSON records, and no mixing of different settings."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from maxatk.check import existing_file, is_finite
from maxatk.errors import DataError, InvalidValueError
from maxatk.settings import masked

TRAIN_RECORD = "train.json"  # in the folder of a trained model: its recipe, then its log
TRAINER_STATE = "trainer_state.json"  # of transformers, in a checkpoint, with the log so far


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file; raises MissingFileError or DataError without one."""
    existing_file(path)
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not a JSON file: {error}") from error
    if not isinstance(value, dict):
        raise DataError(f"{path}: must hold a JSON object, got {type(value).__name__}")
    return value


def read_training(folder: Path, name: str = TRAIN_RECORD) -> dict[str, Any]:
    """Return the record of a training or a checkpoint: recipe and log; raises as `read_json`."""
    path = folder / name
    record = read_json(path)
    log = record.get("log_history", [])
    if not isinstance(log, list) or not all(isinstance(row, dict) for row in log):
        raise DataError(f"{path}: log_history: must be a list of objects")
    if not isinstance(record.get("recipe", {}), dict):
        raise DataError(f"{path}: recipe: must be an object")
    return record


def last_checkpoint(folder: Path) -> str | None:
    """Return the newest complete checkpoint of a folder, or None."""
    by_step = {
        int(checkpoint.name.rpartition("-")[2]): checkpoint
        for checkpoint in folder.glob("checkpoint-*")
        if checkpoint.name[-1].isdigit()
    }
    for step in sorted(by_step, reverse=True):
        # The state is written last: without it, or with half of it, a kill cut the checkpoint off.
        with contextlib.suppress(OSError, ValueError):
            json.loads((by_step[step] / TRAINER_STATE).read_text(encoding="utf-8"))
            return str(by_step[step])
    return None


def known(row: Mapping[str, Any], key: str) -> float | None:
    """Return a number of a logged row, None where it is missing, None or not finite."""
    value = row.get(key)
    return value if is_finite(value) else None


def writable(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a logged row with None for numbers that are not finite, which JSON lacks."""
    floats = (name for name, value in row.items() if isinstance(value, float))
    return {**row, **{name: known(row, name) for name in floats}}


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object atomically; raises InvalidValueError for a number JSON does not have."""
    try:
        text = json.dumps(value, indent=1, allow_nan=False) + "\n"
    except ValueError as error:
        raise InvalidValueError(f"{path}: {error}") from error
    with atomic_write(path) as partial:
        partial.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield the path to write to; what is there replaces `path` whole if the block ends well."""
    partial = path.with_name(path.name + ".partial")
    partial.unlink(missing_ok=True)  # a link that lies there would lead out of the folder
    yield partial
    partial.replace(path)


def file_digest(path: Path, *, first: int | None = None) -> str:
    """Return the SHA-256 of a file's bytes, or of its `first` ones alone, in hexadecimal."""
    digest = hashlib.sha256()
    left = path.stat().st_size if first is None else first
    with path.open("rb") as file:
        while left > 0:
            block = file.read(min(left, 1 << 20))
            if not block:  # the file is shorter than asked for, or was cut meanwhile
                break
            digest.update(block)
            left -= len(block)
    return digest.hexdigest()


def refuse_other_settings(
    out: Path, before: Mapping[str, Any], now: Mapping[str, Any], *, hint: str = ""
) -> None:
    """Raise InvalidValueError listing every setting of the folder's record that differs now."""
    # As JSON, as the record has them: a tuple is a list there, and secrets are hidden.
    as_recorded = json.loads(json.dumps(masked(now)))
    differences = "\n  ".join(differing_settings(masked(before), as_recorded))
    if differences:
        raise InvalidValueError(
            f"{out}: the folder holds a run with other settings; use another folder, or "
            f"start again in an empty one:\n  {differences}{hint}"
        )


def differing_settings(before: Any, now: Any, name: str = "") -> Iterator[str]:
    """Yield a line for each value that differs in JSON objects, named by its path."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in sorted(before.keys() | now.keys()):
            inner = f"{name}.{key}" if name else key
            yield from differing_settings(before.get(key), now.get(key), inner)
    elif before != now:
        yield f"{name}: {before!r} in the folder, {now!r} now"
