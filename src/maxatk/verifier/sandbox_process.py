"""The host's end of a sandboxed process: start it, say what it is to do, read what it answers."""

from __future__ import annotations

import ast
import contextlib
import os
import secrets
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from maxatk.errors import SandboxError
from maxatk.verifier.payloads import Printed
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

Isolation = dict[str, bool | str]


class SandboxDiedError(SandboxError):
    """A sandboxed process is gone or silent; whoever asked may start another and try again."""


class SandboxProcess:
    """One running zygote or builder, for one thread, with which it dies.

    `role` and `arguments` are those of `inside/boot.py`; its stack may grow to `stack` bytes.
    Raises SandboxError where it does not start.
    """

    def __init__(self, role: str, arguments: Sequence[str], *, stack: int) -> None:
        with contextlib.ExitStack() as undo:
            try:
                self._start(undo, [role, str(stack), *arguments])
            except OSError as error:
                raise SandboxError(f"the sandbox did not start: {error}") from error
            self._opened = undo.pop_all()

    def _start(self, undo: contextlib.ExitStack, arguments: list[str]) -> None:
        """Start the process; `undo` gets what is to be closed when it is no longer needed."""
        with contextlib.ExitStack() as theirs:  # ends of pipes that only it must hold
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

    def _ask(
        self, request: bytes, parts: Sequence[bytes | Printed], *, size: int, deadline: float
    ) -> bytes:
        """Send a request with its parts; return the reply of `size` bytes.

        `parts` go into the job file, those that were printed from the results file, which is then
        emptied; `deadline` is seconds from now. Raises SandboxDiedError.
        """
        self._write_job(parts)
        os.ftruncate(self._results, 0)
        try:
            os.write(self._requests, request)
        except BrokenPipeError as error:
            raise SandboxDiedError("the sandbox has closed its pipe") from error
        return self._read_reply(size, deadline)

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
                    raise SandboxDiedError("the results file is shorter than it says")
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
        """Kill the process and all below it, and give back every descriptor."""
        self._opened.close()

    def kill(self) -> None:
        """Have all processes killed, without waiting; the next `run` raises SandboxDiedError."""
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
        except SandboxDiedError as error:
            text = os.pread(complaints, _EXCERPT, 0).decode("utf-8", "replace").strip()
            raise SandboxError(f"the sandbox did not start: {error}; {text}") from error
        isolation: Isolation = ast.literal_eval(line.decode())
        return isolation

    def _read_reply(self, size: int, seconds: float) -> bytes:
        poller = select.poll()
        poller.register(self._replies, select.POLLIN)
        if not waited_for(lambda slice_s: bool(poller.poll(1000 * slice_s)), seconds):
            raise SandboxDiedError(f"no answer from the sandbox within {seconds:.0f} s")
        answer = os.read(self._replies, size)
        if not answer:
            raise SandboxDiedError("the sandbox died")
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
