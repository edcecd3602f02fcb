"""The filters for both machines, run on an interpreter of BPF; the kernel runs them elsewhere."""

import re
import struct
from pathlib import Path

import pytest

from maxatk.verifier.inside import seccomp

MACHINES = list(seccomp.ARCHITECTURES)
EPERM = seccomp.ERRNO | 1
ENOSYS = seccomp.ERRNO | 38
THREAD = 0x3D0F00
PROCESS = 17
NEW_USER = 0x10000011
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


def ask(code: bytes, machine: str, number: int, *arguments: int) -> int:
    """Return what a filter answers to one system call."""
    padding = [0] * (6 - len(arguments))
    data = struct.pack("<iIQ6Q", number, seccomp.ARCHITECTURES[machine], 0, *arguments, *padding)
    program = list(struct.iter_unpack("<HBBI", code))
    accumulator = 0
    place = 0
    while True:
        operation, true, false, value = program[place]
        place += 1
        if operation == 0x06:
            return value
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, value)
            continue
        holds = {
            0x15: accumulator == value,
            0x35: accumulator >= value,
            0x45: accumulator & value != 0,
        }[operation]
        place += true if holds else false


def number_of(machine: str, name: str) -> int:
    number = seccomp._NUMBERS[name][MACHINES.index(machine)]
    assert number is not None
    return number


# Call and arguments -> what zygote, program and test are answered.
RULES = {
    ("read",): ("allow", "allow", "allow"),
    ("clone", THREAD): ("allow", "allow", "allow"),
    ("clone", PROCESS): ("allow", "allow", "refuse"),
    ("clone", NEW_USER): ("refuse", "allow", "refuse"),
    ("clone3",): ("absent", "allow", "allow"),
    ("kill",): ("allow", "refuse", "refuse"),
    ("tgkill",): ("allow", "refuse", "refuse"),
    ("memfd_create",): ("allow", "refuse", "refuse"),
    ("seccomp",): ("allow", "refuse", "refuse"),
    ("chdir",): ("allow", "allow", "refuse"),
    ("fchmodat",): ("allow", "allow", "refuse"),
    ("unlinkat",): ("allow", "allow", "allow"),
    ("openat", 0, 0, 0o101): ("allow", "allow", "allow"),
    ("fcntl", 0, 8): ("refuse", "allow", "allow"),  # F_SETOWN
    ("ioctl", 0, 0x5412): ("refuse", "allow", "allow"),  # TIOCSTI
    ("socketpair", 1): ("allow", "allow", "allow"),
    ("socketpair", 2): ("refuse", "allow", "allow"),  # AF_INET
    ("sendto", 3, 0, 1, 0, 0): ("allow", "allow", "allow"),
    ("sendto", 3, 0, 1, 0x4040, 0): ("allow", "allow", "allow"),  # MSG_DONTWAIT, MSG_NOSIGNAL
    ("sendto", 3, 0, 1, 1, 0): ("refuse", "allow", "allow"),  # MSG_OOB
    ("sendto", 3, 0, 1, 0, 1): ("refuse", "allow", "allow"),  # an address
    ("sendto", 3, 0, 1, 0, 1 << 32): ("refuse", "allow", "allow"),
    ("prctl", 22): ("allow", "refuse", "refuse"),  # PR_SET_SECCOMP
    ("prctl", 15): ("allow", "allow", "allow"),  # PR_SET_NAME
    ("prlimit64", 0, 0): ("allow", "refuse", "refuse"),  # its own CPU limit
    ("prlimit64", 0, 7): ("allow", "allow", "allow"),
    ("prlimit64", 1, 7): ("refuse", "allow", "allow"),
}
ANSWERS = {"allow": seccomp.ALLOW, "refuse": EPERM, "absent": ENOSYS}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("call", "expected"), RULES.items())
def test_rules(machine, call, expected):
    filters = (
        seccomp.zygote_filter(machine),
        seccomp.program_filter(machine),
        seccomp.test_filter(machine, writing=True),
    )
    name, *arguments = call
    answers = [ask(f.code, machine, number_of(machine, name), *arguments) for f in filters]
    assert answers == [ANSWERS[answer] for answer in expected]


@pytest.mark.parametrize("machine", MACHINES)
def test_without_other_layers_a_test_may_not_write(machine):
    code = seccomp.test_filter(machine, writing=False).code
    openat = number_of(machine, "openat")
    unlinkat = number_of(machine, "unlinkat")
    assert ask(code, machine, openat, 0, 0, 0o101) == EPERM
    assert ask(code, machine, openat, 0, 0, 0) == seccomp.ALLOW
    assert ask(code, machine, unlinkat) == EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_not_named_is_refused(machine):
    allowed = {row[MACHINES.index(machine)] for row in seccomp._NUMBERS.values()}
    code = seccomp.zygote_filter(machine).code
    for number in set(range(600)) - allowed:
        assert ask(code, machine, number) == EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_of_another_machine_kill(machine):
    (other,) = set(MACHINES) - {machine}
    for code in (seccomp.zygote_filter(machine).code, seccomp.program_filter(machine).code):
        assert ask(code, other, 0) == seccomp.KILL
    if machine == "x86_64":
        assert ask(code, machine, 0x40000000) == seccomp.KILL  # the x32 calls


@pytest.mark.parametrize("machine", MACHINES)
def test_numbers_are_those_of_the_kernels_headers(machine):
    if not HEADERS[machine].is_file():
        pytest.skip("the kernel's headers are not installed")
    text = HEADERS[machine].read_text()
    known = {
        name: int(number)
        for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text)
    }
    aliases = {"newfstatat": "fstatat"}
    for name, row in seccomp._NUMBERS.items():
        number = row[MACHINES.index(machine)]
        if number is not None:
            assert known.get(name, known.get(aliases.get(name, ""))) == number, name
