"""The few system calls that the standard library does not offer, through ctypes."""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False  # `typing` itself would make every fork slower
if TYPE_CHECKING:
    from collections.abc import Callable

LIBC = ctypes.CDLL(None, use_errno=True)
# Calls through this one keep the interpreter lock and do not save errno: they touch fewer pages,
# and a raw fork is only safe with the lock held.
FAST_LIBC = ctypes.PyDLL(None)

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

# Both machines share the modern syscall numbers; only the old ones differ.
NR_CAPSET = {"x86_64": 126, "aarch64": 91}
NR_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
NR_MOUNT_SETATTR = 442
NR_LANDLOCK_CREATE = 444
NR_LANDLOCK_ADD = 445
NR_LANDLOCK_RESTRICT = 446

_fork: Callable[[], int] = getattr(FAST_LIBC, "_Fork", os.fork)


def fork() -> int:
    """Fork as the system call does, without the hooks of Python; raises OSError."""
    pid = _fork()
    if pid < 0:
        raise OSError("cannot fork")
    return pid


def check(result: int, what: str) -> int:
    """Return `result`; raises OSError naming `what` where the call failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def prctl(option: int, value: int = 0) -> None:
    """Set one property of this process; raises OSError."""
    zero = ctypes.c_ulong(0)
    check(LIBC.prctl(option, ctypes.c_ulong(value), zero, zero, zero), f"prctl({option})")


def syscall(number: int, *args: object) -> int:
    """Make a system call by its number; raises OSError."""
    return check(LIBC.syscall(ctypes.c_long(number), *args), f"syscall {number}")
