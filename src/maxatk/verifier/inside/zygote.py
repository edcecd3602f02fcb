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
    given_files,
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


def main(stack: int, arguments: list[str]) -> NoReturn:
    """Isolate this process and serve requests until the host goes away.

    The stack may grow to `stack` bytes. `arguments`: uid to drop to, extra import folder (may be
    empty), modules to preload (comma separated), "native" for native programs beside those in
    Python, the libraries that these need (separated by colons), then the descriptors of requests,
    replies, job and results.
    """
    uid = int(arguments[0])
    folder, modules, kind, libraries = arguments[1:5]
    descriptors = [int(text) for text in arguments[5:]]
    requests, replies, _, _ = descriptors
    supervise.die_with_the_host()
    if folder:
        sys.path.append(os.path.realpath(folder))
    execution.prepare_interpreter()
    # SIGCHLD waits until it is asked for; all processes below inherit this.
    signals.pthread_sigmask(signals.SIG_BLOCK, (*supervise.CHILD_DIED, signals.SIGTERM))
    for name in filter(None, modules.split(",")):
        __import__(name)
    library_folders: list[str] = []
    if kind == "native":
        from maxatk.verifier.inside import native  # not in others, where it makes forks slower

        library_folders = native.preload([path for path in libraries.split(":") if path])
    context, layers = _isolated(uid, stack, descriptors, library_folders)
    layers.update(selftest.run(context))
    if layers["fork_limit"] is not True:
        context.program_filter = None
    warm.rehearse(context)
    gc.collect()
    gc.freeze()
    os.write(replies, repr(layers).encode() + b"\n")
    _serve(context, requests, replies)


def _isolated(
    uid: int, stack: int, descriptors: list[int], library_folders: list[str]
) -> tuple[supervise.Context, isolate.Layers]:
    """Isolate this process; return what its programs are handed, and which layers hold."""
    machine = os.uname().machine
    paths = isolate.library_paths(library_folders)
    with open("/proc/self/statm") as file:
        base_memory = int(file.read().split()[0]) * 4096
    files_of: isolate.GivenFiles = {name: [] for name in given_files.FOLDERS}
    layers = isolate.confine(
        paths,
        uid,
        descriptors,
        readable=paths,
        executable=[],
        given_files=files_of,
        mount_options=scratch.MOUNT_OPTIONS,
        stack=stack,
        own_filter=seccomp.zygote_filter(machine),
    )
    confined = layers["scratch_folder"] is True
    first = layers["pid_namespace"] is True
    _, _, job, results = descriptors
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
        context.checker_files = files_of[given_files.CHECKER_FOLDER]
        (context.object_file,) = files_of[given_files.OBJECT_FOLDER]
        (context.input_file,) = files_of[given_files.INPUT_FOLDER]
    return context, layers


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
        supervise.sweep(pid)
        if context.scratch and status != 0:  # it may have died beside a test
            scratch.empty(context.scratch)
        # The next program must find neither.
        if request.entry != protocol.ENTER_PYTHON and context.object_file >= 0:
            os.ftruncate(context.object_file, 0)
        if context.input_file >= 0:
            os.ftruncate(context.input_file, 0)
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
