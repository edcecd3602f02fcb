"""The host's end of one sandbox: start its zygote, give it programs, read what came back.

What the sandbox covers, and what it does not, says docs/isolation.md.
"""

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
from maxatk.verifier.inside import protocol
from maxatk.verifier.jobs import Printed

_BOOT = Path(__file__).parent / "inside" / "boot.py"
_START_SECONDS = 60.0
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
        with contextlib.ExitStack() as theirs:
            request_in, self._requests = _pipe(theirs, undo)
            self._replies, reply_out = _pipe(undo, theirs)
            self._job, self._results = _memory("job", undo), _memory("results", undo)
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
            undo.callback(self._process.wait)
            undo.callback(self._process.kill)  # the last one is called first
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
            done, size = 0, part.size if isinstance(part, Printed) else len(part)
            while done < size:
                if isinstance(part, Printed):
                    place = part.offset + done
                    count = os.sendfile(self._job, self._results, place, size - done)
                else:
                    count = os.write(self._job, part[done:] if done else part)
                if count == 0:
                    raise ZygoteDiedError("the results file is shorter than it says")
                done += count

    def results_size(self) -> int:
        """Return the size of the results file in bytes."""
        return os.fstat(self._results).st_size

    def printed(self, place: Printed) -> bytes:
        """Return a part of the results file; less where the file is shorter."""
        data, left = b"", place.size
        while left and (more := os.pread(self._results, left, place.offset + len(data))):
            data, left = data + more, left - len(more)
        return data

    def forget(self) -> None:
        """Give back the memory of the last program's inputs and outputs."""
        os.ftruncate(self._job, 0)
        os.ftruncate(self._results, 0)

    def close(self) -> None:
        """Kill the zygote and all below it, and give back every descriptor."""
        self._opened.close()

    def kill(self) -> None:
        """Kill the process only; the next `run` raises ZygoteDiedError."""
        self._process.kill()

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
        if not poller.poll(seconds * 1000):
            raise ZygoteDiedError(f"no answer from the zygote within {seconds:.0f} s")
        answer = os.read(self._replies, size)
        if not answer:
            raise ZygoteDiedError("the zygote died")
        return answer


def _pipe(first: contextlib.ExitStack, second: contextlib.ExitStack) -> tuple[int, int]:
    reader, writer = os.pipe()
    first.callback(os.close, reader)
    second.callback(os.close, writer)
    return reader, writer


def _memory(name: str, stack: contextlib.ExitStack) -> int:
    descriptor = os.memfd_create(name)
    stack.callback(os.close, descriptor)
    return descriptor


def new_uid() -> int:
    """Return a user id that nobody else uses: high, and drawn at random."""
    return 0x40000000 + secrets.randbelow(0x30000000)
