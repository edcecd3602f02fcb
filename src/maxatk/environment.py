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
    engines = {name: _version(name) for name in _ENGINES}
    return {
        "maxatk": _version("maxatk"),
        "python": platform.python_version(),
        **{name: _version(name) for name in _PACKAGES},
        **{name: version for name, version in engines.items() if version},
        "commit": _commit(),
        "platform": platform.platform(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        **_gpus(),
    }


def is_first_process() -> bool:
    """Return whether this is the only process of a training, or the first of several."""
    return os.environ.get("RANK", "0") == "0"  # set by accelerate launch


def _commit() -> str | None:
    """Return the commit of the package's own checkout."""
    checkout = Path(__file__).parents[2]
    if not (checkout / ".git").exists():  # installed, perhaps below someone else's checkout
        return None
    return _printed_by("git", "-C", str(checkout), "rev-parse", "HEAD") or None


def _gpus() -> dict[str, str]:
    """Return number and names of the GPUs, the driver, and the CUDA of a torch that is loaded."""
    lines = _printed_by(*_NVIDIA_SMI).splitlines()
    rows = [line.split(", ") for line in lines if ", " in line]
    if not rows:
        return {}
    names = sorted({name for name, *_ in rows})
    facts = {"gpu": f"{len(rows)} x {' and '.join(names)}", "driver": rows[0][-1]}
    torch = sys.modules.get("torch")  # its import takes seconds
    if torch and torch.version.cuda:
        facts["cuda"] = torch.version.cuda
    return facts


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _printed_by(*command: str) -> str:
    """Return what a command prints, or nothing where it is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
