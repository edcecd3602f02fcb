import pytest

from maxatk.records import Outcome, TestCase
from maxatk.verifier import Job

OK = [TestCase(input="1 2\n", output="3\n")]

PROGRAMS = {
    Outcome.PASSED: "print(sum(map(int, input().split())))",
    Outcome.WRONG_ANSWER: "print(4)",
    Outcome.TIME_LIMIT: "while True: pass",
    Outcome.MEMORY_LIMIT: "x = bytearray(1 << 30)",
    Outcome.OUTPUT_LIMIT: "while True: print('x' * 10000)",
    Outcome.RUNTIME_ERROR: "1 / 0",
    Outcome.COMPILE_ERROR: "print((",
}


@pytest.mark.parametrize("outcome", PROGRAMS)
def test_every_outcome(verifier, outcome):
    verdict = verifier.verify(PROGRAMS[outcome], OK, time_limit=0.2)
    assert [test.outcome for test in verdict.tests] == [outcome]


@pytest.mark.parametrize("time_limit", [3600.0, 1e6, 1e7])
def test_a_limit_of_hours_is_none(verifier, time_limit):
    verdict = verifier.verify(PROGRAMS[Outcome.PASSED], OK * 80, time_limit=time_limit)
    assert verdict.outcome is Outcome.PASSED, verdict.tests[0].stderr


def test_costs_and_the_complaint_are_reported(verifier):
    program = "import sys\nx = bytearray(50 << 20)\nprint('oh', file=sys.stderr)\nprint(3)"
    (result,) = verifier.verify(program, OK).tests
    assert result.outcome is Outcome.PASSED
    assert result.stderr == "oh\n"
    assert 0 < result.cpu_seconds < 1
    assert 0 < result.wall_seconds < 5
    assert 50 << 20 < result.peak_memory < 100 << 20


def test_the_reward_is_the_fraction_of_declared_tests(verifier):
    tests = [TestCase(input=f"{i}\n", output=f"{i * i}\n") for i in range(4)]
    verdict = verifier.verify("n = int(input())\nprint(n * n if n < 3 else 0)", tests)
    assert (verdict.passed, verdict.total, verdict.reward) == (3, 4, 0.75)


def test_order_is_kept_and_identical_jobs_are_verified_once(verifier):
    jobs = [Job(f"print({i % 3})", (TestCase(input="", output="1"),)) for i in range(30)]
    done = []
    verdicts = verifier.verify_many(jobs, progress=lambda n, total: done.append((n, total)))
    assert [verdict.reward for verdict in verdicts] == [float(i % 3 == 1) for i in range(30)]
    assert done == [(n, 30) for n in range(1, 31)]
    assert len({id(verdict) for verdict in verdicts}) == 3
