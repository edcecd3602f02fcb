import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxatk.evaluation.score_tally import distribution_entropy
from maxatk.evaluation.submissions import program_key

PROGRAM = "def f(x):\n    return x + 1\n\n\nprint(f(2))\n"

SAME = [
    PROGRAM.replace("    ", "\t"),
    "# a comment\n" + PROGRAM,
    PROGRAM.replace("x + 1", "(x+1)  # one more"),
    PROGRAM.replace("\n\n\n", "\n"),
    PROGRAM + "\n\n",
]
DIFFERENT = [
    PROGRAM.replace("1", "2"),
    PROGRAM.replace("x", "y"),
    PROGRAM + "print(1)\n",
    PROGRAM + "'''text'''\n",
    PROGRAM + ")",
]


@pytest.mark.parametrize("other", SAME)
def test_layout_does_not_count(other):
    assert program_key(other) == program_key(PROGRAM)


def test_names_constants_and_statements_count():
    keys = {program_key(other) for other in [PROGRAM, *DIFFERENT]}
    assert len(keys) == len(DIFFERENT) + 1


def test_quotes_do_not_count():
    assert program_key("print('a')") == program_key('print("a")')


def test_what_does_not_parse_is_compared_as_text():
    assert program_key("print(") == program_key("print(  \n\n")
    assert program_key("print(") != program_key("print((")
    assert program_key("") == program_key("\n") != program_key("pass")


HOSTILE = {
    "deep brackets": "(" * 100_000,
    "deep lists": "[" * 90 + "]" * 90,
    "unary": "-" * 60_000 + "1",
    "a long sum": "1" + "+1" * 30_000,
    "a long chain": "x" + ".a" * 30_000,
    "surrogate": "print('\ud800')",
    "null byte": "a\0b",
    "open f-string": "f'{" * 100,
    "too long": "x = 1\n" * 20_000,
}


@pytest.mark.parametrize("program", HOSTILE.values(), ids=HOSTILE)
def test_programs_that_break_parsers_have_a_key_too(program):
    assert len(program_key(program)) == 16


def test_a_program_with_an_invalid_escape_warns_nobody():
    code = "from maxatk.evaluation.submissions import program_key; print(program_key('\"\\\\d\"'))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


@given(st.lists(st.integers(0, 20), max_size=6))
def test_entropy_of_counts(counts):
    total = sum(counts)
    expected = -sum(c / total * math.log(c / total) for c in counts if c)
    assert distribution_entropy(counts) == pytest.approx(expected, abs=1e-12)
    assert 0 <= distribution_entropy(counts) <= math.log(max(len(counts), 1)) + 1e-12
