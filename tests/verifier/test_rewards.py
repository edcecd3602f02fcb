import json
import math
import subprocess
import sys

import pytest

from maxatk.errors import DataError, InvalidValueError
from maxatk.records import Outcome, TestCase, TestResult, Verdict
from maxatk.verifier import CodeReward, compute_score, compute_scores, verl_rewards
from maxatk.verifier.extract import Extracted

ROW = [
    {"input": "2\n", "output": "4\n", "call": None, "check": None},
    {"input": "3\n", "output": "9\n", "call": None, "check": None},
]
RIGHT = "Sure:\n```python\nn = int(input())\nprint(n * n)\n```\nDone."
HALF = "```\nprint(4)\n```"


def test_rewards_of_plain_and_conversational_completions(verifier):
    reward = CodeReward(verifier)
    chat = [{"role": "assistant", "content": RIGHT}]
    completions = [RIGHT, HALF, "nothing", chat, []]
    values = reward(prompts=["p"] * 5, completions=completions, tests=[ROW] * 5, extra=[1] * 5)
    assert values == [1.0, 0.5, 0.0, 1.0, 0.0]
    parts = [{"type": "text", "text": "Sure:\n"}, {"type": "text", "text": RIGHT[6:]}]
    chats = [[{"role": "assistant", "content": content}] for content in (parts, [{}], None)]
    assert reward(completions=chats, tests=[ROW] * 3) == [1.0, 0.0, 0.0]
    binary = CodeReward(verifier, binary=True)
    assert binary(None, completions, tests=[ROW] * 5) == [1.0, 0.0, 0.0, 1.0, 0.0]
    assert (reward.__name__, binary.__name__) == ("code_reward", "binary_code_reward")


def test_columns_of_the_dataset_are_used(verifier):
    row = [{"input": "", "output": "YES"}]
    values = CodeReward(verifier)(
        completions=["print('yes')"] * 2
        + ["while True: pass", "x = bytearray(99 << 20)\nprint('YES')"],
        tests=[row] * 4,
        compare=["deepmind", None, None, None],
        time_limit_s=[None, None, 0.1, None],
        memory_limit_mb=[None, None, None, 50],
    )
    assert values == [1.0, 0.0, 0.0, 0.0]


def test_a_failure_of_the_verifier_is_none_and_not_zero(verifier):
    tests = [[TestCase(input="", output="")]]
    for binary in (False, True):
        reward = CodeReward(verifier, binary=binary)
        assert reward(completions=["x = 1"], tests=tests, checker=["def check(:"]) == [None]
        assert reward.verdicts[0].outcome is Outcome.INFRA_ERROR


def test_a_missing_column_is_named(verifier):
    with pytest.raises(InvalidValueError, match="needs a column `tests`"):
        CodeReward(verifier)(completions=["x"])


@pytest.mark.parametrize("tests", [None, "[]", {"input": ["2"], "output": ["4"]}])
def test_a_row_that_is_no_list_of_tests_is_named(verifier, tests):
    with pytest.raises(InvalidValueError, match=r"tests: must be a list of tests .*, got"):
        CodeReward(verifier)(completions=["x"], tests=[tests])


TESTS = [{"input": "2\n", "output": "4\n"}, {"input": "3\n", "output": "9\n"}]


@pytest.mark.parametrize(
    "truth",
    [TESTS, json.dumps(TESTS), {"tests": TESTS}, json.dumps({"tests": TESTS, "compare": "lcb"})],
)
def test_scores_in_the_shape_of_verl(truth):
    assert compute_score("mine", HALF, truth) == {
        "score": 0.5,
        "passed": 1.0,
        "total": 2.0,
        "unscored": 0.0,
    }
    scores = compute_scores(["a"] * 2, [RIGHT, HALF], [truth] * 2, [None, {}], binary=True)
    assert [score["score"] for score in scores] == [1.0, 0.0]


def test_limits_and_the_checker_travel_in_the_ground_truth():
    slow = {"tests": TESTS, "time_limit_s": 0.1}
    assert compute_score("a", "while True: pass", slow)["score"] == 0.0
    checker = "import sys; print(int(open(sys.argv[3]).read() == '4\\n'))"
    free = {"tests": TESTS, "compare": "checker", "checker": checker}
    assert compute_score("a", "print(4)", free)["score"] == 1.0


def test_an_unscorable_sample_is_nan_for_verl(monkeypatch):
    class Broken:
        def verify_many(self, jobs):
            return [Verdict((TestResult(Outcome.INFRA_ERROR),)) for _ in jobs]

        def program_of(self, completion, entry_point, language):
            return Extracted(completion)

    monkeypatch.setattr(verl_rewards, "shared_verifier", lambda *_: Broken())
    score = compute_score("a", "x", TESTS, binary=True)
    assert math.isnan(score["score"])
    assert score["unscored"] == 1.0


@pytest.mark.parametrize("truth", ["[", [], {"test": TESTS}, "3", [{"input": "1"}]])
def test_a_ground_truth_without_tests_is_refused(truth):
    with pytest.raises(DataError, match="ground_truth"):
        compute_score("mine", "print(1)", truth)


BAD_CALLS = """
code_reward(completions=None)
code_reward(completions=["x"])
code_reward(completions=["x"], tests=[])
code_reward(completions=["x"], tests=[[{"input": "1"}]])
code_reward(completions=["x"], tests=[[{"call": "f(", "output": "1"}]])
code_reward(completions=[5], tests=[[{"input": "1", "output": "1"}]])
code_reward(["p", "q"], ["x"], tests=[[{"input": "1", "output": "1"}]])
code_reward(completions=["x"], tests=[[{"input": "1", "output": "1"}]], compare=["nearly"])
binary_code_reward(completions=None)
compute_score("d", None, [{"input": "1", "output": "1"}])
compute_score("d", "x", "no tests")
compute_score("d", "x", [{"call": "f()", "output": "f()"}])
compute_score("d", "x", [{"input": "1", "output": "1"}], workers=0)
compute_score("d", "x", [{"input": "1", "output": "1"}], unfinished_thought="maybe")
compute_score("d", "x", [{"input": "1", "output": "1"}], sandbox="nowhere")
"""


def test_bad_arguments_are_refused_before_a_verifier_starts():
    program = f"""
import threading
from maxatk.errors import MaxAtKError
from maxatk.verifier import binary_code_reward, code_reward, compute_score
for call in {BAD_CALLS.strip().splitlines()!r}:
    try:
        eval(call)
    except MaxAtKError:
        pass
    else:
        print("accepted:", call)
    if threading.active_count() > 1:
        print("started by:", call)
        break
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
