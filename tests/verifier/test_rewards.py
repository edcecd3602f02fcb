import pytest

from maxatk.errors import InvalidValueError
from maxatk.records import Outcome, TestCase, TestResult, Verdict
from maxatk.verifier import CodeReward, extract_code

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
        ("  ```python\n  print(1)\n  ```", "  print(1)\n"),
        ("```cpp\nint x;\n```", "int x;\n"),
        ("```python title='x.py'\nprint(1)\n```", "print(1)\n"),
        ("```python\r\nprint(1)\r\n```\r\n", "print(1)\r\n"),
        ("```", ""),
        ("", ""),
    ],
)
def test_the_program_is_taken_out(completion, code):
    assert extract_code(completion) == code


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


def test_a_failure_of_the_judge_is_none_and_not_zero():
    class Broken:
        def verify_many(self, jobs):
            return [Verdict((TestResult(Outcome.INFRA_ERROR),)) for _ in jobs]

    for binary in (False, True):
        reward = CodeReward(Broken(), binary=binary)  # type: ignore[arg-type]
        assert reward(completions=["x"], tests=[[TestCase(input="", output="")]]) == [None]


def test_a_missing_column_is_named(verifier):
    with pytest.raises(InvalidValueError, match="needs a column `tests`"):
        CodeReward(verifier)(completions=["x"])
