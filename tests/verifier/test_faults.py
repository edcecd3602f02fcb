"""What happens when parts of the verifier die, or when the machine is busy."""

import asyncio
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

from maxatk.check import MOST_BYTES, MOST_SECONDS
from maxatk.errors import InvalidValueError, SandboxError
from maxatk.records import Outcome, TestCase
from maxatk.verifier import Job, Verifier, VerifierSettings, doctor, outcomes, zygote_process
from maxatk.verifier import worker as pool
from maxatk.verifier.zygote_process import Zygote, new_uid
from processes import family, kill, patience, still_alive

SQUARE = "n = int(input())\nprint(n * n)\n"
TESTS = [TestCase(input=f"{i}\n", output=f"{i * i}\n") for i in range(5)]
SOURCE = str(Path(zygote_process.__file__).parents[2])


def below(pid: int) -> list[psutil.Process]:
    return family(pid)[1:]


def kill_all_below():
    kill(below(os.getpid()))


def test_a_killed_zygote_is_replaced_and_no_verdict_lost():
    with Verifier(workers=2) as verifier:
        jobs = [(f"{SQUARE}# {i}", TESTS) for i in range(150)]
        killer = threading.Timer(0.1, kill_all_below)
        killer.start()
        verdicts = verifier.verify_many(jobs)
        killer.join()
        assert [verdict.reward for verdict in verdicts] == [1.0] * 150


def test_a_verifier_that_always_dies_is_no_reward_of_zero(monkeypatch):
    attempts = []

    def fail(*args):
        attempts.append(1)
        raise RuntimeError("boom")

    with Verifier(workers=1) as verifier:
        monkeypatch.setattr(outcomes, "verdict", fail)
        verdict = verifier.verify(SQUARE, TESTS)
    assert verdict.outcome is Outcome.INFRA_ERROR
    assert verdict.reward is None
    assert "boom" in verdict.tests[0].stderr
    assert len(attempts) == 3


def new_below(known, *, seconds=20):
    """Return the processes below that were not there, as soon as there is one."""
    deadline = time.monotonic() + patience(seconds)
    while time.monotonic() < deadline:
        new = [p for p in below(os.getpid()) if p.pid not in known]
        if new:
            return new
    raise AssertionError("no program was started")


def hit(verifier, program, number):
    """Return the verdict on a program of which a process gets a signal once, from outside."""
    with ThreadPoolExecutor(1) as thread:
        idle = {process.pid for process in below(os.getpid())}
        verdict = thread.submit(verifier.verify, program, [TestCase(input="", output="9")])
        new_below(idle)
        time.sleep(0.3)
        new_below(idle)[-1].send_signal(number)
        return verdict.result()


COMPILED_FOR_SECONDS = "if 0:\n" + "    f(x)[1] = {1: (2, y)}\n" * 38_000 + "print(9)\n"


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize(
    "program",
    [COMPILED_FOR_SECONDS, "import time; time.sleep(1.5); print(9)"],
    ids=["compile", "run"],
)
def test_a_signal_from_outside_is_no_fault_of_the_program(number, program):
    with Verifier(workers=1) as verifier:
        assert hit(verifier, program, number).reward == 1.0


def test_the_kernel_is_told_to_end_tests_before_their_host():
    earlier = set(below(os.getpid()))  # helpers of libraries that earlier tests started
    with Verifier(workers=2) as verifier:
        assert verifier.verify(SQUARE, TESTS).reward == 1.0
        processes = set(below(os.getpid())) - earlier
        scores = [Path(f"/proc/{process.pid}/oom_score_adj").read_text() for process in processes]
    assert scores
    assert set(scores) == {"1000\n"}


NO_DESCRIPTORS = f"""
import os, resource, sys
sys.path.insert(0, {SOURCE!r})
from maxatk.errors import SandboxError
from maxatk.verifier import Verifier, doctor
import subprocess, select
used = max(map(int, os.listdir("/proc/self/fd"))) + 1
resource.setrlimit(resource.RLIMIT_NOFILE, (used + int(sys.argv[1]),) * 2)
before = sorted(os.listdir("/proc/self/fd"))
try:
    Verifier(workers=2)
except SandboxError as error:
    print("refused:", error)
(row,) = doctor()
print(row.name, row.holds, sorted(os.listdir("/proc/self/fd")) == before)
"""


@pytest.mark.parametrize("free", [0, 1, 3, 5, 7])
def test_a_zygote_that_cannot_be_started_is_an_error_and_no_hang(started, free):
    host = started(sys.executable, "-c", NO_DESCRIPTORS, str(free), stdout=subprocess.PIPE)
    out, _ = host.communicate(timeout=patience(60))
    assert "refused: " in out
    assert "Too many open files" in out
    assert "sandbox False True" in out


OPEN_HOST = f"""
import sys
sys.path.insert(0, {SOURCE!r})
from maxatk.verifier.inside import seccomp, syscalls
code = seccomp._prologue("x86_64")
for number in (syscalls.NR_LANDLOCK_CREATE, 272):  # 272: unshare
    code += [(seccomp._JEQ, 0, 1, number), seccomp._return(seccomp.ERRNO | 38)]
syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
seccomp.Filter([*code, seccomp._return(seccomp.ALLOW)]).install()
from maxatk.cli.main import main
sys.exit(main(["doctor"]))
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of the calls are its")
def test_a_host_whose_files_could_be_read_is_refused():
    run = subprocess.run(
        [sys.executable, "-c", OPEN_HOST], capture_output=True, text=True, timeout=patience(60)
    )
    assert run.returncode == 2
    assert "cannot be verified safely here: " in run.stderr
    assert "proved_no_reading" in run.stderr


def test_a_library_below_the_temporary_folder_costs_no_layer(tmp_path, verifier):
    (tmp_path / "blue.py").write_text("shade = 7\n")
    zygote = Zygote(uid=new_uid(), modules="blue", folder=str(tmp_path))
    try:
        assert zygote.isolation == verifier.isolation
        program = (
            "import blue, os, tempfile\nopen('x', 'w').write('1')\n"
            "with tempfile.NamedTemporaryFile() as file: file.write(b'x')\n"
            "print(blue.shade, len(os.listdir('.')))"
        )
        job = Job(program, (TestCase(input="", output="7 1"),) * 2, compare="tokens")
        verdict = outcomes.verdict(zygote, job, outcomes.Limits(1.0, 1 << 29, 1 << 20))
        assert verdict.reward == 1.0, verdict
    finally:
        zygote.close()


def test_a_later_zygote_with_less_isolation_verifies_nothing(monkeypatch):
    class Weaker(Zygote):
        def __init__(self, **settings):
            super().__init__(**settings)
            if settings["modules"]:
                self.isolation = {**self.isolation, "landlock": "no"}

    pytest.importorskip("numpy")
    monkeypatch.setattr(pool, "Zygote", Weaker)
    with Verifier(workers=1) as verifier:
        verdict = verifier.verify("import numpy\nprint(1)", [TestCase(input="", output="1")])
        assert verdict.reward is None
        assert "lacks layers of the first: landlock" in verdict.tests[0].stderr
        assert verifier.verify(SQUARE, TESTS).reward == 1.0


HOST = f"""
import sys, time
sys.path.insert(0, {SOURCE!r})
from maxatk.records import TestCase
from maxatk.verifier import Verifier
with Verifier(workers=2, time_limit=60) as verifier:
    print("ready", flush=True)
    verifier.verify_many([("while True: pass", [TestCase(input="", output=str(i))])
                          for i in range(4)])
"""


@pytest.mark.parametrize("killer", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_outlives_the_host(started, killer):
    host = started(sys.executable, "-c", HOST, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert host.stdout.readline() == "ready\n"
    deadline = time.monotonic() + patience(20)
    while len(below(host.pid)) < 8 and time.monotonic() < deadline:
        time.sleep(0.05)
    processes = below(host.pid)
    assert len(processes) == 8  # two of: the waiting parent, zygote, program, test
    host.send_signal(killer)
    host.wait(timeout=patience(20))
    host.stdout.close()
    assert not still_alive(processes, seconds=10)


def test_closing_ends_everything_at_once(request):
    earlier = {process.pid for process in below(os.getpid())}
    verifier = Verifier(workers=2, time_limit=60)
    request.addfinalizer(verifier.close)
    results = []
    thread = threading.Thread(
        target=lambda: results.append(verifier.verify("while True: pass", TESTS))
    )
    thread.start()
    time.sleep(0.5)
    processes = below(os.getpid())
    verifier.close()
    thread.join(timeout=patience(10))
    assert not still_alive([p for p in processes if p.pid not in earlier], seconds=10)
    assert results[0].outcome is Outcome.INFRA_ERROR
    verifier.close()
    with pytest.raises(SandboxError, match="closed"):
        verifier.verify(SQUARE, TESTS)


def test_no_descriptor_process_or_thread_leaks():
    def counts():
        me = psutil.Process()
        return me.num_fds(), len(below(me.pid)), threading.active_count()

    with Verifier(workers=1) as verifier:
        verifier.verify(SQUARE, TESTS)
    before = counts()
    for _ in range(3):
        with Verifier(workers=2) as verifier:
            verifier.verify_many([(f"{SQUARE}#{i}", TESTS) for i in range(5)])
    assert counts() == before


def test_many_threads_may_use_one_verifier(verifier):
    def reward(i: int) -> float | None:
        return verifier.verify(f"{SQUARE}# {i}", TESTS).reward

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(reward, range(40))) == [1.0] * 40


def test_two_hundred_programs_of_all_kinds(verifier):
    kinds = [
        (SQUARE, 1.0),
        ("print(int(input()) ** 3 if True else 0)", 0.4),
        ("n = int(input())\nprint(n * n if n < 3 else -1)", 0.6),
        ("1 / 0", 0.0),
        ("def f(:", 0.0),
        ("import sys; sys.exit(3)", 0.0),
        ("x = bytearray(1 << 34)", 0.0),
        ("import os; os.fork()", 0.0),
    ]
    jobs = [Job(f"{kinds[i % 8][0]}\n# {i}", tuple(TESTS)) for i in range(200)]
    verdicts = verifier.verify_many(jobs)
    assert [verdict.reward for verdict in verdicts] == [kinds[i % 8][1] for i in range(200)]


def test_the_stream_yields_what_is_done_and_can_be_abandoned():
    with Verifier(workers=2, time_limit=30) as verifier:
        slow = ("while True: pass", [TESTS[0]])
        stream = verifier.verify_stream([slow, (SQUARE, TESTS)])
        index, verdict = next(stream)
        assert (index, verdict.reward) == (1, 1.0)
        stream.close()


@pytest.mark.parametrize("at_once", [1, 3, 100, None])
def test_a_stream_that_queues_few_at_once_yields_every_verdict(at_once):
    programs = [f"print({i % 7})" for i in range(20)]
    case = TestCase(input="", output="3")
    with Verifier(workers=2) as verifier:
        stream = verifier.verify_stream([(text, [case]) for text in programs], at_once=at_once)
        rewards = {index: verdict.reward for index, verdict in stream}
        with pytest.raises(InvalidValueError, match="at_once: must be an integer of 1 or more"):
            verifier.verify_stream([], at_once=0)
    assert rewards == {i: float(i % 7 == 3) for i in range(20)}


MIXED = [
    "import time\nwhile time.process_time() < 0.2: pass\nprint(1)",  # a third of the limit
    "print(1)",
    "import time; time.sleep(0.3); print(1)",
    "while True: pass",
    "print(2)",
    "1 / 0",
    "x = bytearray(1 << 34)",
    "print('x' * (1 << 25))",
]


@pytest.mark.long
def test_outcomes_are_the_same_beside_busy_processes():
    jobs = [
        Job(f"{program}\n# {i}", (TestCase(input="", output="1"),))
        for i in range(3)
        for program in MIXED
    ]

    def outcomes_of_jobs():
        with Verifier(workers=2, time_limit=0.6) as verifier:
            return [verdict.outcome.value for verdict in verifier.verify_many(jobs)]

    idle = outcomes_of_jobs()
    cores = len(os.sched_getaffinity(0))
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4 * cores)]
    try:
        assert outcomes_of_jobs() == idle
    finally:
        for process in busy:
            process.kill()
            process.wait()
    kinds = ["passed"] * 3 + ["time_limit", "wrong_answer", "runtime_error"]
    assert idle[:8] == [*kinds, "memory_limit", "output_limit"]


def test_the_kernels_own_limit_of_cpu_time_is_only_a_backstop():
    # Too near, it killed a program at its limit, which looked like a lack of memory.
    with Verifier(workers=1, time_limit=40.0) as verifier, ThreadPoolExecutor(1) as thread:
        idle = {process.pid for process in below(os.getpid())}
        thread.submit(verifier.verify, "import time; time.sleep(60)", [TESTS[0]])
        deadline = time.monotonic() + patience(20)
        new = []
        while not new:
            assert time.monotonic() < deadline
            new = [p for p in below(os.getpid()) if p.pid not in idle]
        time.sleep(0.2)
        for process in new:
            limits = Path(f"/proc/{process.pid}/limits").read_text()
            assert int(limits.partition("Max cpu time")[2].split()[0]) >= 2 * 40 + 10
        verifier.close()


def test_many_coroutines_may_use_one_verifier(verifier):
    async def verify_all():
        calls = [asyncio.to_thread(verifier.verify, f"{SQUARE}# {i}", TESTS) for i in range(20)]
        return [verdict.reward for verdict in await asyncio.gather(*calls)]

    assert asyncio.run(verify_all()) == [1.0] * 20


def test_after_some_timeouts_the_rest_is_not_run():
    with VerifierSettings(workers=1, time_limit=0.1, stop_after_timeouts=2).open() as verifier:
        assert verifier.limits["stop_after_timeouts"] == 2
        verdict = verifier.verify("while True: pass", TESTS)
    kinds = [test.outcome for test in verdict.tests]
    assert kinds == [Outcome.TIME_LIMIT] * 2 + [Outcome.NOT_RUN] * 3
    assert verdict.reward == 0.0


def test_bad_arguments_are_named():
    with pytest.raises(InvalidValueError, match="workers: must be an integer of 1 or more"):
        Verifier(workers=0)
    with pytest.raises(InvalidValueError, match="did you mean 'tokens'"):
        Job("x", tuple(TESTS), compare="token")
    with pytest.raises(InvalidValueError, match="tests: must be"):
        Job("x", ())
    with pytest.raises(InvalidValueError, match="program: must be a string"):
        Job(None, tuple(TESTS))  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="time_limit"):
        Job("x", tuple(TESTS), time_limit=-1.0)


def test_other_systems_are_refused(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(SandboxError, match="Linux container"):
        Verifier()
    (row,) = doctor()
    assert (row.name, row.holds) == ("sandbox", False)


def test_missing_layers_refuse_or_warn(verifier):
    def without(name):
        return {**verifier.isolation, name: "no"}

    for required in zygote_process.REQUIRED_LAYERS:
        with pytest.raises(SandboxError, match=rf"{required}: no.*unsafe=True"):
            zygote_process.accept(without(required), unsafe=False)
        with pytest.warns(RuntimeWarning, match=required):
            zygote_process.accept(without(required), unsafe=True)
    with pytest.warns(RuntimeWarning, match="landlock"):
        zygote_process.accept(without("landlock"), unsafe=False)


def test_doctor_names_every_layer():
    rows = doctor()
    assert all(row.meaning for row in rows)
    assert {"seccomp", "rlimits", "landlock"} <= {row.name for row in rows}
    assert all(row.holds for row in rows if row.required)


def test_a_fork_of_the_host_cannot_use_its_verifier(verifier):
    pid = os.fork()
    if pid == 0:
        try:
            verifier.verify(SQUARE, TESTS)
        except SandboxError:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


PAUSED = """
from maxatk.records import TestCase
from maxatk.verifier import Verifier
program = "import time; print(1, flush=True); time.sleep(2); print(2)"
slow = "import time\\ndef f():\\n    time.sleep(2)\\n    return 1"
with Verifier(workers=2, time_limit=0.1) as verifier:
    print("ready", flush=True)
    jobs = [(program, [TestCase(input="", output="1 2")])]
    jobs += [(slow, [TestCase(call="f()", output="1")])]
    print([verdict.reward for verdict in verifier.verify_many(jobs)], flush=True)
"""


@pytest.mark.long
def test_a_host_that_was_stopped_with_its_programs_judges_as_if_it_had_not_been(started):
    host = started(sys.executable, "-c", PAUSED, stdout=subprocess.PIPE)
    assert host.stdout.readline() == "ready\n"
    time.sleep(1)  # the programs sleep
    stopped = family(host.pid)
    for process in stopped:
        process.suspend()
    time.sleep(10)  # longer than the wall clock of a test, 32 x 0.1 + 5 s
    for process in stopped:
        process.resume()
    assert host.stdout.readline() == "[1.0, 1.0]\n"


@pytest.mark.parametrize("value", [1e10, 1e300, 0, -1])
def test_a_limit_that_no_machine_counts_is_refused_by_name(value):
    tests = (TestCase(input="", output="1"),)
    for field in ("time_limit", "memory_limit"):
        with pytest.raises(InvalidValueError, match=f"{field}: must be "):
            Job("print(1)", tests, **{field: value})
        with pytest.raises(InvalidValueError, match=f"{field}: must be "):
            Verifier(workers=1, **{field: value})
    with pytest.raises(InvalidValueError, match="time_limit: must be above 0 and at most"):
        VerifierSettings(time_limit=value)
    with pytest.raises(InvalidValueError, match="memory_limit_mb: must be "):
        VerifierSettings(memory_limit_mb=value)


def test_the_largest_limits_are_counted():
    tests = (TestCase(input="", output="1"),)
    with Verifier(workers=1) as verifier:
        job = Job("print(1)", tests, time_limit=MOST_SECONDS, memory_limit=MOST_BYTES)
        assert verifier.verify_many([job])[0].reward == 1.0
