"""Attacks in C++, on the verifier and on the compiler, as root and as an ordinary user."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from maxatk.records import Outcome, TestCase
from maxatk.verifier import Verifier
from maxatk.verifier.builder_process import Builder
from maxatk.verifier.inside import seccomp
from maxatk.verifier.languages import LANGUAGES
from maxatk.verifier.sandbox_process import new_uid
from maxatk.verifier.toolchain import toolchain
from processes import family, names_of, patience, still_alive
from verifier import attacks, cpp_attacks
from verifier.compilers import needs_compiler

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def failed(verifier):
    """What did not end as it must, by name; all at once, so that builds overlap."""
    return attacks.fails(verifier, cpp_attacks.ALL)


@pytest.mark.long
@pytest.mark.parametrize("name", cpp_attacks.ALL)
def test_no_attack_succeeds(failed, name):
    assert failed.get(name) is None


def test_the_suite_can_fail(verifier):
    soft = cpp_attacks.native(cpp_attacks.body('puts("42-expected-output");'))
    assert list(attacks.fails(verifier, {"right answer": soft})) == ["right answer"]


@pytest.mark.long
def test_no_attack_on_the_compiler_becomes_a_program(verifier):
    jobs = [
        cpp_attacks.native(source, cpp_attacks.NO_PROGRAM, (TestCase(input="", output=""),))
        for source in cpp_attacks.COMPILER.values()
    ]
    assert attacks.fails(verifier, dict(zip(cpp_attacks.COMPILER, jobs, strict=True))) == {}


def test_a_compiler_says_nothing_of_the_host(verifier):
    sources = ('#include "/etc/passwd"', 'asm(".include \\"/etc/passwd\\"");')
    for source in sources:
        verdict = verifier.verify(source, [attacks.HELD], language="cpp")
        assert verdict.outcome is Outcome.COMPILE_ERROR
        assert "root:" not in verdict.tests[0].stderr


SLEEP = cpp_attacks.HEADERS + "struct T { T() { sleep(600); } } t; int main() {}"


def with_object(processes):
    """Return those of some processes that have loaded the object of a program."""
    loaded = []
    for process in processes:
        try:
            maps = Path(f"/proc/{process.pid}/maps").read_text()
        except OSError:  # it has ended, or is none that may be looked at
            continue
        if "program.so" in maps:
            loaded.append(process)
    return loaded


@pytest.mark.skipif(os.geteuid() != 0, reason="the maps of other users cannot be read")
def test_the_program_is_loaded_in_the_process_of_its_test_alone():
    """Verdicts are formed in the host; not even the process that forks tests has run its code."""
    with Verifier(workers=1, time_limit=60) as verifier:
        thread = threading.Thread(
            target=verifier.verify, args=(SLEEP, [attacks.HELD]), kwargs={"language": "cpp"}
        )
        thread.start()
        deadline = time.monotonic() + patience(60)
        loaded = []
        while not loaded:
            assert time.monotonic() < deadline
            time.sleep(0.05)
            loaded = with_object(psutil.Process().children(recursive=True))
        (test,) = loaded
        supervisors = test.parents()
        below_it = test.children()
        verifier.close()
        thread.join()
    assert below_it == []
    assert psutil.Process() in supervisors
    assert len(supervisors) > 3  # its program process, the zygote, what waits for it, the host


def test_an_object_is_not_left_for_the_next_program(verifier):
    secret = cpp_attacks.body('puts("held");')
    look = "import os\nprint(os.path.getsize('/program/program.so') or 'held')"
    for _ in range(4):  # both workers
        assert verifier.verify(secret, [attacks.HELD], language="cpp").reward == 1.0
    python_checker = f"{look.replace('held', '1')}"
    verdict = verifier.verify(secret, [attacks.HELD], "checker", checker=python_checker,
                              language="cpp")  # fmt: skip
    assert verdict.reward == 1.0, verdict


def test_a_builder_reaches_nothing_and_keeps_nothing():
    tools = toolchain(LANGUAGES["cpp"])
    builder = Builder(uid=new_uid(), folders=tools.folders)
    shell = ["/bin/sh", "-c"]
    reads = "ls -a . /tmp /root /home /etc /proc /var /dev 2>&1; id -u; cat /etc/passwd"
    leaves = "touch a; mkdir -p b/c; (sleep 600 &) ; (sleep 600 &); exit 3"
    writes = "for d in / /usr /usr/bin /dev /bin; do touch $d/x && echo $d is open; done"
    kills = "kill -9 1; kill -9 -1; for p in 1 2 3 4 5; do kill -9 $p; done"
    try:
        listing = builder.build([*shell, reads], "x", b"").message
        assert "No such file or directory" in listing
        assert "root:" not in listing
        assert builder.build([*shell, leaves], "x", b"").code == 3
        assert "open" not in builder.build([*shell, writes], "x", b"").message
        builder.build([*shell, kills], "x", b"")
        again = builder.build([*shell, "ls -a; ls /proc"], "x", b"").message
        assert again.split()[:3] == [".", "..", "x"]
        assert "sleep" not in names_of(family(os.getpid()))
        assert builder.isolation["proved_no_socket"] is True
    finally:
        builder.close()


@pytest.mark.parametrize("machine", seccomp.ARCHITECTURES)
def test_only_a_builder_may_execute(machine):
    from verifier.test_seccomp import EPERM, ask, number_of

    execve = number_of(machine, "execve")
    builder = seccomp.builder_filter(machine).code
    assert ask(seccomp.zygote_filter(machine).code, machine, execve) == EPERM
    assert ask(builder, machine, execve) == seccomp.ALLOW
    for name, row in seccomp._NUMBERS.items():
        number = row[list(seccomp.ARCHITECTURES).index(machine)]
        if number is None or name == "execve":
            continue
        of_zygote = ask(seccomp.zygote_filter(machine).code, machine, number)
        assert ask(builder, machine, number) in (of_zygote, EPERM)
    assert ask(builder, machine, number_of(machine, "socketpair"), 1) == EPERM


ENDLESS = cpp_attacks.COMPILER["template tree"]
# A second or so of compiling, after which it is right.
SLOW = (
    cpp_attacks.COMPILER["template tree"]
    .replace("T<26, 0>::v & 1", "(T<11, 0>::v, 0)")
    .replace("int main() {", '#include <bits/stdc++.h>\nint main() { puts("held");')
)
HOST = f"""
from maxatk.records import TestCase
from maxatk.verifier import Verifier
with Verifier(workers=1) as verifier:
    print("ready", flush=True)
    verifier.verify({ENDLESS!r}, [TestCase(input="", output="")], language="cpp")
"""


def compilers_below(pid):
    """Return a process and all below it, as soon as a compiler is among them."""
    deadline = time.monotonic() + patience(60)
    while time.monotonic() < deadline:
        members = family(pid)
        if "cc1plus" in names_of(members):
            return members
        time.sleep(0.05)
    raise AssertionError("no compiler was started")


@pytest.mark.parametrize("killer", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_no_compiler_outlives_the_host(started, killer):
    host = started(sys.executable, "-c", HOST, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert host.stdout.readline() == "ready\n"
    members = compilers_below(host.pid)
    host.send_signal(killer)
    host.wait(timeout=patience(20))
    host.stdout.close()
    assert still_alive(members, seconds=10) == []


def test_closing_ends_a_build_and_a_killed_compiler_is_no_fault_of_the_program():
    with Verifier(workers=1) as verifier, ThreadPoolExecutor(1) as thread:
        right = thread.submit(verifier.verify, SLOW, [attacks.HELD], language="cpp")
        for member in compilers_below(os.getpid()):
            with contextlib.suppress(psutil.NoSuchProcess):
                if member.name() == "cc1plus":
                    member.kill()
        assert right.result().reward == 1.0
        endless = thread.submit(verifier.verify, ENDLESS, [attacks.HELD], language="cpp")
        compilers_below(os.getpid())
        verifier.close()
        assert endless.result().outcome is Outcome.INFRA_ERROR


def test_a_program_whose_compiler_was_killed_every_time_is_built_anew_when_asked_for():
    with Verifier(workers=1) as verifier, ThreadPoolExecutor(1) as thread:
        right = thread.submit(verifier.verify, SLOW, [attacks.HELD], language="cpp")
        while not right.done():
            for member in family(os.getpid()):
                with contextlib.suppress(psutil.NoSuchProcess):
                    if member.name() == "cc1plus":
                        member.kill()
            time.sleep(0.05)
        assert right.result().outcome is Outcome.COMPILE_ERROR
        assert "Killed signal" in right.result().tests[0].stderr
        assert verifier.verify(SLOW, [attacks.HELD], language="cpp").reward == 1.0


def test_a_build_that_a_busy_machine_gave_no_core_is_no_fault_of_the_program(monkeypatch):
    from maxatk.verifier import builder_process

    with Verifier(workers=1) as verifier:
        with monkeypatch.context() as patched:
            patched.setattr(builder_process, "WALL_SECONDS", 0.01)
            verdict = verifier.verify(SLOW, [attacks.HELD], language="cpp")
        assert verdict.outcome is Outcome.INFRA_ERROR
        assert "compiling took longer" in verdict.tests[0].stderr
        monkeypatch.setattr(builder_process, "WALL_SECONDS", patience(60))
        assert verifier.verify(SLOW, [attacks.HELD], language="cpp").reward == 1.0


def test_a_build_that_takes_too_long_is_ended(monkeypatch):
    from maxatk.verifier import builder_process, builds

    # As if the parts of a compiler had used the CPU time of a build together.
    monkeypatch.setattr(builder_process, "WALL_SECONDS", 2.0)
    monkeypatch.setattr(builds, "CPU_SECONDS", 0.01)
    with Verifier(workers=1) as verifier:
        verdict = verifier.verify(ENDLESS, [attacks.HELD], language="cpp")
        assert verdict.outcome is Outcome.COMPILE_ERROR
        assert "s of CPU" in verdict.tests[0].stderr
        assert verifier.verify("print('held')", [attacks.HELD]).reward == 1.0
