"""The builder: a confined interpreter that runs a compiler for one program after the other.

A compiler that reads hostile source may be talked into anything. It has the toolchain's folders to
read and to run, an empty scratch folder in memory, no network, no files of the host, no privilege,
and limits; nothing of it is left when the next program is built. What it made is handed over as
bytes, which neither this process nor the host ever looks into.
"""

from __future__ import annotations

import _signal as signals  # type: ignore[import-not-found]  # `signal` would load `enum`
import contextlib
import os
import resource
import stat
import time

from maxatk.verifier.inside import (
    isolate,
    protocol,
    scratch,
    seccomp,
    selftest,
    supervise,
    syscalls,
)

TYPE_CHECKING = False  # `typing` itself would make the start slower
if TYPE_CHECKING:
    from typing import NoReturn

_OUTPUT = "program.so"
_MOST_MESSAGE = 1 << 16  # bytes of what the compiler says that are handed over
_MAX_DESCRIPTOR = 1 << 20
_STEP = 0.5  # seconds between two looks at the wall clock


class _Places:
    """What a build needs: descriptors of job, results and message, and the scratch folder."""

    def __init__(self, job: int, results: int, folder: str, build_filter: seccomp.Filter) -> None:
        self.job = job
        self.results = results
        self.folder = folder
        self.filter = build_filter
        self.message = os.memfd_create("message")


def main(stack: int, arguments: list[str]) -> NoReturn:
    """Isolate this process and serve builds until the host goes away.

    `arguments`: uid to drop to, folders of the toolchain, folders to read (both separated by
    colons), MiB of the scratch folder, then the descriptors of requests, replies, job and results.
    """
    uid = int(arguments[0])
    tools = arguments[1].split(":")
    readable = [path for path in arguments[2].split(":") if path]
    descriptors = [int(text) for text in arguments[4:]]
    requests, replies, job, results = descriptors
    supervise.die_with_the_host()
    # As in a zygote; SIGTERM is for the keeper.
    signals.pthread_sigmask(signals.SIG_BLOCK, (*supervise.CHILD_DIED, signals.SIGTERM))
    machine = os.uname().machine
    paths = [*tools, *readable]
    layers = isolate.confine(
        paths,
        uid,
        descriptors,
        readable=readable,
        executable=tools,
        given_files={},
        mount_options=f"size={arguments[3]}m,nr_inodes=1k,mode=700",
        stack=stack,
        own_filter=seccomp.builder_filter(machine),
    )
    places = _Places(job, results, scratch.place(paths), seccomp.program_filter(machine))
    layers.update(selftest.of_a_builder(lambda: _enter_build(places)))
    os.write(replies, repr(layers).encode() + b"\n")
    while True:
        message = os.read(requests, protocol.BUILD.size)
        if len(message) < protocol.BUILD.size:
            os._exit(0)  # the host has closed its end
        os.write(replies, _build(places, *protocol.BUILD.unpack(message)))


def _build(
    places: _Places,
    arguments_size: int,
    source_size: int,
    cpu: float,
    wall: float,
    memory: int,
    file: int,
) -> bytes:
    """Run the compiler on a source and return the reply; message and object are in the results."""
    arguments = os.pread(places.job, arguments_size, 0).split(b"\0")
    name = arguments.pop(0).decode()
    source = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    supervise.copy(places.job, arguments_size, source, source_size)
    os.close(source)
    before = _cpu_seconds()
    pid = syscalls.fork()
    if pid == 0:
        _become_compiler(places, arguments, limits=(cpu, memory, file))
    with contextlib.suppress(OSError):  # the child does the same: one of them is first
        os.setpgid(pid, pid)
    status, timed_out = _await_end(pid, wall)
    supervise.sweep(pid)
    os.ftruncate(places.results, 0)
    os.lseek(places.results, 0, os.SEEK_SET)
    message_size = supervise.copy(places.message, 0, places.results, _MOST_MESSAGE)
    object_size = _hand_over(places.results, file) if status == 0 else 0
    os.ftruncate(places.message, 0)
    os.lseek(places.message, 0, os.SEEK_SET)
    scratch.empty(places.folder)
    spent = _cpu_seconds() - before
    return protocol.BUILT.pack(status, timed_out, spent, message_size, object_size)


def _enter_build(places: _Places) -> None:
    """Take away from this process what a compiler must not have; there is no way back."""
    os.setpgid(0, 0)
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signals.SIGKILL)
    places.filter.install()


def _become_compiler(
    places: _Places, arguments: list[bytes], *, limits: tuple[float, int, int]
) -> NoReturn:
    cpu, memory, file = limits
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(places.message, 1)
        os.dup2(places.message, 2)
        os.closerange(3, _MAX_DESCRIPTOR)
        # The soft limit names itself in the message; the hard one is a backstop.
        resource.setrlimit(resource.RLIMIT_CPU, (int(cpu), int(cpu) + 2))
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_FSIZE, (file, file))
        for number in (signals.SIGINT, signals.SIGPIPE, signals.SIGXFSZ):
            signals.signal(number, signals.SIG_DFL)
        signals.pthread_sigmask(signals.SIG_UNBLOCK, supervise.CHILD_DIED)
        _enter_build(places)  # last: it also takes away the right to set limits
        environment = {
            "PATH": os.path.dirname(os.fsdecode(arguments[0])) + ":/usr/bin:/bin",
            "TMPDIR": places.folder,
            "LC_ALL": "C.UTF-8",
        }
        os.execve(arguments[0], arguments, environment)
    except BaseException as error:
        os.write(2, f"the compiler did not start: {error!r}\n".encode())
    finally:  # whatever happens, this process must not go on as its parent
        os._exit(1)


def _await_end(pid: int, wall: float) -> tuple[int, bool]:
    """Wait for the compiler; return its wait status, and whether the wall clock ended it.

    Time in which this process was stopped does not count: the compiler was stopped as well.
    """
    end = time.monotonic() + wall
    timed_out = False
    while True:
        began = time.monotonic()
        signals.sigtimedwait(supervise.CHILD_DIED, _STEP)
        end += max(0.0, time.monotonic() - began - _STEP)
        reaped, status = os.waitpid(pid, os.WNOHANG)
        if reaped:
            return status, timed_out
        if time.monotonic() > end and not timed_out:
            timed_out = True
            os.killpg(pid, signals.SIGKILL)


def _hand_over(results: int, most: int) -> int:
    """Copy what the compiler made behind its message; return its size, 0 where there is nothing."""
    try:
        made = os.open(_OUTPUT, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return 0
    size = 0
    if stat.S_ISREG(os.fstat(made).st_mode):
        size = supervise.copy(made, 0, results, most)
    os.close(made)
    return size


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
