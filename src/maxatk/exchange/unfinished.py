"""Whether a file is still being written, by how a whole file of its kind ends.

A training writes a file a step, and whoever reads the folder meanwhile finds the last one torn.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from maxatk.bounded import is_json

_ZIP = b"PK"  # what a .pt of torch.save and an .eval of inspect_ai begin with
_PARQUET = b"PAR1"


def is_unfinished(path: Path) -> bool:
    """Return whether a file has no content, or ends as no whole file of its kind does.

    A line of JSON ends with a newline, but for the last, which may be whole without one. Of other
    kinds than .jsonl, .parquet, .pt and .eval only an empty file is known to be unfinished. What is
    no file is not unfinished: its reader says what is wrong.
    """
    if not path.is_file():
        return False
    if path.stat().st_size == 0:
        return True
    suffix = path.suffix.lower()
    start, end = _ends(path)
    if suffix == ".jsonl":
        return not end.endswith(b"\n") and not is_json(path.read_bytes().rpartition(b"\n")[2])
    if suffix == ".parquet":
        return end != _PARQUET
    return start == _ZIP and not zipfile.is_zipfile(path)


def _ends(path: Path) -> tuple[bytes, bytes]:
    """Return the first two bytes of a file and its last four, or as many as it has."""
    with path.open("rb") as file:
        start = file.read(len(_ZIP))
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - len(_PARQUET)))
        return start, file.read()
