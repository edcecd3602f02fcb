"""The host's end of one zygote: start it, give it one program at a time, read what came back."""

from __future__ import annotations

import ast
import contextlib
import os
import secrets
import select
import subprocess
import sys
import tempfile
from pathlib import Path

from maxatk.errors import SandboxError
from maxatk.verifier.inside import protocol

_BOOT = Path(__file__).parent / "inside" / "boot.py"
_START_SECONDS = 60.0
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
    """One running zygote; not for use by two threads at once.

    It dies with the thread that made it. Raises SandboxError where it does not start.
    """

    def __init__(self, *, uid: int, modules: tuple[str, ...] = (), folder: str = "") -> None:
        request_in, self._requests = os.pipe()
        self._replies, reply_out = os.pipe()
        self._job = os.memfd_create("job")
        self._results = os.memfd_create("results")
        theirs = (request_in, reply_out, self._job, self._results)
        arguments = [str(uid), folder, ",".join(modules), *map(str, theirs)]
        with tempfile.TemporaryFile() as complaints:
            self._process = subprocess.Popen(
                [sys.executable, "-s", "-S", "-W", "ignore", "-X", "utf8", str(_BOOT), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=complaints,
                env=_environment(),
                pass_fds=theirs,
                start_new_session=True,  # a Ctrl-C on the terminal is for the host alone
            )
            os.close(request_in)
            os.close(reply_out)
            self.isolation = self._handshake(complaints)

    def run(
        self, request: tuple[object, ...], tables: bytes, *, deadline: float
    ) -> tuple[int, bytes]:
        """Verify one program; return its wait status and the content of the results file.

        `tables` is what goes into the job file; `deadline` is in seconds from now. Raises
        ZygoteDiedError.
        """
        os.ftruncate(self._job, 0)
        os.ftruncate(self._results, 0)
        _write_all(self._job, tables)
        try:
            os.write(self._requests, protocol.REQUEST.pack(*request))
        except BrokenPipeError as error:
            raise ZygoteDiedError("the zygote has closed its pipe") from error
        (status,) = protocol.REPLY.unpack(self._read_reply(protocol.REPLY.size, deadline))
        return status, _read_all(self._results)

    def close(self) -> None:
        """Kill the zygote and all below it, and give back every descriptor."""
        self._process.kill()
        self._process.wait()
        for descriptor in (self._requests, self._replies, self._job, self._results):
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def kill(self) -> None:
        """Kill the process only; the next `run` raises ZygoteDiedError."""
        self._process.kill()

    def _handshake(self, complaints: object) -> Isolation:
        line = b""
        try:
            while not line.endswith(b"\n"):
                line += self._read_reply(1 << 16, _START_SECONDS)
        except ZygoteDiedError as error:
            self.close()
            complaints.seek(0)  # type: ignore[attr-defined]
            text = complaints.read().decode("utf-8", "replace").strip()  # type: ignore[attr-defined]
            raise SandboxError(f"the sandbox did not start: {error}; {text[-2000:]}") from error
        layers: Isolation = ast.literal_eval(line.decode())
        return layers

    def _read_reply(self, size: int, seconds: float) -> bytes:
        poller = select.poll()
        poller.register(self._replies, select.POLLIN)
        if not poller.poll(seconds * 1000):
            raise ZygoteDiedError(f"no answer from the zygote within {seconds:.0f} s")
        answer = os.read(self._replies, size)
        if not answer:
            raise ZygoteDiedError("the zygote died")
        return answer


def _environment() -> dict[str, str]:
    library_path = os.environ.get("LD_LIBRARY_PATH")  # some interpreters need it to start
    return {**_ENVIRONMENT, **({"LD_LIBRARY_PATH": library_path} if library_path else {})}


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    done = 0
    while done < len(view):
        done += os.pwrite(descriptor, view[done:], done)


def _read_all(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    data = os.pread(descriptor, size, 0)
    while len(data) < size:
        data += os.pread(descriptor, size - len(data), len(data))
    return data


def new_uid() -> int:
    """Return a user id that nobody else uses: high, and drawn at random."""
    return 0x40000000 + secrets.randbelow(0x30000000)
