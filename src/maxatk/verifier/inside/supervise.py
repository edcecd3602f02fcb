"""What supervising processes share: the request, the clock on a test, copies between files."""

from __future__ import annotations

import _signal as signals  # type: ignore[import-not-found]  # `signal` would load `enum`
import os
import time

from maxatk.verifier.inside import protocol

TYPE_CHECKING = False  # `typing` itself would make every fork slower
if TYPE_CHECKING:
    from maxatk.verifier.inside.seccomp import Filter

_CHILD_DIED = (signals.SIGCHLD,)
STANDARD = (0, 1, 2)


class Descriptors:
    """The descriptors that a zygote got from its host."""

    def __init__(self, requests: int, replies: int, job: int, results: int) -> None:
        self.requests, self.replies, self.job, self.results = requests, replies, job, results


class Context:
    """What a zygote hands to its program processes.

    `test_filter` is what a test must install, unless its program process installed
    `program_filter` (None where the limit on processes does not stop forks; see `seccomp`).
    `base_memory` is the zygote's own address space in bytes; `orphans` says that the processes
    of a killed zygote would live on, because it is not the first one of a process namespace;
    `scratch` says that the current folder is the scratch folder of the tests. `kills` is the
    pipe on which a program process asks the zygote to kill a test.
    """

    kills = -1

    def __init__(
        self,
        files: Descriptors,
        test_filter: Filter,
        program_filter: Filter | None,
        *,
        base_memory: int,
        orphans: bool,
        scratch: bool,
    ) -> None:
        self.files, self.test_filter, self.program_filter = files, test_filter, program_filter
        self.base_memory, self.orphans, self.scratch = base_memory, orphans, scratch


class Request:
    """One message of the host: how many tests, how long the source, what limits."""

    def __init__(self, message: bytes) -> None:
        (
            self.tests,
            self.max_timeouts,
            self.source_size,
            self.cpu_limit,
            self.wall_limit,
            self.compile_limit,
            self.memory,
            self.output,
        ) = protocol.REQUEST.unpack(message)


def open_standard_files() -> None:
    """Make descriptors 0, 1 and 2 private memory files, which every test will share in turn.

    They are emptied between tests; the filter forbids all other state they could carry along.
    """
    for descriptor in (0, 1, 2):
        memory = os.memfd_create("std", 0)
        os.dup2(memory, descriptor, inheritable=False)
        os.close(memory)


def block_child_signal() -> None:
    """Let SIGCHLD wait until it is asked for; all processes below inherit this."""
    signals.pthread_sigmask(signals.SIG_BLOCK, _CHILD_DIED)


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
    pid: int, request: Request, context: Context, start: float, *, reported: bool = False
) -> tuple[int, int, float, int]:
    """Wait for a test, and have it killed when its CPU clock or the wall clock has run out.

    `reported` says that its SIGCHLD may have been taken already. Returns how it ended, its wait
    status, its CPU seconds and its peak memory in bytes.
    """
    clock = (~pid << 3) | 2  # the kernel's name for the CPU clock of that process
    ending = protocol.EXITED
    patience = 0.0 if reported else min(request.cpu_limit, request.wall_limit)
    while True:
        signals.sigtimedwait(_CHILD_DIED, patience)
        reaped, status, usage = os.wait4(pid, os.WNOHANG)
        if reaped:
            return ending, status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10
        cpu_left = request.cpu_limit - time.clock_gettime(clock)
        wall_left = request.wall_limit - (time.monotonic() - start)
        if cpu_left > 0 and wall_left > 0:
            patience = max(min(cpu_left, wall_left), 0.001)
            continue
        ending = protocol.CPU_LIMIT if cpu_left <= 0 else protocol.WALL_LIMIT
        os.write(context.kills, protocol.KILL.pack(pid))
        patience = 1.0
