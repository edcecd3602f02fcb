"""The process of one test: gives up what is left to give up, then runs untrusted code.

A program may do to this module whatever it likes: it can only end, print, and hand over a value,
and the host believes nothing but the exit status and what it compares itself.
"""

from __future__ import annotations

import _signal as signals  # type: ignore[import-not-found]  # `signal` would load `enum`
import atexit
import builtins
import gc
import os
import resource
import sys

from maxatk.verifier.inside import protocol, syscalls, values

TYPE_CHECKING = False  # `typing` itself would make every fork slower
if TYPE_CHECKING:
    from types import CodeType, TracebackType
    from typing import Any, NoReturn

    from maxatk.verifier.inside.supervise import Context

_MAX_DESCRIPTOR = 1 << 20
_MAX_DIGITS = 50_000  # of an integer that is converted from text or to text
_IMPORTED_NAME = "solution"
_OWN_FOLDER = os.path.dirname(__file__)
# An exception of the program may have attributes of its own under these names.
_TRACEBACK: Any = BaseException.__traceback__
_LEADS: Any = (BaseException.__cause__, BaseException.__context__)


def enter_test(context: Context, output: int, *, threads: bool, first_closed: int = 3) -> None:
    """Take away from this process what a test must not have; there is no way back.

    It may write files of `output` bytes. `threads` says that it may start some, so that a filter of
    its own must tell them from processes; otherwise the limit on both stops both, for less.
    """
    os.closerange(first_closed, _MAX_DESCRIPTOR)
    if context.orphans:
        syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signals.SIGKILL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (output, output))
    if threads:
        context.test_filter.install()
    else:
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def run_script(code: CodeType, *, finalise: bool) -> NoReturn:
    """Run the program as `__main__` and end the process as an interpreter would.

    With `finalise` the program's objects are destroyed at the end: some print only then.
    """
    _finish(execute(code, sys.modules["__main__"].__dict__), finalise=finalise)


def run_call(code: CodeType, size: int) -> NoReturn:
    """Import the program, evaluate the call that stands in stdin, leave its value in stdout."""
    text = os.pread(0, size, 0).decode("utf-8", "surrogatepass")
    os.ftruncate(0, 0)  # a program that reads its input finds none, and not the call
    namespace = import_program(code)
    try:
        value = eval(compile(text, "<call>", "eval", dont_inherit=True), namespace)
    except BaseException as error:
        _finish(report(error) or 1)
    try:
        answer = values.encode(value)
    except (ValueError, RecursionError, MemoryError) as error:
        report(error)
        _finish(protocol.EXIT_BAD_VALUE)
    sys.stderr.flush()
    os.ftruncate(1, 0)  # whatever was printed on the way is not the value
    os.lseek(1, 0, os.SEEK_SET)
    done = 0
    while done < len(answer):
        done += os.write(1, answer[done:])
    os._exit(0)


def import_program(code: CodeType) -> dict[str, Any]:
    """Run the program as an imported module and return its names; ends the process if it fails."""
    namespace = sys.modules["__main__"].__dict__
    namespace["__name__"] = _IMPORTED_NAME
    sys.modules[_IMPORTED_NAME] = sys.modules["__main__"]
    status = execute(code, namespace)
    if status:
        _finish(status)
    return namespace


def execute(code: CodeType, namespace: dict[str, Any]) -> int:
    """Run the program in this process and return the exit status it asks for."""
    try:
        exec(code, namespace)
    except BaseException as error:
        return report(error)
    return 0


def report(error: BaseException) -> int:
    """Write to stderr what an interpreter would write, and return its exit status."""
    if isinstance(error, SystemExit):
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 0xFF
        sys.stderr.write(f"{error.code}\n")
        return 1
    _hide_own_frames(error)
    sys.excepthook(type(error), error, _TRACEBACK.__get__(error))
    return protocol.EXIT_MEMORY if isinstance(error, MemoryError) else 1


def _hide_own_frames(error: BaseException) -> None:
    """Take the frames of this package, which name files of the host, out of what is told."""
    errors = [error]
    seen = {id(error)}
    for earlier in errors:  # grows: an exception is told with those that led to it
        _TRACEBACK.__set__(earlier, _without_own_frames(_TRACEBACK.__get__(earlier)))
        for lead in _LEADS:
            cause = lead.__get__(earlier)
            if cause is not None and id(cause) not in seen:
                seen.add(id(cause))
                errors.append(cause)


def _without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return what is left of a traceback; its links are changed in place."""
    kept = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(_OWN_FOLDER):
            kept.append(trace)
        trace = trace.tb_next
    for place, frame in enumerate(kept):
        frame.tb_next = kept[place + 1] if place + 1 < len(kept) else None
    return kept[0] if kept else None


def _finish(status: int, *, finalise: bool = False) -> NoReturn:
    try:
        threading: Any = sys.modules.get("threading")
        if threading is not None:
            threading._shutdown()
        atexit._run_exitfuncs()
        _flush()
        if finalise:
            del sys.modules["__main__"]
            gc.collect()
            _flush()
    except BaseException as error:
        status = status or report(error) or 120
    os._exit(status)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()
    # A program may have replaced sys.stdout and still have printed to the first one.
    first_stdout: Any = sys.__stdout__
    try:
        first_stdout.flush()
    except Exception:  # it is closed, detached or None: of that an interpreter takes no notice
        return


def prepare_interpreter() -> None:
    """Give this interpreter the surroundings that a script expects, before anything forks."""
    import _sitebuiltins

    for name in ("exit", "quit"):
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D (i.e. EOF)"))
    sys.argv = ["program.py"]
    # LiveCodeBench's grader allows as many; the CPU clock bounds what their conversion costs.
    if hasattr(sys, "set_int_max_str_digits"):  # from Python 3.10.7 on
        sys.set_int_max_str_digits(_MAX_DIGITS)
