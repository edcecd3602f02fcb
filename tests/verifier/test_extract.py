"""The program in a completion, against a table of what a reader would take."""

import time

import pytest

from maxatk.evaluation.submissions import submission
from maxatk.records import Problem, Sample, TestCase
from maxatk.verifier import CodeReward, called_name, compute_score, extract_code
from processes import patience
from verifier.completions import ADD, COMPLETIONS, END, PY, SOLUTION


@pytest.mark.parametrize(("completion", "entry_point", "program"), COMPLETIONS)
def test_the_program_is_what_a_reader_would_take(completion, entry_point, program):
    assert extract_code(completion, entry_point) == program


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
    usage = f"{PY}{program}\n{END}For example:\n{PY}print(add(1, 2))\n{END}"
    assert extract_code(usage, entry_point) == program + "\n"


CALLS = (
    TestCase(call="Solution().run(3)", output="4"),
    TestCase(call="Solution().run(-1)", output="0"),
)


@pytest.mark.parametrize("usage", ["print(Solution().run(3))", "s = Solution()\nprint(s.run(9))"])
def test_a_usage_block_does_not_cost_the_reward_of_what_the_tests_call(verifier, usage):
    completion = f"{PY}{SOLUTION}{END}You can run it:\n{PY}{usage}\n{END}"
    tests = [test.to_json() for test in CALLS]
    assert CodeReward(verifier)(completions=[completion], tests=[tests]) == [1.0]
    assert compute_score("a", completion, {"tests": tests})["score"] == 1.0
    problem = Problem("p", "", CALLS)
    assert submission(Sample("p", 0, completion), problem).program == SOLUTION


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("Solution().run(3)", "Solution"),
        ("add(1, 2)", "add"),
        (" größe (1)", "größe"),
        ("[add(1)]", "add"),
        ("sorted(two(3))", "two"),
        ("round(add(sub(1), 2), 2)", "add"),
        ("list(map(two, [1, 2]))", "two"),
        ("sorted(add(1, 2), key=lambda x: sub(x))", "add"),
        ("abs(Solution().run(3) - 1.5) < 1e-6", "Solution"),
        ("len('two(3)') + two(3)", "two"),
        ("max(1, 2)", "max"),  # a program may define one of its own
        ("max(", "max"),
        ("sum([])", "sum"),
        ("[1, 2]", None),
        ("(" * 9000, None),
        ("-" * 90000 + "1", None),
    ],
)
def test_what_the_tests_call_is_the_name_that_a_program_defines(call, name):
    assert called_name([TestCase("1\n", "2"), TestCase(call=call, output="1")]) == name
    assert called_name([TestCase("1\n", "2")]) is None


@pytest.mark.parametrize("call", ["sorted(two(3))", "list(map(two, [3]))[0]", "[*two(3)]"])
def test_tests_that_begin_with_a_builtin_do_not_choose_an_example(verifier, call):
    program = "def two(n):\n    return [n, 1]\n"
    completion = f"{PY}{program}{END}An example:\n{PY}print(two(3))\n{END}"
    expected = repr(eval(call, {"two": lambda n: [n, 1]}))
    tests = [[TestCase(call=call, output=expected)]]
    assert CodeReward(verifier)(completions=[completion], tests=tests) == [1.0]


CHAIN = "".join(f"{PY}def f{i}(x):\n    return f{i + 1}(x)\n{END}" for i in range(3000))


@pytest.mark.parametrize(
    "text",
    [
        "```" + "x" * 400_000 + "`",
        "~~~" + " " * 400_000 + "`",
        " " * 400_000 + "```" + " " * 400_000,
        ("```" + "x" * 900 + "`\n") * 500,
        "```\n" * 100_000,
        "`" * 800_000,
        PY + "x = 1```\n" * 50_000,
        "Answer: ```python " * 30_000,
        "text ```\n" * 50_000,
        "<answer>\n" * 50_000,
        "[PYTHON] </think>" * 30_000 + "\n[PYTHON]",
        PY + "(" * 16_000 + "\n" + END + ADD,
        CHAIN + f"{PY}def add(x):\n    return f0(x)\n{END}",
        f"{PY}def add(x): ...\n{END}" * 5_000,
    ],
    ids=range(14),
)
def test_extraction_takes_linear_time(text):
    start = time.process_time()
    extract_code(text, "add", repair_truncated=True)
    assert time.process_time() - start < patience(1.5)
