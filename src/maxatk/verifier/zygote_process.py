"""The host's end of one sandbox (docs/verifier.md): start it, give it programs, read results."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import os
import secrets
import select
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from maxatk.errors import SandboxError
from maxatk.verifier.inside import protocol
from maxatk.verifier.jobs import Printed
from maxatk.waiting import waited_for

_BOOT = Path(__file__).parent / "inside" / "boot.py"
_START_SECONDS = 60.0
_END_SECONDS = 10.0  # what a loaded machine may need until a keeper has waited for all below
_EXCERPT = 2000  # bytes of what a zygote that does not start complains of
# Hash order reproducible, one heap a process, no thread pools in numerical libraries. Symbols are
# looked up at the start, not in every test anew: that saves a tenth of a test's page faults.
_ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    "MALLOC_ARENA_MAX": "1",
    "LD_BIND_NOW": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "LC_ALL": "C.UTF-8",
    "PATH": "/usr/bin:/bin",
}

_MEANING = {
    "user_namespace": "capabilities on the host are out of reach (only when not started as root)",
    "network_namespace": "no network device is visible",
    "ipc_namespace": "no shared memory or message queue of the host is visible",
    "pid_namespace": "no process of the host is visible; nothing outlives its zygote",
    "private_root": "the file tree holds the interpreter's libraries and four devices",
    "scratch_folder": "each test has an empty folder of 16 MiB in memory to write to",
    "own_uid": "programs run as a user of their own",
    "capabilities_dropped": "no privilege of root is left",
    "landlock": "files outside the interpreter's libraries cannot be opened",
    "proved_no_exec": "tried: running another program fails",
    "proved_no_signal": "tried: sending a signal fails",
    "fork_limit": "tests need no filter of their own: cheaper, not safer",
}
REQUIRED_LAYERS = {
    "seccomp": "system calls are limited to a list",
    "rlimits": "memory, CPU time, file size, open files and threads are limited",
    "imports_work": "tried: a module that was not loaded yet can be imported",
    "proved_no_fork": "tried: making a process fails",
    "proved_no_socket": "tried: opening a socket fails",
    "proved_no_reading": "tried: reading /etc/passwd fails",
    "proved_no_proc": "tried: reading another process's command line fails",
    "proved_no_writing": "tried: making a file outside the scratch folder fails",
}

Isolation = dict[str, bool | str]


class ZygoteDiedError(SandboxError):
    """A zygote is gone or silent; whoever asked may start another and try again."""


class Zygote:
    """One running zygote, for one thread, with which it dies.

    `modules` (comma separated) are loaded before it is confined, also from `folder`. Raises
    SandboxError where it does not start.
    """

    def __init__(self, *, uid: int, modules: str = "", folder: str = "") -> None:
        with contextlib.ExitStack() as undo:
            try:
                self._start(undo, [str(uid), folder, modules])
            except OSError as error:
                raise SandboxError(f"the sandbox did not start: {error}") from error
            self._opened = undo.pop_all()

    def _start(self, undo: contextlib.ExitStack, arguments: list[str]) -> None:
        """Start the process; `undo` gets what is to be closed when it is no longer needed."""
        with contextlib.ExitStack() as theirs:  # ends of pipes that only the zygote must hold
            request_in, self._requests = _pipe(theirs, undo)
            self._replies, reply_out = _pipe(undo, theirs)
            self._job = _memory("job", undo)
            self._results = _memory("results", undo)
            complaints = _memory("complaints", undo)
            passed = (request_in, reply_out, self._job, self._results)
            library_path = os.environ.get("LD_LIBRARY_PATH")  # some interpreters need it to start
            inherited = {"LD_LIBRARY_PATH": library_path} if library_path else {}
            command = [sys.executable, "-s", "-S", "-W", "ignore", "-X", "utf8", str(_BOOT)]
            self._process = subprocess.Popen(
                [*command, *arguments, *map(str, passed)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=complaints,
                env={**_ENVIRONMENT, **inherited},
                pass_fds=passed,
                start_new_session=True,  # a Ctrl-C on the terminal is for the host alone
            )
            undo.callback(self._end)
        self.isolation = self._handshake(complaints)

    def run(
        self, request: tuple[object, ...], parts: Sequence[bytes | Printed], *, deadline: float
    ) -> tuple[int, float]:
        """Verify one program; return the wait status and the CPU seconds of its process.

        `parts` go into the job file, those that were printed from the results file, which is then
        emptied; `deadline` is seconds from now. Raises ZygoteDiedError.
        """
        self._write_job(parts)
        os.ftruncate(self._results, 0)
        try:
            os.write(self._requests, protocol.REQUEST.pack(*request))
        except BrokenPipeError as error:
            raise ZygoteDiedError("the zygote has closed its pipe") from error
        status, cpu = protocol.REPLY.unpack(self._read_reply(protocol.REPLY.size, deadline))
        return status, cpu

    def _write_job(self, parts: Sequence[bytes | Printed]) -> None:
        os.ftruncate(self._job, 0)
        os.lseek(self._job, 0, os.SEEK_SET)
        for part in parts:
            size = part.size if isinstance(part, Printed) else len(part)
            done = 0  # a system call may move less than it was asked to
            while done < size:
                if isinstance(part, Printed):
                    offset = part.offset + done
                    count = os.sendfile(self._job, self._results, offset, size - done)
                else:
                    count = os.write(self._job, part[done:] if done else part)
                if count == 0:
                    raise ZygoteDiedError("the results file is shorter than it says")
                done += count

    def printed(self, part: Printed, most: int = 1 << 62) -> bytes:
        """Return a part of the results file, or its beginning; less where the file is shorter."""
        size = min(part.size, most)
        data = b""
        while len(data) < size:
            chunk = os.pread(self._results, size - len(data), part.offset + len(data))
            if not chunk:
                break
            data += chunk
        return data

    def forget(self) -> None:
        """Give back the memory of the last program's inputs and outputs."""
        os.ftruncate(self._job, 0)
        os.ftruncate(self._results, 0)

    def close(self) -> None:
        """Kill the zygote and all below it, and give back every descriptor."""
        self._opened.close()

    def kill(self) -> None:
        """Have all processes killed, without waiting; the next `run` raises ZygoteDiedError."""
        self._process.terminate()

    def _end(self) -> None:
        # Not by SIGKILL: the keeper could not wait for those below, which nobody else may do.
        self._process.terminate()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _handshake(self, complaints: int) -> Isolation:
        line = b""
        try:
            while not line.endswith(b"\n"):
                line += self._read_reply(1 << 16, _START_SECONDS)
        except ZygoteDiedError as error:
            text = os.pread(complaints, _EXCERPT, 0).decode("utf-8", "replace").strip()
            raise SandboxError(f"the sandbox did not start: {error}; {text}") from error
        isolation: Isolation = ast.literal_eval(line.decode())
        return isolation

    def _read_reply(self, size: int, seconds: float) -> bytes:
        poller = select.poll()
        poller.register(self._replies, select.POLLIN)
        if not waited_for(lambda slice_s: bool(poller.poll(1000 * slice_s)), seconds):
            raise ZygoteDiedError(f"no answer from the zygote within {seconds:.0f} s")
        answer = os.read(self._replies, size)
        if not answer:
            raise ZygoteDiedError("the zygote died")
        return answer


def _pipe(readers: contextlib.ExitStack, writers: contextlib.ExitStack) -> tuple[int, int]:
    """Return both ends of a pipe, each of which a stack will close."""
    reader, writer = os.pipe()
    readers.callback(os.close, reader)
    writers.callback(os.close, writer)
    return reader, writer


def _memory(name: str, stack: contextlib.ExitStack) -> int:
    """Return the descriptor of a file in memory, which the stack will close."""
    descriptor = os.memfd_create(name)
    stack.callback(os.close, descriptor)
    return descriptor


def new_uid() -> int:
    """Return a user id that nobody else uses: high, and drawn at random."""
    return 0x40000000 + secrets.randbelow(0x30000000)


@dataclasses.dataclass(frozen=True)
class Layer:
    """One layer of the sandbox: whether it holds here, what it does, and why it is missing."""

    name: str
    holds: bool
    required: bool
    meaning: str
    reason: str = ""


def doctor() -> list[Layer]:
    """Start one sandbox here and return each layer; one that does not start is a row of its own."""
    try:
        require_linux()
        zygote = Zygote(uid=new_uid())
    except SandboxError as error:
        return [Layer("sandbox", False, True, "a sandbox can be started", str(error))]
    zygote.close()
    meaning = _MEANING | REQUIRED_LAYERS
    reasons = {name: "" if why is True else str(why) for name, why in zygote.isolation.items()}
    return [
        Layer(name, not reason, name in REQUIRED_LAYERS, meaning.get(name, ""), reason)
        for name, reason in reasons.items()
    ]


def accept(isolation: Isolation, *, unsafe: bool) -> None:
    """Raise SandboxError where a required layer is missing, unless `unsafe`; warn of the others."""
    missing = {name: str(why) for name, why in isolation.items() if why is not True}
    if isolation.get("user_namespace") is True:
        missing.pop("own_uid", None)  # an ordinary user has no other user to become
    missing.pop("fork_limit", None)  # dearer without it, not less safe
    fatal = [name for name in REQUIRED_LAYERS if isolation.get(name) is not True]
    if fatal and not unsafe:
        raise SandboxError(
            "programs cannot be isolated on this machine: "
            + "; ".join(f"{name}: {missing.get(name)}" for name in fatal)
            + ". Run on Linux 5.11 or newer with seccomp enabled (in a container: its default "
            "seccomp profile is enough), or pass unsafe=True to run them without protection."
        )
    if missing:
        text = "; ".join(f"{name} ({why})" for name, why in missing.items())
        warnings.warn(f"the sandbox lacks these layers: {text}", RuntimeWarning, stacklevel=4)


def require_linux() -> None:
    """Raise SandboxError where the verifier cannot work at all."""
    if sys.platform != "linux":
        raise SandboxError(
            f"the verifier needs Linux, this is {sys.platform}: run it in a Linux container or "
            "virtual machine (Docker's defaults are enough)"
        )
    if not sys.executable:
        raise SandboxError("sys.executable is empty: the verifier cannot start an interpreter")
