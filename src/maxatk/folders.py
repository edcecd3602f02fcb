"""Folders of finished and resumed work: JSON records, and no mixing of different settings."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from maxatk.errors import DataError, InvalidValueError
from maxatk.masking import masked

TRAIN_RECORD = "train.json"  # in the folder of a trained model: its recipe, then its log


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file; raises DataError when it does not hold one."""
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise DataError(f"{path}: not a JSON file: {error}") from error
    except RecursionError as error:
        raise DataError(f"{path}: not a JSON file: nested too deeply") from error
    if not isinstance(value, dict):
        raise DataError(f"{path}: must hold a JSON object, got {type(value).__name__}")
    return value


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object atomically: the file appears whole or not at all."""
    with atomic_write(path) as partial:
        partial.write_text(json.dumps(value, indent=1, allow_nan=False) + "\n", encoding="utf-8")


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield the path to write to: what is there takes the place of `path` if the block ends well.

    A reader sees the old file or the new one, never a part. An error leaves `path` as it was.
    """
    partial = path.with_name(path.name + ".partial")
    yield partial
    partial.replace(path)


def file_digest(path: Path, *, first: int | None = None) -> str:
    """Return the SHA-256 of a file's bytes, or of its `first` ones alone, in hexadecimal."""
    digest = hashlib.sha256()
    left = path.stat().st_size if first is None else first
    with path.open("rb") as file:
        while left > 0 and (block := file.read(min(left, 1 << 20))):
            digest.update(block)
            left -= len(block)
    return digest.hexdigest()


def refuse_other_settings(out: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise InvalidValueError listing every setting of the folder's record that differs now.

    Secrets are hidden on both sides: another one is no other setting.
    """
    differences = list(_differences(masked(before), json.loads(json.dumps(masked(now)))))
    if differences:
        listed = "\n  ".join(differences)
        raise InvalidValueError(
            f"{out}: the folder holds a run with other settings; use another folder, or "
            f"start again in an empty one:\n  {listed}"
        )


def _differences(before: Any, now: Any, name: str = "") -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in sorted(before.keys() | now.keys()):
            inner = f"{name}.{key}" if name else key
            yield from _differences(before.get(key), now.get(key), inner)
    elif before != now:
        yield f"{name}: {before!r} in the folder, {now!r} now"
