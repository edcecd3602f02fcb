"""The zygote: a small interpreter that isolates itself, then forks one process a program.

It runs no untrusted code. It is process 1 of its own process namespace where the host allows
one, so that nothing below it can outlive it; and it dies with the host.
"""

from __future__ import annotations

import _signal as signals  # type: ignore[import-not-found]  # `signal` would load `enum`
import gc
import os
import sys

from maxatk.verifier.inside import (
    execution,
    isolate,
    program,
    protocol,
    scratch,
    seccomp,
    selftest,
    supervise,
    syscalls,
    warm,
)

TYPE_CHECKING = False  # `typing` itself would make every fork slower
if TYPE_CHECKING:
    from typing import NoReturn


def main(arguments: list[str]) -> NoReturn:
    """Isolate this process and serve requests until the host goes away.

    `arguments`: uid to drop to, extra import folder (may be empty), modules to preload (comma
    separated), then the descriptors of requests, replies, job and results.
    """
    uid = int(arguments[0])
    folder = arguments[1]
    modules = arguments[2]
    descriptors = [int(text) for text in arguments[3:]]
    requests, replies, job, results = descriptors
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signals.SIGKILL)
    _be_killed_first()
    if folder:
        sys.path.append(os.path.realpath(folder))
    execution.prepare_interpreter()
    # SIGCHLD waits until it is asked for; all processes below inherit this.
    signals.pthread_sigmask(signals.SIG_BLOCK, (*supervise.CHILD_DIED, signals.SIGTERM))
    for name in filter(None, modules.split(",")):
        __import__(name)
    machine = os.uname().machine
    paths = isolate.library_paths()
    with open("/proc/self/statm") as file:
        base_memory = int(file.read().split()[0]) * 4096
    checker_files: list[int] = []
    layers = isolate.enter_namespaces(paths, uid, checker_files)
    _leave_a_keeper(descriptors)
    layers = isolate.drop_privileges(layers, paths, uid)
    # A change of user clears it; the new parent may also have died in the meantime.
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signals.SIGKILL)
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    layers["seccomp"] = isolate.attempt(seccomp.zygote_filter(machine).install)
    confined = layers["scratch_folder"] is True
    first = layers["pid_namespace"] is True
    context = supervise.Context(
        job,
        results,
        seccomp.test_filter(machine, writing=confined or layers["landlock"] is True),
        seccomp.program_filter(machine) if confined and first else None,
        base_memory=base_memory,
        orphans=not first,
    )
    if confined:
        context.scratch = scratch.place(paths)
        context.checker_files = checker_files
    layers.update(selftest.run(context))
    if layers["fork_limit"] is not True:
        context.program_filter = None
    warm.rehearse(context)
    gc.collect()
    gc.freeze()
    os.write(replies, repr(layers).encode() + b"\n")
    _serve(context, requests, replies)


def _leave_a_keeper(descriptors: list[int]) -> None:
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
        if signals.sigwait((*supervise.CHILD_DIED, signals.SIGTERM)) == signals.SIGTERM:
            os.kill(pid, signals.SIGKILL)  # what is below dies with its parent
    _await_all()
    os._exit(0)


def _be_killed_first() -> None:
    """Let the kernel, when it is out of memory, end a test rather than the trainer that waits."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        return  # where it cannot be written, the sizes of the processes decide


def _serve(context: supervise.Context, requests: int, replies: int) -> NoReturn:
    while True:
        message = os.read(requests, protocol.REQUEST.size)
        if len(message) < protocol.REQUEST.size:
            os._exit(0)  # the host has closed its end
        request = supervise.Request(message)
        kills, context.kills = os.pipe()
        pid = syscalls.fork()
        if pid == 0:
            program.run(request, context)
        os.close(context.kills)
        _kill_on_request(kills)
        _, status, usage = os.wait4(pid, 0)
        _sweep(pid)
        if context.scratch and status != 0:  # it may have died beside a test
            scratch.empty(context.scratch)
        cpu = usage.ru_utime + usage.ru_stime
        os.write(replies, protocol.REPLY.pack(status, cpu))


def _kill_on_request(kills: int) -> None:
    """Kill the tests that the program process names, until it has ended and closed the pipe."""
    while True:
        message = os.read(kills, protocol.KILL.size)
        if not message:
            break
        try:
            os.kill(protocol.KILL.unpack(message)[0], signals.SIGKILL)
        except ProcessLookupError:
            continue
    os.close(kills)


def _sweep(group: int) -> None:
    """Kill what a program process that died early has left behind."""
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
