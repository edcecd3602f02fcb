"""Problems with several right answers: their own checker program decides."""

import pytest

from maxatk.errors import InvalidValueError
from maxatk.records import Outcome, TestCase
from maxatk.verifier import Job

# Two numbers whose sum is the input; the first may be anything.
CHECKER = """
import sys
given, correct, printed = (open(path).read() for path in sys.argv[1:])
assert sys.argv[0] == 'checker.py' and sum(map(int, correct.split())) == int(given)
print(int(sum(map(int, printed.split())) == int(given)))
"""
TESTS = [TestCase(input=f"{n}\n", output=f"{n} 0\n") for n in (3, 5, 8)]


def outcomes(verifier, program, checker=CHECKER, tests=TESTS):
    verdict = verifier.verify(program, tests, "checker", checker=checker, time_limit=0.5)
    return [test.outcome.value for test in verdict.tests]


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("n = int(input())\nprint(n, 0)", ["passed"] * 3),
        ("n = int(input())\nprint(n - 100, 100)", ["passed"] * 3),
        ("print(1, 4)", ["wrong_answer", "passed", "wrong_answer"]),
        ("print('x')", ["wrong_answer"] * 3),
        ("n = int(input())\nprint(n // (n - 5), 0)", ["wrong_answer", "runtime_error"] * 1
         + ["wrong_answer"]),
        ("while True: pass", ["time_limit"] * 3),
        ("def", ["compile_error"] * 3),
    ],
)  # fmt: skip
def test_the_checker_decides_what_ended_well(verifier, program, expected):
    assert outcomes(verifier, program) == expected


@pytest.mark.parametrize(
    ("checker", "expected"),
    [
        ("print(1)", "passed"),
        ("print('1.0')", "passed"),
        ("print(0.5)", "wrong_answer"),
        ("print('yes')", "wrong_answer"),
        ("print(1)\nprint(1)", "wrong_answer"),
        ("print(1)\nraise SystemExit(1)", "wrong_answer"),
        ("pass", "wrong_answer"),
        ("from pathlib import Path\nimport sys\nprint(int(Path(sys.argv[2]).read_text() > ''))",
         "passed"),
        ("open('notes', 'w').write('x')\nprint(1)", "passed"),
        ("import numpy as np\nprint(np.int64(1))", "passed"),
        ("import os\nos.fork()\nprint(1)", "wrong_answer"),
        ("open('/etc/passwd')\nprint(1)", "wrong_answer"),
    ],
)  # fmt: skip
def test_only_a_printed_one_is_a_pass(verifier, checker, expected):
    if "numpy" in checker:
        pytest.importorskip("numpy")
    assert outcomes(verifier, "print(1)", checker, TESTS[:1]) == [expected]


def test_a_checker_that_does_not_compile_is_no_reward_of_zero(verifier):
    verdict = verifier.verify("print(1)", TESTS, "checker", checker="def")
    assert verdict.outcome is Outcome.INFRA_ERROR
    assert verdict.reward is None
    assert "the checker does not compile: SyntaxError" in verdict.tests[0].stderr


def test_what_the_checker_says_is_in_the_excerpt(verifier):
    checker = "import sys\nsys.stderr.write('two numbers, please')\nprint(0)"
    verdict = verifier.verify("print(1)", TESTS, "checker", checker=checker)
    assert verdict.tests[0].stderr == "checker: two numbers, please"


def test_large_outputs_and_odd_bytes_reach_the_checker(verifier):
    checker = "import sys\nprint(int(len(open(sys.argv[3], 'rb').read()) == 1 << 20))"
    program = "import sys\nsys.stdout.buffer.write(b'\\xff' * (1 << 20))"
    assert outcomes(verifier, program, checker, TESTS[:1]) == ["passed"]


@pytest.mark.long
def test_a_checker_that_an_output_keeps_busy_does_not_accept_it(verifier):
    checker = "import sys\nif len(open(sys.argv[3]).read()) > 9:\n    while True: pass\nprint(1)"
    tests = TESTS[:2]
    program = "n = int(input())\nprint('1' if n == 3 else '1' * 99)"
    assert outcomes(verifier, program, checker, tests) == ["passed", "wrong_answer"]


def test_jobs_with_a_checker_are_validated():
    with pytest.raises(InvalidValueError, match="needs the source"):
        Job("x", tuple(TESTS), compare="checker")
    with pytest.raises(InvalidValueError, match="must be 'checker'"):
        Job("x", tuple(TESTS), compare="tokens", checker="print(1)")
    with pytest.raises(InvalidValueError, match="input and output only"):
        Job("x", (TestCase(call="f()", output="1"),), checker="print(1)")
    assert Job("x", tuple(TESTS), checker="print(1)").compare == "checker"
