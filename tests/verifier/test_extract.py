"""The program in a completion, against a table of what a reader would take."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import assert_linear_time
from maxatk.evaluation.submissions import submission
from maxatk.records import Problem, Sample, TestCase
from maxatk.rewards import load_reward
from maxatk.verifier import LANGUAGES, CodeReward, called_name, compute_score, extract_code
from verifier.completions import (
    ADD,
    COMPLETIONS,
    END,
    FUTURE,
    LOOP,
    MAIN,
    PRIME,
    PY,
    SIEVE,
    SOLUTION,
)


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
        ("sub, add = lambda a, b: a - b, lambda a, b: a + b", "add"),
        ("[sub, *add] = funs", "add"),
        ("plus = add = lambda a, b: a + b", "add"),
        ("from operator import add", "add"),
        ("from operator import (\n    sub,\n    add,\n)", "add"),
        ("import operator\nfrom operator import sub as add", "add"),
        ("if True:\n    def add(a, b): return a + b", "add"),
        ("if fast:\n    pass\nelse:\n    add = sum", "add"),
        ("try:\n    from operator import add\nexcept ImportError:\n    add = None", "add"),
        ("try:\n    import numpy\nfinally:\n    def add(a, b): return a + b", "add"),
        ("with open('x') as f:\n    class Solution:\n        pass", "Solution().run"),
    ],
)
@pytest.mark.parametrize(
    "use", ["print(add(1, 2))", "from solution import add, Solution\nassert add(1, 2) == 3"]
)
def test_the_block_that_defines_the_entry_point_is_the_program(program, entry_point, use):
    usage = f"{PY}{program}\n{END}For example:\n{PY}{use}\n{END}"
    assert extract_code(usage, entry_point) == program + "\n"


@pytest.mark.parametrize(
    "use",
    [
        "add: int\nprint(add(1, 2))",
        "text = '''\ndef add(a, b): pass\n'''\nprint(add(1, 2))",
        "print([add for add in [3]])",
        "from solution import *\nprint(add(1, 2))",
        "class Test:\n    def add(self): return add(1, 2)",
        "for add in [Mock()]:\n    print(add(1, 2))",
    ],
)
def test_a_block_that_only_names_the_entry_point_does_not_define_it(use):
    assert extract_code(f"{PY}{ADD}{END}For example:\n{PY}{use}\n{END}", "add") == ADD


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


def chain(length):
    """Return a program in many blocks, of which each function calls that of the next block."""
    blocks = [f"{PY}def f{i}(x):\n    return f{i + 1}(x)\n{END}" for i in range(length)]
    return "".join(blocks) + f"{PY}def add(x):\n    return f0(x)\n{END}"


def examples_before_definitions(count):
    """Return as many blocks that import and call the function as blocks that define it."""
    return f"{PY}from a import add\nadd()\n{END}" * count + f"{PY}def add(x): ...\n{END}" * count


@pytest.mark.parametrize(
    ("make_text", "size"),
    [
        (lambda n: "```" + "x" * n + "`", 400_000),
        (lambda n: "~~~" + " " * n + "`", 400_000),
        (lambda n: " " * n + "```" + " " * n, 400_000),
        (lambda n: ("```" + "x" * 900 + "`\n") * n, 500),
        (lambda n: "```\n" * n, 100_000),
        (lambda n: "`" * n, 800_000),
        (lambda n: PY + "x = 1```\n" * n, 50_000),
        (lambda n: "Answer: ```python " * n, 30_000),
        (lambda n: "text ```\n" * n, 50_000),
        (lambda n: "<answer>\n" * n, 50_000),
        (lambda n: "[PYTHON] </think>" * n + "\n[PYTHON]", 30_000),
        (lambda n: PY + "(" * n + "\n" + END + ADD, 16_000),
        (chain, 3_000),
        (lambda n: f"{PY}def add(x): ...\n{END}" * n, 10_000),
        (lambda n: PY + "x = 1\n" * n + "s = '''\n" + "``` Some words.\n" * n, 50_000),
        (lambda n: "``` Some words.\n" * n, 50_000),
        (lambda n: f"{PY}{PY}" * n, 20_000),
        (lambda n: "Here:\n" + "'''python\n" * n, 50_000),
        (lambda n: "Here:\n" + "'''python\nx = (\n'''\n" * n, 5_000),
        (lambda n: "Here:\n'''python\n" + "'''\n" * n, 50_000),
        (examples_before_definitions, 5_000),
    ],
    ids=range(21),
)
def test_extraction_takes_linear_time(make_text, size):
    def extract(text):
        extract_code(text, "add", repair_truncated=True)

    assert_linear_time(extract, make_text, size)


# What a model repeats when it falls into a loop: deep expressions, brackets, blocks, plain noise.
UNITS = (
    ".replace('a', 'b')", "[0]", " + 'a'", "not ", "-", "lambda: ", "1 if x else ", "(", "[", "{1:",
    "f(", "x = ", "if 1:", "try:\n", "@", "f'{", "'" * 3, "\\", "def f(x=", "class A: ", "a;",
    "x: ", "\0", "\ud800", "\r", "\x0c", "\u2028", "\t", "`", "~", "word ", "input()", "\n",
)  # fmt: skip
LOOPS = st.builds(
    lambda start, unit, count, end: start + unit * count + end,
    st.sampled_from(["", "s = ", "s = input_text", "print(", "def add(a, b):\n    return ", "x"]),
    st.sampled_from(UNITS),
    st.sampled_from([1, 3, 60, 120, 250, 400, 900, 5000]),
    st.sampled_from(["", "1", "x)", "\n"]),
)
MARKS = (
    "```", PY, "~~~", "<think>", "</think>", "<answer>", "</answer>", "[PYTHON]", "<|im_end|>",
    "```cpp\n", "> ", "```markdown\n", "%%writefile a.py\n", ADD, LOOP, MAIN,
)  # fmt: skip
COMPLETION_TEXTS = st.lists(
    LOOPS | LOOPS.map(lambda loop: f"{PY}{loop}\n{END}") | st.sampled_from(MARKS) | st.text(),
    max_size=6,
).map("\n".join)


@given(
    text=COMPLETION_TEXTS,
    entry_point=st.sampled_from([None, "add", "Solution().run", "["]),
    language=st.sampled_from(sorted(LANGUAGES)),
    repair_truncated=st.booleans(),
)
def test_extraction_fails_for_no_text(text, entry_point, language, repair_truncated):
    program = extract_code(text, entry_point, language=language, repair_truncated=repair_truncated)
    assert isinstance(program, str)


@pytest.mark.parametrize(
    ("start", "unit", "end"),
    [
        ("s = input_text", ".replace('a', 'b')", ""),
        ("s = 'a'", " + 'a'", ""),
        ("s = ", "not ", "x"),
        ("s = ", "lambda: ", "x"),
        ("s = ", "1 if x else ", "x"),
        ("s = x", "[0]", ""),
        ("s: int = ", "-", "x"),
        ("def f(): return ", "lambda: ", "x"),
    ],
)
def test_a_loop_in_one_block_costs_no_other_block(start, unit, end):
    for count in range(50, 1000, 50):
        loop = start + unit * count + end
        assert extract_code(f"{PY}{loop}\n{END}So:\n{PY}{LOOP}{END}") == LOOP


def test_a_completion_that_loops_is_wrong_and_not_without_a_reward(verifier):
    loop = f"{PY}s = input_text{'.replace(1, 2)' * 250}\n{END}"
    for name in ("continuous", "binary"):
        reward = load_reward(name, verifier=verifier)
        tests = [[TestCase(input="1", output="2")]]
        assert reward([""], [f"{loop}Thus:\n{PY}print(3)\n{END}"], tests=tests) == [0.0]
        assert not reward.failures


@given(
    helper=st.sampled_from(["", FUTURE, f"'''Helpers.'''\n{FUTURE}"]),
    future=st.sampled_from(
        ["", FUTURE, f'"""Doc."""\n{FUTURE}', f"{FUTURE.strip()}; x = 1  # y\r\n"]
    ),
    order=st.permutations([0, 1]),
)
def test_a_program_in_pieces_compiles_as_each_of_them_does(helper, future, order):
    pieces = [helper + PRIME, future + SIEVE]
    answer = "So:\n".join(f"{PY}{pieces[place]}{END}" for place in order)
    program = extract_code(answer, "primes")
    assert "is_prime(n):" in program
    assert bool(helper or future) == ("annotations" in program)
    compile(program, "program", "exec", dont_inherit=True)
