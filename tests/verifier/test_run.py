"""`Verifier.run`: what programs print, with nothing to compare it to."""

import subprocess
import sys

import hypothesis
import pytest
from hypothesis import strategies as st

from maxatk.errors import InvalidValueError
from maxatk.records import Outcome
from maxatk.verifier import Verifier

ECHO = "import sys; sys.stdout.write(sys.stdin.read())"
FAILURES = {
    Outcome.TIME_LIMIT: "while True: pass",
    Outcome.MEMORY_LIMIT: "x = bytearray(1 << 30)",
    Outcome.OUTPUT_LIMIT: "while True: print('x' * 10000)",
    Outcome.RUNTIME_ERROR: "print(1)\n1 / 0",
    Outcome.COMPILE_ERROR: "print((",
}


def test_every_program_meets_every_input_in_order(verifier):
    programs = [f"print({i} * int(input()))" for i in range(3)]
    outputs = verifier.run(programs, ["1", "5"])
    printed = [[output.printed for output in of_program] for of_program in outputs]
    assert printed == [["0\n", "0\n"], ["1\n", "5\n"], ["2\n", "10\n"]]
    assert all(
        output.outcome is Outcome.ENDED and output.complete for row in outputs for output in row
    )
    assert all(
        output.cpu_seconds > 0 and output.peak_memory > 0 for row in outputs for output in row
    )


def test_it_prints_what_python_prints(verifier):
    program = "import math\nfor i in range(5):\n    print(math.sqrt(i), {i: 'ü'}, end='|')"
    command = [sys.executable, "-c", program]
    expected = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    [[output]] = verifier.run([program], [""])
    assert output.printed == expected


@hypothesis.settings(max_examples=25, deadline=None)
@hypothesis.given(text=st.text(st.characters(exclude_categories=["Cs"])), most=st.integers(1, 20))
def test_an_output_is_shown_up_to_so_many_characters(verifier, text, most):
    program = f"import sys; sys.stdout.buffer.write({text!r}.encode())"
    [[output]] = verifier.run([program], [""], most_characters=most)
    assert output.printed == text[:most]
    assert output.complete == (len(text) <= most)


@pytest.mark.parametrize("outcome", FAILURES)
def test_a_run_that_does_not_end_well_prints_nothing(verifier, outcome):
    (broken, honest) = verifier.run([FAILURES[outcome], ECHO], ["a", "b"], time_limit=0.2)
    assert [output.outcome for output in broken] == [outcome] * 2
    assert all(not output.printed and not output.complete for output in broken)
    assert [output.printed for output in honest] == ["a", "b"]
    if outcome is Outcome.RUNTIME_ERROR:
        assert "ZeroDivisionError" in broken[0].stderr


def test_a_run_is_as_confined_as_a_test(verifier):
    reads = "print(open('/etc/passwd').read())"
    opens = "import socket; socket.socket()"
    forks = "import os; os.fork()"
    for [output] in verifier.run([reads, opens, forks], [""]):
        assert output.outcome is Outcome.RUNTIME_ERROR
        assert not output.printed


def test_bytes_that_are_no_text_are_replaced(verifier):
    program = r"import sys; sys.stdout.buffer.write(b'\xff' * 9)"
    [[output]] = verifier.run([program], [""], most_characters=4)
    assert output.printed == "\ufffd" * 4
    assert not output.complete


def test_equal_programs_run_once(verifier):
    program = "import time; print(time.perf_counter_ns())"
    first, second = verifier.run([program, program], ["", " "])
    assert first == second


@pytest.mark.parametrize(
    ("programs", "inputs", "settings", "named"),
    [
        ("print(1)", [""], {}, "programs: must be a list of strings"),
        (["print(1)"], "1", {}, "inputs: must be a list of strings"),
        (["print(1)"], [1], {}, "inputs: must be a list of strings"),
        (["print(1)"], [], {}, "inputs: must be one string or more"),
        (["print(1)"], [""], {"most_characters": 0}, "most_characters: must be an integer"),
        (["print(1)"], [""], {"time_limit": -1}, "time_limit: must be above 0"),
    ],
)
def test_other_arguments_are_refused(verifier, programs, inputs, settings, named):
    with pytest.raises(InvalidValueError, match=named):
        verifier.run(programs, inputs, **settings)


def test_no_programs_have_no_outputs():
    with Verifier(workers=1) as verifier:
        assert verifier.run([], ["1"]) == []
