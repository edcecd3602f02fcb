"""The process of one program: prepares it once and forks one process for each test.

Untrusted code only runs in the forked test, after `enter_test`. Inputs and outputs pass from file
to file inside the kernel, so that no test inherits another test's data with the heap.
"""

from __future__ import annotations

import _signal as signals  # type: ignore[import-not-found]  # `signal` would load `enum`
import builtins
import os
import resource
import sys

from maxatk.verifier.inside import checker_files, checking, execution, protocol, scratch, syscalls
from maxatk.verifier.inside.python_program import Program, import_early
from maxatk.verifier.inside.supervise import STANDARD, Context, Request, await_end, copy

TYPE_CHECKING = False  # `typing` itself would make every fork slower
if TYPE_CHECKING:
    from typing import NoReturn

    from maxatk.verifier.inside.native import Native


def run(request: Request, context: Context) -> NoReturn:
    """Verify one program in this process, which ends with it."""
    os.setpgid(0, 0)
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signals.SIGKILL)
    _set_limits(request, context.base_memory)
    table_size = request.tests * protocol.TEST.size
    table = os.pread(context.job, table_size, 0)
    program = _prepared(request, context, table_size)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))
    records_size = request.tests * protocol.RESULT.size
    os.ftruncate(context.results, records_size)  # also tells the host that compiling went well
    os.lseek(context.results, records_size, os.SEEK_SET)
    open_standard_files(context.input_file)
    if any(kind == protocol.KIND_CHECK for _, kind, _ in protocol.TEST.iter_unpack(table)):
        context.complaints = os.memfd_create("complaints")
    # Not in the zygote, whose collector is frozen; held by no name, which would keep its objects.
    sys.modules["__main__"] = type(sys)("__main__")
    sys.modules["__main__"].__dict__.update(__builtins__=builtins, __file__=sys.argv[0])
    if isinstance(program, Program):
        import_early(program.names)
    if context.program_filter is None:
        program.threads = True
    elif not program.threads:
        context.program_filter.install()
    run_tests(program, table, request, context)
    os._exit(0)


def run_tests(program: Program | Native, table: bytes, request: Request, context: Context) -> None:
    """Run every test of the table and write its record and outputs into the results file."""
    offset = len(table) + request.source_size
    record_offset = 0
    timeouts = 0
    for test in protocol.TEST.iter_unpack(table):
        ending, record = _run_test(program, request, context, test, offset)
        os.pwrite(context.results, record, record_offset)
        record_offset += protocol.RESULT.size
        offset += test[0]
        if ending == protocol.CPU_LIMIT or ending == protocol.WALL_LIMIT:
            timeouts += 1
            if timeouts == request.max_timeouts:
                return


def _set_limits(request: Request, base_memory: int) -> None:
    # The soft limit is for compiling. The hard one is for tests and only a backstop: `await_end`
    # watches the CPU clock itself. Far above it, because the kernel may count in sampled ticks,
    # which run ahead of the clock on a busy machine, and this process cleans up after every test.
    most = int(request.compile_limit + 2 * request.cpu_limit) + 10 + request.tests
    resource.setrlimit(resource.RLIMIT_CPU, (int(request.compile_limit), most))
    memory = request.memory + base_memory
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def open_standard_files(input_file: int) -> None:
    """Make descriptors 0, 1 and 2 private memory files, which every test will share in turn.

    The first is `input_file`, which programs also find by its name, where there is one.
    """
    # They are emptied between tests; the filter forbids all other state they could carry along.
    for descriptor in STANDARD:
        memory = os.memfd_create("std", 0)
        os.dup2(memory, descriptor, inheritable=False)
        os.close(memory)
    if input_file >= 0:
        os.dup2(input_file, 0, inheritable=False)


def _prepared(request: Request, context: Context, offset: int) -> Program | Native:
    """Return the program whose bytes begin at an offset of the job file.

    No name holds a source: a test could find it in the frames that it inherits.
    """
    if request.entry != protocol.ENTER_PYTHON:
        from maxatk.verifier.inside import native  # loaded by its zygote: others do not pay for it

        return native.place(request, context, offset)
    return _compile(os.pread(context.job, request.source_size, offset), context.results)


def _compile(source: bytes, results: int) -> Program:
    try:
        # As text: it was decoded long ago, whatever encoding a comment in it names.
        text = source.removeprefix(b"\xef\xbb\xbf").decode()
        return Program(compile(text, "<program>", "exec", dont_inherit=True))
    except BaseException as error:
        message = f"{type(error).__name__}: {error}"
        os.pwrite(results, message.encode("utf-8", "replace")[: protocol.STDERR_BYTES], 0)
        os._exit(protocol.EXIT_COMPILE_ERROR)


def _run_test(
    program: Program | Native,
    request: Request,
    context: Context,
    test: tuple[int, int, int],
    offset: int,
) -> tuple[int, bytes]:
    """Run one test, whose data begin at `offset` of the job file; return its end and its record."""
    _, kind, _ = test
    _empty_standard_files()
    start = request.clock()
    if kind == protocol.KIND_CHECK and isinstance(program, Program):
        ending, status, cpu, memory = checking.run_check(program, request, context, test, offset)
    else:
        ending, status, cpu, memory = _run_in_fork(program, request, context, test, offset, start)
    wall = request.clock() - start
    request.count_idle(wall, cpu)
    if context.scratch:
        cpu += scratch.empty(context.scratch)
    out_size = os.lseek(1, 0, os.SEEK_END)
    err_size = os.lseek(2, 0, os.SEEK_END)
    full = max(out_size, err_size) >= request.output or out_size > request.output_left
    if full and ending == protocol.EXITED:
        ending = protocol.OUTPUT_FULL
    sent = 0
    if ending == protocol.EXITED and status == 0:  # of a failed test nobody compares the output
        sent = copy(1, 0, context.results, out_size)
    request.output_left -= sent
    excerpt = _send_excerpt(context, err_size, checked=kind == protocol.KIND_CHECK)
    return ending, protocol.RESULT.pack(status, ending, cpu, wall, memory, sent, excerpt)


def _empty_standard_files() -> None:
    for descriptor in STANDARD:
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.set_blocking(descriptor, True)


def _run_in_fork(
    program: Program | Native,
    request: Request,
    context: Context,
    test: tuple[int, int, int],
    offset: int,
    start: float,
) -> tuple[int, int, float, int]:
    """Run one test in a process of its own; return how it ended, its status, CPU and memory."""
    size, kind, _ = test
    files = None
    if kind == protocol.KIND_CHECKER:
        files = checker_files.place(context.job, offset, context.checker_files)
    elif size:
        copy(context.job, offset, 0, size)
        os.lseek(0, 0, os.SEEK_SET)
    pid = syscalls.fork()
    if pid == 0:
        _become_test(program, request, context, test, files)
    ending = await_end(pid, request, context, start)
    if files is not None:
        files.close()
    return ending


def _send_excerpt(context: Context, err_size: int, *, checked: bool) -> int:
    """Send what a checker complained of and what a test wrote to stderr; return the bytes sent."""
    sent = 0
    if checked:
        sent = copy(context.complaints, 0, context.results, protocol.STDERR_BYTES // 2)
        os.ftruncate(context.complaints, 0)
        os.lseek(context.complaints, 0, os.SEEK_SET)
    return sent + copy(2, 0, context.results, min(err_size, protocol.STDERR_BYTES - sent))


def _become_test(
    program: Program | Native,
    request: Request,
    context: Context,
    test: tuple[int, int, int],
    files: checker_files.Files | None,
) -> NoReturn:
    size, kind, _ = test
    try:
        free = len(STANDARD)  # the first descriptor that it must not have
        if files is not None:
            free = files.move_descriptors()
            sys.argv = ["checker.py", *files.paths]
        execution.enter_test(context, request.output, threads=program.threads, first_closed=free)
        if not isinstance(program, Program):
            from maxatk.verifier.inside import native

            native.run(_arguments(files))
        if kind == protocol.KIND_CALL:
            execution.run_call(program.code, size)
        execution.run_script(program.code, finalise=program.finalise)
    finally:  # whatever happens, this process must not go on as its parent
        os._exit(1)


def _arguments(files: checker_files.Files | None) -> list[bytes]:
    """Return the arguments of a native program; those of a checker in the order of testlib."""
    if files is None:
        return [b"program"]
    stdin, correct, printed = (path.encode() for path in files.paths)
    return [b"checker", stdin, printed, correct]
