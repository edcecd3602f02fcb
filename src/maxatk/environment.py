"""What a run ran on: versions, the commit of the package's checkout, and the machine."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

_PACKAGES = ("torch", "transformers", "numpy")
_ENGINES = ("vllm", "trl", "accelerate", "peft", "ray", "verl")  # named where they are installed
_NVIDIA_SMI = ("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")


def environment() -> dict[str, Any]:
    """Return versions, git commit of the package's checkout (or None) and machine with its GPUs."""
    checkout = Path(__file__).parents[2]
    ours = (checkout / ".git").exists()  # else installed, perhaps below someone else's checkout
    commit = _answer("git", "-C", str(checkout), "rev-parse", "HEAD") if ours else ""
    return {
        "maxatk": _version("maxatk"),
        "python": platform.python_version(),
        **{name: _version(name) for name in _PACKAGES},
        **{name: version for name in _ENGINES if (version := _version(name))},
        "commit": commit or None,
        "platform": platform.platform(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        **_gpus(),
    }


def _gpus() -> dict[str, str]:
    rows = [row.split(", ") for row in _answer(*_NVIDIA_SMI).splitlines() if ", " in row]
    if not rows:
        return {}
    names = sorted({name for name, *_ in rows})
    found = {"gpu": f"{len(rows)} x {' and '.join(names)}", "driver": rows[0][-1]}
    if (torch := sys.modules.get("torch")) and torch.version.cuda:  # its import takes seconds
        found["cuda"] = torch.version.cuda
    return found


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _answer(*command: str) -> str:
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.is_file() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())
