"""The system-call filter: what a sandboxed process may ask the kernel for.

Two filters of raw BPF stack up: `zygote_filter` is an allow-list for everything below the zygote;
`test_filter`, or `program_filter` once for all tests of a program, takes away what only the
supervising processes need before untrusted code runs. For a builder `builder_filter` is the first,
because a compiler runs its parts by execve. Everything not named fails with EPERM; a foreign
architecture kills.
"""

import ctypes
import errno
import os
import struct

from maxatk.verifier.inside import syscalls

ALLOW = 0x7FFF0000
KILL = 0x80000000
ERRNO = 0x00050000
_MODE_FILTER = 2
_RLIMIT_CPU = 0
_LD = 0x20
_JEQ = 0x15
_JGE = 0x35
_JSET = 0x45
_RET = 0x06
_OFFSET_NR = 0
_OFFSET_ARCH = 4
_CLONE_THREAD = 0x00010000
_CLONE_NEW = 0x7E020080
_O_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | 0o20000000  # the last: O_TMPFILE

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# name -> (number on x86_64, number on aarch64); None: that machine has no such call.
_NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63), "write": (1, 64), "open": (2, None), "close": (3, 57), "stat": (4, None),
    "fstat": (5, 80), "lstat": (6, None), "poll": (7, None), "lseek": (8, 62), "mmap": (9, 222),
    "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214), "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "ioctl": (16, 29),
    "pread64": (17, 67), "pwrite64": (18, 68), "readv": (19, 65), "writev": (20, 66),
    "access": (21, None), "pipe": (22, None), "select": (23, None), "sched_yield": (24, 124),
    "mremap": (25, 216), "madvise": (28, 233), "dup": (32, 23), "dup2": (33, None),
    "pause": (34, None), "nanosleep": (35, 101), "getitimer": (36, 102), "alarm": (37, None),
    "setitimer": (38, 103), "getpid": (39, 172), "sendfile": (40, 71), "clone": (56, 220),
    "fork": (57, None), "vfork": (58, None), "exit": (60, 93), "wait4": (61, 260),
    "kill": (62, 129), "uname": (63, 160), "fcntl": (72, 25), "fsync": (74, 82),
    "fdatasync": (75, 83), "ftruncate": (77, 46), "getcwd": (79, 17), "readlink": (89, None),
    "chdir": (80, 49), "rename": (82, None), "mkdir": (83, None), "rmdir": (84, None),
    "unlink": (87, None), "chmod": (90, None), "mkdirat": (258, 34), "unlinkat": (263, 35),
    "renameat": (264, 38), "fchmodat": (268, 53), "umask": (95, 166),
    "gettimeofday": (96, 169), "getrlimit": (97, 163),
    "getrusage": (98, 165), "sysinfo": (99, 179), "times": (100, 153), "getuid": (102, 174),
    "getgid": (104, 176), "geteuid": (107, 175), "getegid": (108, 177), "setpgid": (109, 154),
    "getppid": (110, 173), "getpgrp": (111, None), "getgroups": (115, 158),
    "getpgid": (121, 155), "getsid": (124, 156), "rt_sigpending": (127, 136),
    "rt_sigtimedwait": (128, 137), "rt_sigsuspend": (130, 133), "sigaltstack": (131, 132),
    "sched_getparam": (143, 121), "sched_getscheduler": (145, 120), "prctl": (157, 167),
    "arch_prctl": (158, None), "gettid": (186, 178),
    "tkill": (200, 130), "time": (201, None), "futex": (202, 98),
    "sched_getaffinity": (204, 123), "epoll_create": (213, None), "getdents64": (217, 61),
    "set_tid_address": (218, 96), "restart_syscall": (219, 128), "clock_gettime": (228, 113),
    "clock_getres": (229, 114), "clock_nanosleep": (230, 115), "exit_group": (231, 94),
    "epoll_wait": (232, None), "epoll_ctl": (233, 21), "tgkill": (234, 131),
    "waitid": (247, 95), "openat": (257, 56), "newfstatat": (262, 79), "readlinkat": (267, 78),
    "faccessat": (269, 48), "pselect6": (270, 72), "ppoll": (271, 73),
    "set_robust_list": (273, 99), "epoll_pwait": (281, 22), "eventfd2": (290, 19),
    "epoll_create1": (291, 20), "dup3": (292, 24), "pipe2": (293, 59), "preadv": (295, 69),
    "pwritev": (296, 70), "prlimit64": (302, 261), "getcpu": (309, 168), "seccomp": (317, 277),
    "getrandom": (318, 278), "memfd_create": (319, 279), "membarrier": (324, 283),
    "statx": (332, 291), "rseq": (334, 293), "close_range": (436, 436), "clone3": (435, 435),
    "faccessat2": (439, 439), "epoll_pwait2": (441, 441),
    "sendto": (44, 206), "recvfrom": (45, 207), "shutdown": (48, 210), "getsockname": (51, 204),
    "socketpair": (53, 199), "execve": (59, 221),
}  # fmt: skip

# What the zygote needs and nothing below it, once a program process is set up.
_SUPERVISOR_ONLY = ("kill", "tkill", "tgkill", "memfd_create", "seccomp", "setpgid", "waitid")
# What a compiler needs to run its parts, and nothing of a zygote.
_BUILDER_ONLY = ("execve",)
_SOCKETS = ("sendto", "recvfrom", "shutdown", "getsockname", "socketpair")
# What a program process needs for its tests, and a test does not.
_PROGRAM_ONLY = ("fork", "vfork", "wait4", "chdir", "chmod", "fchmodat")
# What changes files; refused where neither mounts nor Landlock say where that is allowed.
_FILE_CHANGES = ("rename", "mkdir", "rmdir", "unlink", "mkdirat", "unlinkat", "renameat")
# TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO (the supervisor undoes it on shared files), FIOCLEX
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5451)
_AF_UNIX = 1
_SEND_FLAGS = 0x40 | 0x4000  # MSG_DONTWAIT and MSG_NOSIGNAL; above all, no out-of-band data
_FCNTLS = (0, 1, 2, 3, 1030, 1034)  # dup, get/set descriptor flags, get file flags, get seals
_PRCTLS = (15, 16)  # set and get the thread's name
_SUPERVISOR_PRCTLS = (syscalls.PR_SET_PDEATHSIG, syscalls.PR_SET_SECCOMP)

Instruction = tuple[int, int, int, int]
Rules = dict[str, list[Instruction]]  # what is asked about each call; nothing for all others


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


class Filter:
    """An assembled filter, ready to be installed with one call."""

    def __init__(self, instructions: list[Instruction]) -> None:
        self.code = b"".join(struct.pack("<HBBI", *instruction) for instruction in instructions)
        self._code = ctypes.create_string_buffer(self.code, len(self.code))
        self._program = _Program(len(instructions), ctypes.addressof(self._code))
        self._pointer = ctypes.byref(self._program)
        self._prctl = syscalls.FAST_LIBC.prctl

    def install(self) -> None:
        """Put the filter on this process and all its future children; raises OSError."""
        if self._prctl(syscalls.PR_SET_SECCOMP, _MODE_FILTER, self._pointer) != 0:
            raise OSError("the kernel refused the seccomp filter")


def zygote_filter(machine: str) -> Filter:
    """Return the allow-list for a zygote and everything below it."""
    return _allow_list(machine, without=_BUILDER_ONLY)


def builder_filter(machine: str) -> Filter:
    """Return the allow-list for a builder: that of a zygote with execve, and without sockets."""
    return _allow_list(machine, without=_SOCKETS)


def _allow_list(machine: str, *, without: tuple[str, ...]) -> Filter:
    special = {name: rule for name, rule in _zygote_rules().items() if name not in without}
    names = [name for name in _NUMBERS if name not in special and name not in without]
    free = {name: [_return(ALLOW)] for name in names}
    return _assembled(machine, {**special, **free}, _return(ERRNO | errno.EPERM))


def test_filter(machine: str, *, writing: bool) -> Filter:
    """Return what is taken away from a test on top of the zygote's filter.

    `writing` says that other layers decide which files may be written; without them none may.
    """
    refuse = _return(ERRNO | errno.EPERM)
    allow = _return(ALLOW)
    rules: Rules = {"clone": [_argument(0), (_JSET, 0, 1, _CLONE_THREAD), allow, refuse]}
    rules |= _common_rules()
    refused = [*_SUPERVISOR_ONLY, *_PROGRAM_ONLY]
    if not writing:
        refused += _FILE_CHANGES
        for name, flags in (("open", 1), ("openat", 2)):
            rules[name] = [_argument(flags), (_JSET, 0, 1, _O_WRITING), refuse, allow]
    return _assembled(machine, {**rules, **{name: [refuse] for name in refused}}, allow)


def program_filter(machine: str) -> Filter:
    """Return what a program process takes away from itself and all its tests, a compiler too.

    It leaves the calls of `_PROGRAM_ONLY` and forking. That is safe where a limit of no process
    at all stops forks in a test and the file system is read-only but for the scratch folder. To
    install a filter costs about as much as to fork: hence once a program, not once a test.
    """
    refused = {name: [_return(ERRNO | errno.EPERM)] for name in _SUPERVISOR_ONLY}
    return _assembled(machine, {**_common_rules(), **refused}, _return(ALLOW))


def _common_rules() -> Rules:
    # A program that lowered its own CPU limit would die of a SIGKILL that looks like our fault.
    own_cpu_limit = [_argument(1), (_JEQ, 0, 1, _RLIMIT_CPU), _return(ERRNO | errno.EPERM)]
    return {"prctl": _one_of(0, _PRCTLS), "prlimit64": [*own_cpu_limit, _return(ALLOW)]}


def _zygote_rules() -> Rules:
    refuse = _return(ERRNO | errno.EPERM)
    return {
        # The C library falls back to clone, whose flags a filter can read.
        "clone3": [_return(ERRNO | errno.ENOSYS)],
        "clone": [_argument(0), (_JSET, 0, 1, _CLONE_NEW), refuse, _return(ALLOW)],
        "ioctl": _one_of(1, _IOCTLS),
        "fcntl": _one_of(1, _FCNTLS),
        "prctl": _one_of(0, _PRCTLS + _SUPERVISOR_PRCTLS),
        "prlimit64": _one_of(0, (0,)),
        # Event loops wake themselves through a pair of sockets; no other can be made or reached.
        "socketpair": _one_of(0, (_AF_UNIX,)),
        "sendto": [
            _argument(3), (_JSET, 0, 1, 0xFFFFFFFF ^ _SEND_FLAGS), refuse,
            _argument(4), (_JEQ, 1, 0, 0), refuse,
            (_LD, 0, 0, 16 + 8 * 4 + 4), (_JEQ, 1, 0, 0), refuse,
            _return(ALLOW),
        ],
    }  # fmt: skip


def _assembled(machine: str, rules: Rules, otherwise: Instruction) -> Filter:
    """Return the filter that asks `rules` about the calls they name, and else does `otherwise`."""
    code = _prologue(machine)
    machine_column = list(ARCHITECTURES).index(machine)
    for name, block in rules.items():
        number = _NUMBERS[name][machine_column]
        if number is not None:
            code += [(_JEQ, 0, len(block), number), *block]
    return Filter([*code, otherwise])


def _prologue(machine: str) -> list[Instruction]:
    code = [
        (_LD, 0, 0, _OFFSET_ARCH),
        (_JEQ, 1, 0, ARCHITECTURES[machine]),
        _return(KILL),
        (_LD, 0, 0, _OFFSET_NR),
    ]
    if machine == "x86_64":  # the x32 calls are numbered from here on
        code += [(_JGE, 0, 1, 0x40000000), _return(KILL)]
    return code


def _one_of(argument: int, values: tuple[int, ...]) -> list[Instruction]:
    """Return what allows a call whose argument has one of the values, and refuses any other."""
    code = [_argument(argument)]
    for value in values:
        code += [(_JEQ, 0, 1, value), _return(ALLOW)]
    return [*code, _return(ERRNO | errno.EPERM)]


def _argument(index: int) -> Instruction:
    return (_LD, 0, 0, 16 + 8 * index)  # the low 32 bits: every value of interest fits


def _return(action: int) -> Instruction:
    return (_RET, 0, 0, action)
