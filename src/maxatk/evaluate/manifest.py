"""What an evaluation was: its settings, compared on resumption, and its surroundings, recorded."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from maxatk.errors import InvalidValueError
from maxatk.folders import read_json, refuse_other_settings, write_json
from maxatk.records import Problem

MANIFEST = "manifest.json"
_PACKAGES = ("torch", "transformers", "numpy")


def open_folder(out: Path, settings: Mapping[str, Any]) -> None:
    """Create `out` with its manifest, or check that the folder belongs to the same settings.

    Raises as `check_folder`.
    """
    check_folder(out, settings)
    if not (out / MANIFEST).is_file():
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / MANIFEST, {"settings": settings, "environment": environment()})


def check_folder(out: Path, settings: Mapping[str, Any]) -> None:
    """Raise InvalidValueError where `out` holds a run that is not of these settings.

    The message lists every setting that differs from the folder's manifest, or says that the
    folder holds samples or scores but no manifest. Nothing is written.
    """
    path = out / MANIFEST
    if path.is_file():
        refuse_other_settings(out, read_json(path)["settings"], settings)
        return
    for name in ("samples.jsonl", "scores.jsonl"):
        if (out / name).exists():
            raise InvalidValueError(
                f"{out}: has {name} but no {MANIFEST}, so what it holds is unknown; use another "
                "folder"
            )


def recorded_batch_size(out: Path) -> int | None:
    """Return the batch size of the run in `out`; None without a run, or where it has none."""
    if not (out / MANIFEST).is_file():
        return None
    size: int | None = read_json(out / MANIFEST)["settings"].get("model", {}).get("batch_size")
    return size


def environment() -> dict[str, Any]:
    """Return versions, git commit of the package's checkout (or None) and machine."""
    return {
        "maxatk": _version("maxatk"),
        "python": platform.python_version(),
        **{name: _version(name) for name in _PACKAGES},
        "commit": _commit(),
        "platform": platform.platform(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
    }


def problems_digest(problems: Sequence[Problem]) -> str:
    """Return the sha256 of the problems' content, whatever the layout of their file."""
    digest = hashlib.sha256()
    for problem in problems:
        digest.update(json.dumps(problem.to_json(), sort_keys=True).encode() + b"\n")
    return digest.hexdigest()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    checkout = Path(__file__).parents[3]
    if not (checkout / ".git").exists():  # installed, perhaps below someone else's checkout
        return None
    command = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.is_file() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())
