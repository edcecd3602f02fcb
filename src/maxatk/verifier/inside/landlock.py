"""Landlock: no file can be opened outside the folders named, no TCP, no signal leaves."""

import ctypes
import os

from maxatk.verifier.inside import syscalls

# LANDLOCK_ACCESS_FS_... of linux/landlock.h.
_EXECUTE = 1 << 0
_WRITE_FILE = 1 << 1
_READ_FILE = 1 << 2
_READ_DIR = 1 << 3
_REMOVE_DIR = 1 << 4
_REMOVE_FILE = 1 << 5
_MAKE_DIR = 1 << 7
_MAKE_REG = 1 << 8
_REFER = 1 << 13  # rename between folders, from version 2 on
_TRUNCATE = 1 << 14  # from version 3 on

_READ = _READ_FILE | _READ_DIR
_FILE_ONLY = _EXECUTE | _WRITE_FILE | _READ_FILE
_MAKE_AND_REMOVE = _MAKE_DIR | _MAKE_REG | _REMOVE_DIR | _REMOVE_FILE
_SCRATCH = _READ | _WRITE_FILE | _MAKE_AND_REMOVE | _REFER | _TRUNCATE
# Interface version -> all file accesses known to it (execute, write, read, make, remove, ...).
_ACCESSES = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_NET_TCP = 0b11  # bind and connect, from version 4 on
_SCOPES = 0b11  # abstract sockets and signals, from version 6 on


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def restrict(
    readable: list[str], devices: list[str], writable: list[str], executable: list[str]
) -> int:
    """Confine this process and its children; return the kernel's Landlock version.

    Below `readable` files can be read, `devices` can also be written, below `writable` files and
    folders can be made and removed, below `executable` files can be read and run; nothing else can
    be opened. Raises OSError where the kernel has no Landlock.
    """
    version = syscalls.syscall(syscalls.NR_LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1)
    handled = _ACCESSES[max(number for number in _ACCESSES if number <= version)]
    rules = _Ruleset(handled, _NET_TCP if version >= 4 else 0, _SCOPES if version >= 6 else 0)
    # An older kernel knows fewer fields of 8 bytes, and refuses a longer structure.
    if version < 4:
        size = 8
    elif version < 6:
        size = 16
    else:
        size = 24
    ruleset = syscalls.syscall(
        syscalls.NR_LANDLOCK_CREATE, ctypes.byref(rules), ctypes.c_size_t(size), 0
    )
    allowed = [
        (readable, _READ),
        (devices, _READ | _WRITE_FILE),
        (writable, _SCRATCH & handled),
        (executable, _READ | _EXECUTE),
    ]
    for paths, access in allowed:
        for path in filter(os.path.exists, paths):
            parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rule = _PathRule(access if os.path.isdir(path) else access & _FILE_ONLY, parent)
            syscalls.syscall(syscalls.NR_LANDLOCK_ADD, ruleset, 1, ctypes.byref(rule), 0)
            os.close(parent)
    syscalls.syscall(syscalls.NR_LANDLOCK_RESTRICT, ruleset, 0)
    os.close(ruleset)
    return version
