"""The layers of the sandbox: what each does, which must hold, and which hold on this machine."""

from __future__ import annotations

import dataclasses
import sys
import warnings

from maxatk.errors import SandboxError
from maxatk.verifier.zygote_process import Isolation, Zygote, new_uid

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
_REQUIRED = {
    "seccomp": "system calls are limited to a list",
    "rlimits": "memory, CPU time, file size, open files and threads are limited",
    "imports_work": "tried: a module that was not loaded yet can be imported",
    "proved_no_fork": "tried: making a process fails",
    "proved_no_socket": "tried: opening a socket fails",
    "proved_no_reading": "tried: reading /etc/passwd fails",
    "proved_no_proc": "tried: reading another process's command line fails",
    "proved_no_writing": "tried: making a file outside the scratch folder fails",
}
REQUIRED_LAYERS = tuple(_REQUIRED)


@dataclasses.dataclass(frozen=True)
class Layer:
    """One layer of the sandbox: whether it holds here, what it does, and why it is missing."""

    name: str
    holds: bool
    required: bool
    meaning: str
    reason: str = ""


def doctor() -> list[Layer]:
    """Start one sandbox on this machine and return what was proved about it, layer by layer.

    Never raises for a missing layer: a sandbox that does not start is a row of its own.
    """
    try:
        require_linux()
        zygote = Zygote(uid=new_uid())
    except SandboxError as error:
        return [Layer("sandbox", False, True, "a sandbox can be started", str(error))]
    zygote.close()
    meaning = _MEANING | _REQUIRED
    return [
        Layer(name, why is True, name in _REQUIRED, meaning.get(name, ""), _reason(why))
        for name, why in zygote.isolation.items()
    ]


def _reason(why: bool | str) -> str:
    return "" if why is True else str(why)


def accept(isolation: Isolation, *, unsafe: bool) -> None:
    """Raise SandboxError where a required layer is missing; warn of every other missing one.

    With `unsafe` a required layer is only warned of.
    """
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
