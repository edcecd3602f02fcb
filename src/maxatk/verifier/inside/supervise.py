"""What supervising processes share: the request, the clock on a test, copies between files."""

from __future__ import annotations

import _signal as signals  # type: ignore[import-not-found]  # `signal` would load `enum`
import os
import time

from maxatk.verifier.inside import protocol, syscalls

TYPE_CHECKING = False  # `typing` itself would make every fork slower
if TYPE_CHECKING:
    from maxatk.verifier.inside.seccomp import Filter

CHILD_DIED = (signals.SIGCHLD,)
STANDARD = (0, 1, 2)
# A process that waits for a core is not idle: idle is what it takes longer than on the busiest
# machine, and _FREE_IDLE seconds of that in a test are not counted.
_FREE_IDLE = 1.0


class Context:
    """What a zygote hands to its program processes.

    `job` and `results` are the two files shared with the host. `test_filter` is what a test must
    install, unless its program process installed `program_filter` (None where the limit on
    processes does not stop forks; see `seccomp`). `base_memory` is the zygote's own address space
    in bytes; `orphans` says that the processes of a killed zygote would live on, because it is not
    the first one of a process namespace. `scratch` is the path of the current folder where it is
    the scratch folder of the tests; where there is one, `checker_files` are the files of a checker,
    `object_file` is that of a native program and `input_file` that of every input. `kills` is the
    pipe on which a program process asks the zygote to kill a test, `complaints` the file for what
    the checkers of check tests say, which programs must not read.
    """

    kills = complaints = object_file = input_file = -1

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
    """One message of the host: how many tests, how long the program, what limits.

    `idle_left` (seconds) and `output_left` (bytes) are what the program's tests may still use of
    what they have together; `entry` says how the program is entered.
    """

    def __init__(self, message: bytes) -> None:
        fields = protocol.REQUEST.unpack(message)
        self.tests, self.max_timeouts, self.source_size = fields[:3]
        self.cpu_limit, self.wall_limit, self.idle_left, self.compile_limit = fields[3:7]
        self.memory, self.output, self.output_left, self.entry = fields[7:]
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
        self.idle_left -= max(0.0, min(wall - _FREE_IDLE - protocol.BUSIEST * cpu, self.idle_left))


def die_with_the_host() -> None:
    """End this process when its parent ends, and first when the kernel is out of memory."""
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signals.SIGKILL)
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        return  # where it cannot be written, the sizes of the processes decide


def leave_a_keeper(descriptors: list[int]) -> None:
    """Go on in a child, which is process 1 of the new process namespace if there is one.

    Its parent, the keeper, holds no pipe open. When the child ends, or the host sends SIGTERM, it
    waits for everything below, which nobody else would do where the host's process 1 takes no care
    of orphans: each would stay there as a zombie.
    """
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    pid = os.fork()
    if pid == 0:
        signals.pthread_sigmask(signals.SIG_UNBLOCK, (signals.SIGTERM,))
        return
    for descriptor in descriptors:
        os.close(descriptor)
    # A SIGCHLD may be of an earlier child: of any other, this one has not ended.
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if signals.sigwait((*CHILD_DIED, signals.SIGTERM)) == signals.SIGTERM:
            os.kill(pid, signals.SIGKILL)  # what is below dies with its parent
    _await_all()
    os._exit(0)


def sweep(group: int) -> None:
    """Kill what the first process of a group, which has ended, has left behind."""
    try:
        os.killpg(group, signals.SIGKILL)
    except ProcessLookupError:
        return
    _await_all()


def _await_all() -> None:
    """Wait for all children, and for the orphans that have become such."""
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


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
    idle_limit = request.idle_left + _FREE_IDLE
    patience = 0.0 if reported else min(request.cpu_limit, request.wall_limit, idle_limit)
    while True:
        _sleep_until_a_child_ends(request, patience)
        reaped, status, usage = os.wait4(pid, os.WNOHANG)
        if reaped:
            return ending, status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10
        cpu = _cpu_seconds(pid)
        busy = cpu + spent + (_cpu_seconds(helper) if helper else 0.0)
        cpu_left = request.cpu_limit - cpu
        wall_limit = min(request.wall_limit, idle_limit + protocol.BUSIEST * busy)
        wall_left = wall_limit - (request.clock() - start)
        if cpu_left > 0 and wall_left > 0:
            patience = max(min(cpu_left, wall_left), 0.001)
        else:
            ending = protocol.CPU_LIMIT if cpu_left <= 0 else protocol.WALL_LIMIT
            os.write(context.kills, protocol.KILL.pack(pid))
            patience = 1.0  # until it is dead, or asked for once more


def _sleep_until_a_child_ends(request: Request, patience: float) -> None:
    """Sleep for at most `patience` seconds; what it takes longer, nothing here could run."""
    began = time.monotonic()
    signals.sigtimedwait(CHILD_DIED, patience)
    request.count_stopped(time.monotonic() - began, patience)


def _cpu_seconds(pid: int) -> float:
    return time.clock_gettime((~pid << 3) | 2)  # the kernel's name for the clock of that process
