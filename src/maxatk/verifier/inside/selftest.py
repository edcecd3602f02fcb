"""Prove the layers of a zygote by trying, in a child set up like a test, what must not work."""

from __future__ import annotations

import os

from maxatk.verifier.inside import execution, supervise, syscalls

TYPE_CHECKING = False  # `typing` itself would make every fork slower
if TYPE_CHECKING:
    from collections.abc import Callable, Collection


def run(context: supervise.Context) -> dict[str, bool | str]:
    """Return for each probe True where it was refused as it must be, else what went wrong.

    `fork_limit` says that the same holds for tests that install no filter of their own.
    """
    probes = {**_PROBES, "no_writing": lambda: _write_outside(context)}
    results = _try_in_a_test(context, probes, threads=True)
    if context.program_filter is None:
        results["fork_limit"] = "needs a scratch folder and a process namespace"
        return results
    cheaper = _try_in_a_test(context, probes, threads=False)
    failed = [name for name, held in cheaper.items() if held is not True]
    results["fork_limit"] = f"does not hold: {', '.join(failed)}" if failed else True
    return results


def _try_in_a_test(
    context: supervise.Context, probes: dict[str, Callable[[], object]], *, threads: bool
) -> dict[str, bool | str]:
    reader, writer = os.pipe()
    program = os.fork()
    if program == 0:
        try:
            if not threads and context.program_filter is not None:
                context.program_filter.install()
            test = syscalls.fork()
            if test == 0:
                os.dup2(writer, 0)
                execution.enter_test(context, 1 << 20, threads=threads)
                os.write(0, bytes(_refused(*probe) for probe in probes.items()))
            else:
                os.waitpid(test, 0)
        finally:
            os._exit(0)
    os.close(writer)
    answer = os.read(reader, len(probes))
    os.close(reader)
    os.waitpid(program, 0)
    results = _proofs(probes, answer)
    # The import is the one probe that must not fail.
    is_import_refused = results.pop("proved_import") is True
    results["imports_work"] = "the standard library cannot be read" if is_import_refused else True
    return results


def _proofs(names: Collection[str], answer: bytes) -> dict[str, bool | str]:
    """Return what the answer of a child, one byte a probe in this order, says of each of them."""
    refused = dict(zip(names, answer, strict=False))  # a child that died has said less
    return {f"proved_{name}": True if refused.get(name) == 1 else "was possible" for name in names}


def _refused(name: str, probe: Callable[[], object]) -> bool:
    """Say whether the probe failed; what the filter refuses must fail for just that reason."""
    try:
        probe()
    except (PermissionError, BlockingIOError):  # the latter: the limit on processes
        return True
    except (OSError, ImportError):
        return name not in _BY_FILTER
    return False


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)


def _write_outside(context: supervise.Context) -> None:
    folders = {"/", "/tmp", "/var/tmp", "/dev/shm", "/checker", os.path.dirname(os.__file__)}
    for folder in folders - {context.scratch}:
        try:
            os.open(folder + "/maxatk-probe", os.O_WRONLY | os.O_CREAT, 0o600)
        except OSError:
            continue
        return
    raise PermissionError


def of_a_builder(enter_build: Callable[[], None]) -> dict[str, bool | str]:
    """Return the same for a builder, of a child that `enter_build` has set up like a compiler."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            enter_build()
            os.write(writer, bytes(_refused(name, _PROBES[name]) for name in _OF_A_BUILDER))
        finally:
            os._exit(0)
    os.close(writer)
    answer = os.read(reader, len(_OF_A_BUILDER))
    os.close(reader)
    os.wait()
    return _proofs(_OF_A_BUILDER, answer)


_OF_A_BUILDER = ("no_socket", "no_signal", "no_reading", "no_proc")
_BY_FILTER = ("no_fork", "no_exec", "no_socket", "no_signal")
_PROBES: dict[str, Callable[[], object]] = {
    "no_fork": _fork,
    "no_exec": lambda: os.execv("/bin/true", ["/bin/true"]),
    "no_socket": lambda: syscalls.check(syscalls.LIBC.socket(1, 1, 0), "socket"),
    "no_signal": lambda: os.kill(os.getppid(), 0),
    "no_reading": lambda: os.open("/etc/passwd", os.O_RDONLY),
    "no_proc": lambda: os.open("/proc/1/cmdline", os.O_RDONLY),
    "import": lambda: __import__("colorsys"),  # never preloaded: it must come from the file system
}
