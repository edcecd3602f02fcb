"""The host's end of a builder, the sandbox of a compiler (docs/verifier.md)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from maxatk.errors import SandboxError
from maxatk.verifier.inside import protocol
from maxatk.verifier.payloads import Printed
from maxatk.verifier.sandbox_process import SandboxProcess

CPU_SECONDS = 10.0
WALL_SECONDS = 60.0
_MEMORY = 2 << 30  # bytes of address space of each of a compiler's processes
_STACK = 64 << 20  # bytes
_SLACK_SECONDS = 30.0
# Without one of these a compiler that was talked into anything could reach something.
REQUIRED_LAYERS = (
    "private_root",
    "scratch_folder",
    "pid_namespace",
    "seccomp",
    "rlimits",
    "proved_no_socket",
    "proved_no_reading",
    "proved_no_proc",
)


class Reply(NamedTuple):
    """What a build came to: exit code (below 0: a signal), and what the compiler said and made."""

    code: int
    timed_out: bool
    cpu_seconds: float
    message: str
    made: Printed


class Builder(SandboxProcess):
    """One running builder, for one thread, with which it dies.

    `folders` are those of the toolchain, `readable` further ones with headers. A build has a
    scratch folder of `scratch_mebibytes`, half of which a file of it may take. Raises SandboxError
    where it does not start, or a layer that it needs does not hold.
    """

    def __init__(
        self,
        *,
        uid: int,
        folders: Sequence[str],
        readable: Sequence[str] = (),
        scratch_mebibytes: int = 128,
    ) -> None:
        self._most = scratch_mebibytes << 19
        arguments = [str(uid), ":".join(folders), ":".join(readable), str(scratch_mebibytes)]
        super().__init__("builder", arguments, stack=_STACK)
        missing = [
            f"{name}: {self.isolation.get(name)}"
            for name in REQUIRED_LAYERS
            if self.isolation.get(name) is not True
        ]
        if missing:
            self.close()
            raise SandboxError(
                "a compiler cannot be isolated on this machine: " + "; ".join(missing)
            )

    def build(self, command: Sequence[str], source_name: str, source: bytes) -> Reply:
        """Run a command on a source, which it finds under its name; raises SandboxDiedError."""
        arguments = "\0".join([source_name, *command]).encode()
        request = protocol.BUILD.pack(
            len(arguments), len(source), CPU_SECONDS, WALL_SECONDS, _MEMORY, self._most
        )
        answer = self._ask(
            request,
            [arguments, source],
            size=protocol.BUILT.size,
            deadline=WALL_SECONDS + _SLACK_SECONDS,
        )
        status, timed_out, cpu, message_size, made_size = protocol.BUILT.unpack(answer)
        message = self.printed(Printed(0, message_size)).decode("utf-8", "replace")
        made = Printed(message_size, made_size)
        return Reply(os.waitstatus_to_exitcode(status), timed_out, cpu, message, made)

    def save(self, made: Printed, path: Path) -> None:
        """Write what was made into a file, without holding it in memory."""
        with path.open("wb") as file:
            done = 0
            while done < made.size:
                count = os.sendfile(
                    file.fileno(), self._results, made.offset + done, made.size - done
                )
                if count == 0:
                    raise SandboxError("the builder has made less than it says")
                done += count
