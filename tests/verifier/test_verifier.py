"""What a verifier does with its queue: programs started ahead, and jobs that nobody can verify."""

import pytest

from maxatk.errors import InvalidValueError, SandboxError
from maxatk.records import TestCase
from maxatk.verifier import CodeReward, Job, Verifier, outcomes
from maxatk.verifier.running import RunJob

TESTS = (TestCase(input="", output="0"), TestCase(input="", output="0\n"), TestCase("", "1"))


@pytest.fixture
def verified(monkeypatch):
    """The programs that workers were given, in order."""
    programs = []
    verdict = outcomes.verdict

    def counting(zygote, job, limits):
        programs.append(job.program)
        return verdict(zygote, job, limits)

    monkeypatch.setattr(outcomes, "verdict", counting)
    return programs


def printing(number):
    return Job(f"print({number})", TESTS)


def test_verdicts_are_those_of_verify_many_and_serve_one_call(verified):
    jobs = [printing(number) for number in (0, 1, 2, 0)]
    with Verifier(workers=1) as verifier, verifier.ahead() as start:
        for job in (*jobs[:2], printing(7), jobs[0]):
            start(job)
        rewards = [verdict.reward for verdict in verifier.verify_many(jobs)]
        assert rewards == [2 / 3, 1 / 3, 0, 2 / 3]
        assert verified.count("print(0)") == verified.count("print(1)") == 1
        assert [verdict.reward for verdict in verifier.verify_many(jobs[:1])] == [2 / 3]
        assert verified.count("print(0)") == 2


def test_what_nobody_asked_for_is_dropped_at_the_end(verified):
    with Verifier(workers=1) as verifier:
        with verifier.ahead() as start:
            for number in range(50):
                start(Job(f"import time\ntime.sleep(0.2)\nprint({number})", TESTS))
        verifier.verify_many([printing(0)])
        assert len(verified) < 10
    with verifier.ahead() as start, pytest.raises(SandboxError, match="closed"):
        start(printing(0))


def test_a_reward_awaits_what_was_started_and_reports_what_was_wrong_with_it(verified):
    with Verifier(workers=1) as verifier:
        reward = CodeReward(verifier)
        with reward.ahead() as start:
            row = {"tests": [test.to_json() for test in TESTS], "compare": "tokens"}
            start("print(0)", row)
            start("print(1)", {**row, "compare": "no rule"})
            columns = {name: [value] for name, value in row.items()}
            assert reward(completions=["print(0)"], **columns) == [2 / 3]
            assert verified == ["print(0)"]
            with pytest.raises(InvalidValueError, match="no rule"):
                reward(completions=["print(1)"], tests=columns["tests"], compare=["no rule"])
        assert reward(completions=["print(0)"], **columns) == [2 / 3]
        assert verified == ["print(0)", "print(0)"]


def test_a_job_that_nobody_can_verify_is_answered_and_ends_no_thread():
    jobs = [printing(number) for number in range(4)]
    for job in jobs[:3]:
        object.__setattr__(job, "checker", 5)  # which a `Job` refuses: whatever got past it
    with Verifier(workers=2) as verifier:
        verdicts = verifier.verify_many(jobs)
    assert [verdict.reward for verdict in verdicts] == [None, None, None, 0.0]
    assert "TypeError" in verdicts[0].tests[0].stderr


@pytest.mark.parametrize("value", [0, 1.5, "5", True, None])
def test_a_job_that_shows_what_is_printed_shows_some_characters(value):
    with pytest.raises(InvalidValueError, match=r"^most_characters: must be an integer of 1"):
        RunJob("print(1)", TESTS, most_characters=value)
