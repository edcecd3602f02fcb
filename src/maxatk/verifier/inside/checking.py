"""Check tests: the checker and the program in two processes, joined by two pipes.

The checker knows expected values, so the program must not share memory with it: its source is
read after the fork, by the checker alone. What crosses are encoded values of known types, so no
method of the program's objects ever runs beside an assertion.
"""

from __future__ import annotations

import os
import sys

from maxatk.verifier.inside import protocol, raised, syscalls, values
from maxatk.verifier.inside.execution import enter_test, import_program, report
from maxatk.verifier.inside.supervise import STANDARD, Context, Request, await_end

TYPE_CHECKING = False  # `typing` itself would make every fork slower
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any, NoReturn

    from maxatk.verifier.inside.python_program import Program

_MAX_MESSAGE = 1 << 26
_CHECK = "<check>"
# The descriptors of both processes, once they have entered.
_READ = 3
_WRITE = 4


def run_check(
    program: Program, request: Request, context: Context, test: tuple[int, int, int], offset: int
) -> tuple[int, int, float, int]:
    """Run a check test and return what the checker came to; the costs are those of both."""
    size, _, name_size = test
    start = request.clock()
    calls_out, calls_in = os.pipe()
    answers_out, answers_in = os.pipe()
    # No byte more than the name: the candidate will inherit what is read here.
    entry_point = os.pread(context.job, name_size, offset).decode()
    candidate = syscalls.fork()
    if candidate == 0:
        try:
            _enter_half(program, request, context, (calls_out, answers_in))
            _run_candidate(program.code, entry_point)
        finally:
            os._exit(1)
    checker = syscalls.fork()
    if checker == 0:
        try:
            source = os.pread(context.job, size - name_size, offset + name_size)
            _redirect(context.complaints)
            _enter_half(program, request, context, (answers_out, calls_in))
            _run_checker(entry_point, source.decode("utf-8", "surrogatepass"))
        finally:
            os._exit(1)
    for descriptor in (calls_out, calls_in, answers_out, answers_in):
        os.close(descriptor)
    # The candidate first: its clock is the one that counts.
    ending, status, cpu, memory = await_end(candidate, request, context, start, helper=checker)
    checker_ending, checker_status, checker_cpu, checker_memory = await_end(
        checker, request, context, start, spent=cpu, reported=True
    )
    if status == 0 and ending == protocol.EXITED:
        ending = checker_ending
        status = checker_status
    return ending, status, cpu + checker_cpu, max(memory, checker_memory)


def _enter_half(
    program: Program, request: Request, context: Context, ends: tuple[int, int]
) -> None:
    """Move one end of each pipe to `_READ` and `_WRITE`, whatever numbers they have, and enter."""
    # Copies first: an end may have the number that the other one is to get.
    reader = os.dup(ends[0])
    writer = os.dup(ends[1])
    os.dup2(reader, _READ)
    os.dup2(writer, _WRITE)
    enter_test(context, request.output, threads=program.threads, first_closed=_WRITE + 1)


def _redirect(complaints: int) -> None:
    """Take the standard files from the checker: the program could read what a traceback tells."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in STANDARD:
        os.dup2(nothing, descriptor)
    os.dup2(complaints, 2)


def _run_candidate(code: CodeType, entry_point: str) -> NoReturn:
    """Import the program and answer calls of its entry point until the checker is gone."""
    namespace = import_program(code)
    try:
        function = eval(entry_point, namespace)
    except BaseException as error:
        os._exit(report(error) or 1)
    while True:
        message = _receive()
        if message is None:
            break
        args, kwargs = values.decode(message)
        answer = _answer_of(function, args, kwargs)
        sys.stderr.flush()
        _send(answer)
    os._exit(0)


def _answer_of(function: Any, args: Any, kwargs: Any) -> bytes:
    """Call the program's function and return what crosses; an exception is told on stderr."""
    try:
        return values.encode((True, function(*args, **kwargs)), foreign=True)
    except (Exception, SystemExit) as error:
        report(error)
        return values.encode((False, *raised.told(error)), foreign=True)


def _run_checker(entry_point: str, source: str) -> NoReturn:
    """Run `check(candidate)`; exit status 0 says that it returned.

    The source may also hold bare asserts on `candidate` or on the entry point's name.
    """
    namespace: dict[str, Any] = {"__name__": "checker", "candidate": _call_candidate}
    namespace[entry_point] = _call_candidate
    try:
        exec(compile(source, _CHECK, "exec", dont_inherit=True), namespace)
        check = namespace.get("check")
        if check is not None and check is not _call_candidate:  # `check` may be the entry point
            check(_call_candidate)
    except BaseException as error:
        os.write(2, _explained(error, source).encode("utf-8", "replace"))
        os._exit(protocol.EXIT_REJECTED if isinstance(error, AssertionError) else 1)
    os._exit(0)


def _explained(error: BaseException, source: str) -> str:
    """Return what failed in a check test and the line of its source."""
    number = 0
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == _CHECK:
            number = trace.tb_lineno
        trace = trace.tb_next
    lines = source.splitlines()[number - 1 : number] if number else []
    where = "".join(f"check, line {number}: {line.strip()[:400]}\n" for line in lines)
    return f"{where}{type(error).__name__}: {str(error)[:400]}".rstrip(": ") + "\n"


def _call_candidate(*args: Any, **kwargs: Any) -> Any:
    call = values.encode((args, kwargs), foreign=True)
    try:
        _send(call)
    except BrokenPipeError:
        raise raised.CandidateError("the program has ended") from None
    message = _receive()
    if message is None:
        raise raised.CandidateError("the program has ended")
    match values.decode(message):
        case tuple((True, value)):
            return value
        case tuple((False, names, text, arguments, attributes)):
            raise raised.raised(names, text, arguments, attributes)
    raise raised.CandidateError("not an answer")


def _send(message: bytes) -> None:
    data = len(message).to_bytes(8, "little") + message
    done = 0
    while done < len(data):
        done += os.write(_WRITE, data[done:])


def _receive() -> bytes | None:
    header = _read(8)
    if header is None:
        return None
    size = int.from_bytes(header, "little")
    return _read(size) if size <= _MAX_MESSAGE else None


def _read(size: int) -> bytes | None:
    parts = []
    while size:
        part = os.read(_READ, min(size, 1 << 16))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
