"""What supervising processes share: the request, the clock on a test, copies between files."""

from __future__ import annotations

import _signal as signals  # type: ignore[import-not-found]  # `signal` would load `enum`
import os
import time

from maxatk.verifier.inside import protocol

TYPE_CHECKING = False  # `typing` itself would make every fork slower
if TYPE_CHECKING:
    from maxatk.verifier.inside.seccomp import Filter

CHILD_DIED = (signals.SIGCHLD,)
STANDARD = (0, 1, 2)
# A process that waits for a core is not idle: on the busiest machine it still gets a part of one in
# _BUSY. What is longer is idleness, and _FREE_IDLE seconds of it in a test are not counted.
_BUSY = 32.0
_FREE_IDLE = 1.0


class Context:
    """What a zygote hands to its program processes.

    `job` and `results` are the two files shared with the host. `test_filter` is what a test must
    install, unless its program process installed `program_filter` (None where the limit on
    processes does not stop forks; see `seccomp`). `base_memory` is the zygote's own address space
    in bytes; `orphans` says that the processes of a killed zygote would live on, because it is not
    the first one of a process namespace. `scratch` is the path of the current folder where it is
    the scratch folder of the tests, `checker_files` are the files in `CHECKER_FOLDER`, if there is
    one. `kills` is the pipe on which a program process asks the zygote to kill a test,
    `complaints` the file for what the checkers of check tests say, which programs must not read.
    """

    kills = complaints = -1

    def __init__(
        self,
        job: int,
        results: int,
        test_filter: Filter,
        program_filter: Filter | None,
        *,
        base_memory: int,
        orphans: bool,
    ) -> None:
        self.job = job
        self.results = results
        self.test_filter = test_filter
        self.program_filter = program_filter
        self.base_memory = base_memory
        self.orphans = orphans
        self.scratch = ""
        self.checker_files: list[int] = []


class Request:
    """One message of the host: how many tests, how long the source, what limits.

    `idle_left` (seconds) and `output_left` (bytes) are what the program's tests may still use of
    what they have together.
    """

    def __init__(self, message: bytes) -> None:
        fields = protocol.REQUEST.unpack(message)
        self.tests, self.max_timeouts, self.source_size = fields[:3]
        self.cpu_limit, self.wall_limit, self.idle_left, self.compile_limit = fields[3:7]
        self.memory, self.output, self.output_left = fields[7:]
        self.stopped = 0.0  # seconds for which nothing here could run

    def clock(self) -> float:
        """Return seconds of a clock that stands still while this process is stopped.

        A suspended job or a paused container stops it and the tests alike; see `count_stopped`.
        """
        return time.monotonic() - self.stopped

    def count_stopped(self, waited: float, patience: float) -> None:
        """Take what a wait took longer than it was to as time in which nothing could run."""
        self.stopped += max(0.0, waited - patience)

    def count_idle(self, wall: float, cpu: float) -> None:
        """Take from the idle seconds what a test of so many seconds has used of them."""
        self.idle_left -= max(0.0, min(wall - _FREE_IDLE - _BUSY * cpu, self.idle_left))


def copy(source: int, offset: int, target: int, size: int) -> int:
    """Copy from file to file inside the kernel; return how much there was."""
    done = 0
    while done < size:
        count = os.sendfile(target, source, offset + done, size - done)
        if count == 0:
            break
        done += count
    return done


def await_end(
    pid: int,
    request: Request,
    context: Context,
    start: float,
    *,
    helper: int = 0,
    spent: float = 0.0,
    reported: bool = False,
) -> tuple[int, int, float, int]:
    """Wait for a test, and have it killed when its CPU clock or the wall clock has run out.

    It started at `start` of the request's clock (s); one that was idle for too long meets its wall
    limit early. The CPU time of `helper`, a process that it waits for, and the CPU seconds `spent`
    by others in the test are no idleness. `reported`: its SIGCHLD may have been taken already.
    Returns ending, wait status, CPU seconds and peak memory in bytes.
    """
    ending = protocol.EXITED
    idle = request.idle_left + _FREE_IDLE
    patience = 0.0 if reported else min(request.cpu_limit, request.wall_limit, idle)
    while True:
        began = time.monotonic()
        signals.sigtimedwait(CHILD_DIED, patience)
        request.count_stopped(time.monotonic() - began, patience)
        reaped, status, usage = os.wait4(pid, os.WNOHANG)
        if reaped:
            return ending, status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10
        used = _cpu_seconds(pid)
        busy = used + spent + (_cpu_seconds(helper) if helper else 0.0)
        cpu_left = request.cpu_limit - used
        wall = min(request.wall_limit, idle + _BUSY * busy)
        wall_left = wall - (request.clock() - start)
        if cpu_left > 0 and wall_left > 0:
            patience = max(min(cpu_left, wall_left), 0.001)
            continue
        ending = protocol.CPU_LIMIT if cpu_left <= 0 else protocol.WALL_LIMIT
        os.write(context.kills, protocol.KILL.pack(pid))
        patience = 1.0


def _cpu_seconds(pid: int) -> float:
    return time.clock_gettime((~pid << 3) | 2)  # the kernel's name for the clock of that process
