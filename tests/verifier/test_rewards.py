import json
import math
import time

import pytest

from maxatk.errors import DataError, InvalidValueError
from maxatk.records import Outcome, TestCase, TestResult, Verdict
from maxatk.verifier import CodeReward, compute_score, compute_scores, extract_code
from maxatk.verifier import verl as verl_shape
from processes import patience

ROW = [
    {"input": "2\n", "output": "4\n", "call": None, "check": None},
    {"input": "3\n", "output": "9\n", "call": None, "check": None},
]
RIGHT = "Sure:\n```python\nn = int(input())\nprint(n * n)\n```\nDone."
HALF = "```\nprint(4)\n```"


@pytest.mark.parametrize(
    ("completion", "code"),
    [
        ("print(1)", "print(1)"),
        ("a\n```python\nprint(1)\n```\nb", "print(1)\n"),
        ("```py\nprint(1)\n```\n```python\nprint(2)\n```", "print(2)\n"),
        ("```python\nprint(1)\n```\n```\n3\n```", "print(1)\n"),
        ("```python\nprint(1)\n```\n```bash\nls\n```", "print(1)\n"),
        ("```\nprint(1)\n```", "print(1)\n"),
        ("```Python3\nprint(1)\n```", "print(1)\n"),
        ("~~~python\nprint('```')\n~~~", "print('```')\n"),
        ("````python\nx = '''\n```\n'''\n````", "x = '''\n```\n'''\n"),
        ("text\n```python\nprint(1)\nprint(2", "print(1)\nprint(2"),
        ("```python\nprint(1)\n```\nand then ```python\nno", "print(1)\n"),
        ("  ```python\n  print(1)\n  ```", "print(1)\n"),
        ("1. So:\n   ```python\n   if 1:\n       x\n\n   y\n   ```", "if 1:\n    x\n\ny\n"),
        ("\t```python\n\tprint(1)\n\t```", "print(1)\n"),
        ("```python\n```\n", ""),
        ("<think>\n```python\nno\n```</think>\n```python\nyes\n```", "yes\n"),
        ("```python\nfirst\n```\ntext\n```python\nsecond, cut o", "first\n"),
        ("```json\n{}\n```\n```python\nprint(1)\n```\n```text\n5\n```", "print(1)\n"),
        ("```python\nprint('a ``` b')\n```", "print('a ``` b')\n"),
        ('```python\ns = """\n~~~\n"""\n```', 's = """\n~~~\n"""\n'),
        ("Use `x` and ```y``` here", "Use `x` and ```y``` here"),
        ("```cpp\nint x;\n```", "int x;\n"),
        ("```python title='x.py'\nprint(1)\n```", "print(1)\n"),
        ("```python\r\nprint(1)\r\n```\r\n", "print(1)\r\n"),
        ("```", ""),
        ("", ""),
    ],
)
def test_the_program_is_taken_out(completion, code):
    assert extract_code(completion) == code


TWO = "```python\n{}\n```\nFor example:\n```python\nprint(add(1, 2))\n```"


@pytest.mark.parametrize(
    ("program", "entry_point"),
    [
        ("def add(a, b): return a + b", "add"),
        ("async  def\tadd(a, b): return a + b", "add"),
        ("class Solution:\n    def run(self): pass", "Solution().run"),
        ("add = lambda a, b: a + b", "add"),
    ],
)
def test_the_block_that_defines_the_entry_point_is_the_program(program, entry_point):
    completion = TWO.format(program)
    assert extract_code(completion, entry_point) == program + "\n"
    assert extract_code(completion) == "print(add(1, 2))\n"
    assert extract_code(completion, "nowhere") == "print(add(1, 2))\n"


def test_the_entry_point_is_a_name_and_no_pattern():
    assert extract_code("```\ndef adder(): 1\n```\n```\nx\n```", "add") == "x\n"
    assert extract_code("```\ndef a(): 1\n```\n```\nx\n```", "[") == "x\n"


@pytest.mark.parametrize(
    "text",
    [
        "```" + "x" * 400_000 + "`",
        "~~~" + " " * 400_000 + "`",
        " " * 400_000 + "```" + " " * 400_000,
        ("```" + "x" * 900 + "`\n") * 500,
        "```\n" * 100_000,
        "`" * 800_000,
    ],
)
def test_extraction_takes_linear_time(text):
    start = time.process_time()
    extract_code(text, "add")
    assert time.process_time() - start < patience(1.5)


def test_rewards_of_plain_and_conversational_completions(verifier):
    reward = CodeReward(verifier)
    chat = [{"role": "assistant", "content": RIGHT}]
    completions = [RIGHT, HALF, "nothing", chat, []]
    values = reward(prompts=["p"] * 5, completions=completions, tests=[ROW] * 5, extra=[1] * 5)
    assert values == [1.0, 0.5, 0.0, 1.0, 0.0]
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


def test_a_failure_of_the_verifier_is_none_and_not_zero():
    class Broken:
        def verify_many(self, jobs):
            return [Verdict((TestResult(Outcome.INFRA_ERROR),)) for _ in jobs]

        def program_of(self, completion, entry_point):
            return completion

    for binary in (False, True):
        reward = CodeReward(Broken(), binary=binary)  # type: ignore[arg-type]
        assert reward(completions=["x"], tests=[[TestCase(input="", output="")]]) == [None]


def test_a_missing_column_is_named(verifier):
    with pytest.raises(InvalidValueError, match="needs a column `tests`"):
        CodeReward(verifier)(completions=["x"])


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

    monkeypatch.setattr(verl_shape, "shared_verifier", lambda workers: Broken())
    score = compute_score("a", "x", TESTS, binary=True)
    assert math.isnan(score["score"])
    assert score["unscored"] == 1.0


@pytest.mark.parametrize("truth", ["[", [], {"test": TESTS}, "3", [{"input": "1"}]])
def test_a_ground_truth_without_tests_is_refused(truth):
    with pytest.raises(DataError, match="ground_truth"):
        compute_score("mine", "print(1)", truth)
