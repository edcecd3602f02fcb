"""How many cores this process may use, which is fewer than the machine has in most containers."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")


def usable_cores(root: Path = _ROOT) -> int:
    """Return how many cores this process may use at once, at least 1.

    It is the number of those that it may run on, or the CPU quota of its control group rounded up,
    where that is smaller: `docker run --cpus 4` and the limits of Kubernetes leave every core
    visible. `root` is the folder that holds `proc` and `sys`.
    """
    allowed = len(os.sched_getaffinity(0))
    return max(1, min([allowed, *map(math.ceil, _quotas(root))]))


def _quotas(root: Path) -> Iterator[float]:
    """Yield the cores that each control group of this process may use together, if it has a quota.

    A process in a group can use no more than any group above its own allows.
    """
    mounted = root / "sys" / "fs" / "cgroup"
    for line in _text(root / "proc" / "self" / "cgroup").splitlines():
        _, _, controllers_and_path = line.partition(":")
        controllers, _, path = controllers_and_path.partition(":")
        if controllers == "":  # version 2: one tree for all controllers
            for folder in _folder_and_parents(mounted, path):
                yield from _share(_text(folder / "cpu.max").split())
        elif "cpu" in controllers.split(","):
            for folder in _folder_and_parents(mounted / "cpu", path):
                names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
                yield from _share([_text(folder / name).strip() for name in names])


def _folder_and_parents(mounted: Path, path: str) -> Iterator[Path]:
    """Yield the folder of a control group and of all above it, up to where they are mounted.

    In a container the path may be that of the host, which is not there: its own group is then what
    is mounted.
    """
    group = Path(path.lstrip("/"))
    for folder in (group, *group.parents):
        yield mounted / folder


def _share(quota_and_period: list[str]) -> Iterator[float]:
    """Yield a quota in cores, of two numbers of microseconds; nothing for "max", -1 or no file."""
    try:
        quota, period = map(int, quota_and_period)
    except ValueError:
        return
    if quota > 0 and period > 0:
        yield quota / period


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
