"""Zygotes, which run programs, and the layers around them (docs/verifier.md)."""

from __future__ import annotations

import dataclasses
import sys
import warnings
from collections.abc import Sequence

from maxatk.errors import SandboxError
from maxatk.verifier.inside import protocol
from maxatk.verifier.payloads import Printed
from maxatk.verifier.sandbox_process import Isolation, SandboxProcess, new_uid

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

_STACK = 64 << 20  # bytes
_NATIVE_STACK = 256 << 20  # bytes: as judges of contests in C++ give


class Zygote(SandboxProcess):
    """One running zygote, for one thread, with which it dies.

    `modules` (comma separated) are loaded before it is confined, also from `folder`. With `native`
    it has the stack that native programs are given, and `libraries` (paths) are loaded for them.
    Raises SandboxError where it does not start.
    """

    def __init__(
        self,
        *,
        uid: int,
        modules: str = "",
        folder: str = "",
        native: bool = False,
        libraries: Sequence[str] = (),
    ) -> None:
        kind = "native" if native else "python"
        arguments = [str(uid), folder, modules, kind, ":".join(libraries)]
        super().__init__("zygote", arguments, stack=_NATIVE_STACK if native else _STACK)

    def run(
        self, request: tuple[object, ...], parts: Sequence[bytes | Printed], *, deadline: float
    ) -> tuple[int, float]:
        """Verify one program; return the wait status and the CPU seconds of its process.

        The arguments are those of `protocol.REQUEST`, and as in `_ask`. Raises SandboxDiedError.
        """
        packed = protocol.REQUEST.pack(*request)
        reply = self._ask(packed, parts, size=protocol.REPLY.size, deadline=deadline)
        status, cpu = protocol.REPLY.unpack(reply)
        return status, cpu


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
