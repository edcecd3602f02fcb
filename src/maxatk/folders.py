"""Folders of finished and resumed work: JSON records, and no mixing of different settings."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import numbers
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from maxatk.bounded import json_value, placed, read_whole
from maxatk.check import is_finite
from maxatk.errors import DataError, InvalidValueError
from maxatk.settings import masked
from maxatk.writing import write_text

STAGE_NAMES = "stages.json"  # in the work folder of studies: what people call its folders
TRAIN_RECORD = "train.json"  # in the folder of a trained model: its recipe, then its log
TRAINER_STATE = "trainer_state.json"  # of transformers, in a checkpoint, with the log so far

_CHECKPOINT = re.compile(r"checkpoint-[0-9]{1,18}")


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file; raises MissingFileError or DataError without one."""
    data = read_whole(path)
    with placed(f"{path}: not a JSON file"):
        value = json_value(data)
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
        if _CHECKPOINT.fullmatch(checkpoint.name)
    }
    for step in sorted(by_step, reverse=True):
        # The state is written last: without it, or with half of it, a kill cut the checkpoint off.
        with contextlib.suppress(OSError, DataError):
            read_json(by_step[step] / TRAINER_STATE)
            return str(by_step[step])
    return None


def known(row: Mapping[str, Any], key: str) -> float | None:
    """Return a number of a logged row, None where it is missing, None or not finite."""
    value = row.get(key)
    return value if is_finite(value) else None


def known_values(rows: Iterable[Mapping[str, Any]], key: str) -> list[float]:
    """Return the numbers of a key that are known, of the rows of a log."""
    numbers = [known(row, key) for row in rows]
    return [number for number in numbers if number is not None]


def writable(row: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return a mapping as JSON has it, with what `json_of` makes of names and values."""
    return {_name_of(name): json_of(value) for name, value in row.items()}


def json_of(value: Any) -> Any:
    """Return what JSON has for a value, also inside lists and mappings.

    Numbers, arrays and tensors become numbers of Python and lists of them, numbers that are not
    finite None, and what JSON lacks, such as a date, its text.
    """
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, numbers.Integral):  # of NumPy
        return int(value)
    if isinstance(value, numbers.Real):
        number = float(value)
        return number if math.isfinite(number) else None
    if isinstance(value, Mapping):
        return writable(value)
    if isinstance(value, (list, tuple)):
        return [json_of(inner) for inner in value]
    if hasattr(value, "tolist"):  # of NumPy, torch and pandas
        return json_of(value.tolist())
    return str(value)


def _name_of(name: Any) -> Any:
    is_taken = name is None or isinstance(name, (str, int, float))  # which json makes text of
    return name if is_taken else str(json_of(name))


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object atomically; raises InvalidValueError for a number JSON does not have."""
    try:
        text = json.dumps(value, indent=1, allow_nan=False) + "\n"
    except ValueError as error:
        raise InvalidValueError(f"{path}: {error}") from error
    write_text(path, text)


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


def digest_if_file(path: str | None) -> str | None:
    """Return the digest of the file of that name, None where there is none, as of a benchmark."""
    return file_digest(Path(path)) if path and Path(path).is_file() else None


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
