"""What one program can cost its host: memory, time and patience."""

import itertools
import os
import threading
import time
import tracemalloc

import psutil
import pytest

from maxatk.records import Outcome, TestCase
from maxatk.verifier import Verifier, program_runs
from processes import family, patience
from verifier import attacks

MEBIBYTE = 1 << 20


def test_the_outputs_of_all_tests_have_one_bound():
    tests = [TestCase(input="", output=str(i)) for i in range(6)]
    program = "print('x' * (15 << 20))"
    tracemalloc.start()
    with Verifier(workers=1) as verifier:
        verdict = verifier.verify(program, tests)
    assert tracemalloc.get_traced_memory()[1] < 80 * MEBIBYTE
    tracemalloc.stop()
    kinds = [test.outcome for test in verdict.tests]
    assert kinds == [Outcome.WRONG_ANSWER] * 4 + [Outcome.OUTPUT_LIMIT] * 2
    assert verdict.reward == 0.0


def test_a_program_may_print_all_that_is_expected_of_it():
    text = "x" * (15 * MEBIBYTE)
    with Verifier(workers=1) as verifier:
        verdict = verifier.verify(f"print({text[:1]!r} * (15 << 20))", [TestCase("", text)] * 5)
    assert verdict.reward == 1.0


@pytest.mark.parametrize("size", [7 * MEBIBYTE, 16 * MEBIBYTE - 2])
def test_no_output_is_too_long_for_a_checker(verifier, size):
    checker = f"import sys\nprint(int(len(open(sys.argv[3]).read()) == {size + 1}))"
    test = TestCase(input="x" * (7 * MEBIBYTE), output="y" * (7 * MEBIBYTE))
    program = f"print('z' * {size})"
    assert verifier.verify(program, [test], "checker", checker=checker).reward == 1.0


def test_the_files_of_a_checker_cannot_be_written_and_are_emptied(verifier):
    checker = (
        "import os, sys\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n"
        "        os.chmod(path, 0o777)\n"
        "    except OSError:\n"
        "        pass\n"
        "    try:\n"
        "        open(path, 'w')\n"
        "    except OSError:\n"
        "        continue\n"
        "    print(2)\n"
        "print(1)"
    )
    tests = [TestCase(input="secret", output="secret")] * 2
    program = (
        "import os\n"
        "for name in ('input.txt', 'correct_output.txt', 'solution_output.txt'):\n"
        "    try:\n"
        "        print(open('/checker/' + name).read(), end='')\n"
        "    except FileNotFoundError:\n"
        "        pass"
    )
    assert verifier.verify("print()", tests, "checker", checker=checker).reward == 1.0
    assert verifier.verify(program, [TestCase(input="", output="")]).reward == 1.0


def test_compiling_has_its_own_limit(verifier, monkeypatch):
    monkeypatch.setattr(program_runs, "_COMPILE_SECONDS", 1.0)  # of 10
    # Every level compiles what follows `finally` twice.
    levels = range(18)
    lines = [f"{' ' * n}try: pass\n{' ' * n}finally:" for n in levels]
    program = "\n".join([*lines, *[" " * 18 + "x = 1"] * 200])
    verdict = verifier.verify(program, [TestCase(input="", output="")], memory_limit=4 << 30)
    assert verdict.outcome is Outcome.COMPILE_ERROR
    assert "SIGXCPU" in verdict.tests[0].stderr


def test_folders_left_behind_are_removed_in_linear_time(verifier):
    tests = [TestCase(input="", output=str(i)) for i in range(70)]
    program = "import os\nfor i in range(950): os.mkdir(str(i))"
    verdict = verifier.verify(program, tests)
    assert {test.outcome for test in verdict.tests} == {Outcome.WRONG_ANSWER}


@pytest.mark.long
def test_tests_that_sleep_share_one_allowance(verifier):
    tests = [TestCase(input="", output="x")] * 3
    verdict = verifier.verify("import time; time.sleep(1000)", tests, time_limit=0.01)
    assert {test.outcome for test in verdict.tests} == {Outcome.TIME_LIMIT}
    first, *others = [test.wall_seconds for test in verdict.tests]
    assert first > 5
    assert max(others) < patience(2.5)  # each had five seconds of its own


# As on a busy machine: 40 times 10 ms of computing, each after 260 ms without a core.
SMALL_PART_OF_A_CORE = """
import time
for _ in range(40):
    time.sleep(0.26)
    end = time.process_time() + 0.01
    while time.process_time() < end:
        pass
print("x")
"""


def test_a_program_that_gets_a_small_part_of_a_core_has_time_for_its_cpu_seconds(verifier):
    tests = [TestCase(input="", output="x")]
    (result,) = verifier.verify(SMALL_PART_OF_A_CORE, tests, time_limit=0.5).tests
    assert result.outcome is Outcome.PASSED
    assert result.wall_seconds > 10 * 0.5 + 5  # which was all that it had


def test_short_naps_are_nobodys_business(verifier):
    tests = [TestCase(input="", output="x")] * 4
    program = "import time; time.sleep(0.2); print('x')"
    assert verifier.verify(program, tests, time_limit=0.01).reward == 1.0


def state():
    """Return what this process and all below it hold, zombies and files of the host included."""
    me, *below = family(os.getpid())
    return {
        "threads": threading.active_count(),
        "descriptors": me.num_fds(),
        "processes": len(below),
        "zombies": sum(process.status() == psutil.STATUS_ZOMBIE for process in below),
        "threads below": sum(process.num_threads() for process in below),
        "descriptors below": sum(map(descriptors_of, below)),
        "files": len([name for name in os.listdir("/tmp") if name.startswith("maxatk")]),
    }


def descriptors_of(process):
    """Return how many a process has, 0 where an ordinary user may not look into it."""
    try:
        return process.num_fds()
    except psutil.AccessDenied:
        return 0


def cpu_seconds():
    return sum(sum(process.cpu_times()[:2]) for process in family(os.getpid())[1:])


@pytest.mark.long
def test_nothing_piles_up_after_hundreds_of_hostile_programs():
    hostile = list(itertools.islice(itertools.cycle(attacks.ALL.values()), 320))
    with Verifier(workers=2) as verifier:
        nap = "import numpy, time\ntime.sleep(0.3)"  # each worker has a zygote with NumPy then
        verifier.verify_many([(f"{nap}\n# {i}", [attacks.QUESTION]) for i in range(8)])
        jobs = [attack.job() for attack in hostile]
        verdicts = verifier.verify_many(jobs[:20])
        before = state()
        verdicts += [verifier.verify_many([job])[0] for job in jobs[20:]]
        after = state()
        idle = cpu_seconds()
        time.sleep(1)
        assert cpu_seconds() - idle < 0.2
    assert after == before
    assert all(verdict.scorable for verdict in verdicts)
