"""CPU time of a process, alone or with all that is below it, for the benches."""

import contextlib
import os
import resource
import subprocess
import time
from pathlib import Path


def own_cpu_seconds() -> float:
    """Return the CPU time of this process alone, without its sandboxes."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def cpu_seconds() -> float:
    """Return the CPU time of this process and of all below it, the living ones included."""
    while True:
        usages = [
            resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        ]
        total = sum(usage.ru_utime + usage.ru_stime for usage in usages)
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # one has just ended
            return total + sum(seconds_of(pid) for pid in descendants(os.getpid()))


def seconds_of(pid: int) -> float:
    """Return the CPU time of a living process and of those that it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def watched_seconds(process: subprocess.Popen) -> float:
    """Return the CPU time of a process with all below it, looked at until it ends.

    What the sandboxes of a verifier use is not in the usage of the process that waits for them.
    """
    most = 0.0
    while process.poll() is None:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # one has just ended
            pids = [process.pid, *descendants(process.pid)]
            most = max(most, sum(seconds_of(pid) for pid in pids))
        time.sleep(0.1)
    return most


def descendants(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    children = [int(c) for task in tasks for c in (task / "children").read_text().split()]
    return children + [below for child in children for below in descendants(child)]
