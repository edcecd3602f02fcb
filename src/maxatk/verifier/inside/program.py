"""The process of one program: compiles it once and forks one process for each test.

Trusted code. Untrusted code only ever runs in the forked test, after `enter_test` has closed
every other descriptor and installed the second filter. Inputs and outputs pass from file to file
inside the kernel, so that no test inherits another test's data with the heap.
"""

from __future__ import annotations

import _signal as signals  # type: ignore[import-not-found]  # `signal` would load `enum`
import atexit
import builtins
import os
import resource
import sys
import time

from maxatk.verifier.inside import protocol, syscalls
from maxatk.verifier.inside.seccomp import Filter

TYPE_CHECKING = False  # `typing` itself would make every fork slower
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any, NoReturn

_CHILD_DIED = (signals.SIGCHLD,)
_MAX_DESCRIPTOR = 1 << 20


class Context:
    """What a zygote hands to its program processes.

    `base_memory` is the zygote's own address space in bytes; `orphans` says that the processes
    of a killed zygote would live on, because it is not the first one of a process namespace.
    """

    def __init__(
        self, files: Files, last_filter: Filter, *, base_memory: int, orphans: bool
    ) -> None:
        self.files, self.last_filter = files, last_filter
        self.base_memory, self.orphans = base_memory, orphans


class Files:
    """The descriptors that a zygote got from its host."""

    def __init__(self, requests: int, replies: int, job: int, results: int) -> None:
        self.requests, self.replies, self.job, self.results = requests, replies, job, results


class Request:
    """One message of the host: how many tests, how long the source, what limits."""

    def __init__(self, message: bytes) -> None:
        (
            self.tests,
            self.source_size,
            self.cpu_limit,
            self.wall_limit,
            self.compile_limit,
            self.memory,
            self.output,
        ) = protocol.REQUEST.unpack(message)


def run(request: Request, context: Context) -> NoReturn:
    """Judge one program in this process, which ends with it."""
    files = context.files
    os.setpgid(0, 0)
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signals.SIGKILL)
    _set_limits(request, context.base_memory)
    table_size = request.tests * protocol.TEST.size
    table = os.pread(files.job, table_size, 0)
    code = _compile(os.pread(files.job, request.source_size, table_size), files)
    open_standard_files()
    os.lseek(files.results, request.tests * protocol.RECORD.size, os.SEEK_SET)
    judge_tests(code, table, request, context)
    os._exit(0)


def judge_tests(code: CodeType, table: bytes, request: Request, context: Context) -> None:
    """Run every test of the table and write its record and outputs into the results file."""
    offset = len(table) + request.source_size
    place = 0
    for size, kind in protocol.TEST.iter_unpack(table):
        record = _judge(code, request, context, (offset, size, kind))
        os.pwrite(context.files.results, record, place)
        place += protocol.RECORD.size
        offset += size


def _set_limits(request: Request, base_memory: int) -> None:
    # Whole seconds and only a backstop: `_await` watches the CPU clock itself.
    seconds = int(max(request.cpu_limit, request.compile_limit)) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    memory = request.memory + base_memory
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def _compile(source: bytes, files: Files) -> CodeType:
    try:
        return compile(source, "<program>", "exec", dont_inherit=True)
    except BaseException as error:
        message = f"{type(error).__name__}: {error}"
        os.pwrite(files.results, message.encode("utf-8", "replace")[: protocol.STDERR_BYTES], 0)
        os._exit(protocol.EXIT_COMPILE_ERROR)


def open_standard_files() -> None:
    """Make descriptors 0, 1 and 2 private memory files, which every test will share in turn.

    They are emptied between tests; the filter forbids all other state they could carry along.
    """
    for descriptor in (0, 1, 2):
        memory = os.memfd_create("std", 0)
        os.dup2(memory, descriptor, inheritable=False)
        os.close(memory)


def _judge(code: CodeType, request: Request, context: Context, test: tuple[int, int, int]) -> bytes:
    offset, size, kind = test
    results = context.files.results
    _reset_standard_files(context.files.job, offset, size)
    start = time.monotonic()
    pid = syscalls.fork()
    if pid == 0:
        enter_test(context, request.output)
        _run_test(code, kind)
    ending, status, usage = _await(pid, request, start)
    wall = time.monotonic() - start
    out_size, err_size = os.lseek(1, 0, os.SEEK_END), os.lseek(2, 0, os.SEEK_END)
    if max(out_size, err_size) >= request.output and ending == protocol.EXITED:
        ending = protocol.OUTPUT_FULL
    sent = _copy(1, 0, results, out_size) if ending == protocol.EXITED else 0
    excerpt = _copy(2, 0, results, min(err_size, protocol.STDERR_BYTES))
    cpu = usage.ru_utime + usage.ru_stime
    return protocol.RECORD.pack(status, ending, cpu, wall, usage.ru_maxrss << 10, sent, excerpt)


def _reset_standard_files(job: int, offset: int, size: int) -> None:
    for descriptor in (0, 1, 2):
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
    if size:
        _copy(job, offset, 0, size)
        os.lseek(0, 0, os.SEEK_SET)


def _copy(source: int, offset: int, target: int, size: int) -> int:
    """Copy from file to file inside the kernel; return how much there was."""
    done = 0
    while done < size:
        count = os.sendfile(target, source, offset + done, size - done)
        if count == 0:
            break
        done += count
    return done


def _await(pid: int, request: Request, start: float) -> tuple[int, int, Any]:
    """Wait for a test, and kill it when its CPU clock or the wall clock has run out."""
    clock = (~pid << 3) | 2  # the kernel's name for the CPU clock of that process
    ending = protocol.EXITED
    patience = min(request.cpu_limit, request.wall_limit)
    while True:
        signals.sigtimedwait(_CHILD_DIED, patience)
        reaped, status, usage = os.wait4(pid, os.WNOHANG)
        if reaped:
            return ending, status, usage
        cpu_left = request.cpu_limit - time.clock_gettime(clock)
        wall_left = request.wall_limit - (time.monotonic() - start)
        if cpu_left > 0 and wall_left > 0:
            patience = max(min(cpu_left, wall_left), 0.001)
            continue
        ending = protocol.CPU_LIMIT if cpu_left <= 0 else protocol.WALL_LIMIT
        os.kill(pid, signals.SIGKILL)
        patience = 1.0


def enter_test(context: Context, output_limit: int) -> None:
    """Take away from this process what a test must not have; there is no way back."""
    os.closerange(3, _MAX_DESCRIPTOR)
    if context.orphans:
        syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signals.SIGKILL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (output_limit, output_limit))
    context.last_filter.install()


def _run_test(code: CodeType, kind: int) -> NoReturn:
    """Run the program as `__main__` and end the process as an interpreter would."""
    del kind
    _finish(execute(code, sys.modules["__main__"].__dict__))


def execute(code: CodeType, namespace: dict[str, Any]) -> int:
    """Run the program in this process and return the exit status it asks for."""
    try:
        exec(code, namespace)
    except BaseException as error:
        return _report(error)
    return 0


def _report(error: BaseException) -> int:
    if isinstance(error, SystemExit):
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 0xFF
        sys.stderr.write(f"{error.code}\n")
        return 1
    trace = error.__traceback__
    error = error.with_traceback(trace.tb_next if trace is not None else None)
    sys.excepthook(type(error), error, error.__traceback__)
    return protocol.EXIT_MEMORY if isinstance(error, MemoryError) else 1


def _finish(status: int) -> NoReturn:
    try:
        threading: Any = sys.modules.get("threading")
        if threading is not None:
            threading._shutdown()
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
    except BaseException as error:
        status = status or _report(error) or 120
    os._exit(status)


def prepare_interpreter() -> None:
    """Give this interpreter the surroundings that a script expects, before anything forks."""
    import _sitebuiltins

    for name in ("exit", "quit"):
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D (i.e. EOF)"))
    sys.argv = ["program.py"]
    main = type(sys)("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    signals.pthread_sigmask(signals.SIG_BLOCK, _CHILD_DIED)
