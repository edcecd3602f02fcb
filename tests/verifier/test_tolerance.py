"""Numbers inside the values of calls, and integers of many digits."""

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxatk.errors import InvalidValueError
from maxatk.records import Outcome, Problem, TestCase
from maxatk.verifier import CodeReward, Job, Verifier, problem_job
from maxatk.verifier.encoded import same_value
from maxatk.verifier.inside.values import encode
from processes import patience
from verifier.test_encoded import FEW, MODULUS

TENTHS = "def f(n):\n    return [sum([.1] * n), .2]\n"
PYTHON_READS = 4300  # digits of an integer, by default


def close(value, wanted, tolerance):
    """Compare by brute force, on the values themselves."""
    if isinstance(value, (list, tuple)) and type(value) is type(wanted):
        pairs = zip(value, wanted, strict=False)
        return len(value) == len(wanted) and all(close(a, b, tolerance) for a, b in pairs)
    if isinstance(value, dict) and isinstance(wanted, dict):
        return value.keys() == wanted.keys() and all(
            close(value[key], wanted[key], tolerance) for key in wanted
        )
    numbers = isinstance(value, (int, float)) and isinstance(wanted, (int, float))
    if numbers and (isinstance(value, float) or isinstance(wanted, float)):
        return math.isclose(value, wanted, rel_tol=tolerance, abs_tol=tolerance)
    return value == wanted


NUMBERS = st.recursive(
    st.sampled_from([0, 1, 3, 1.0, 1.0000001, 1.01, True, "1", None, 1e300, 3.0000001, 10**400]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=2).map(tuple)
        | st.dictionaries(st.sampled_from([0, 1, "a", 1.5]), inner, max_size=2)
    ),
    max_leaves=6,
)


@given(value=NUMBERS, wanted=NUMBERS)
def test_floats_inside_values_are_equal_within_the_tolerance(value, wanted):
    try:
        expected = close(value, wanted, 1e-6)
    except OverflowError:  # an integer above all floats is close to no float
        return
    assert same_value(encode(value), encode(wanted), tolerance=1e-6) is bool(expected)


@given(value=FEW, wanted=FEW)
def test_a_tolerance_takes_nothing_away(value, wanted):
    if value == wanted:
        assert same_value(encode(value), encode(wanted), tolerance=1e-9)


@pytest.mark.parametrize(
    ("value", "wanted", "depth", "equal"),
    [
        ((1, 2), [1, 2], 0, False),
        ((1, 2), [1, 2], 1, True),
        ([(1, 2)], [[1, 2]], 1, False),
        ([(1, 2)], [[1, 2]], 2, True),
        (((1, 2), [3]), [[1, 2], [3]], 2, True),
        ([[(1,)]], [[[1]]], 2, False),
        ({1: (1,)}, {1: [1]}, 1, False),
        ([1, 2], (1, 2), 1, True),
    ],
)
@pytest.mark.parametrize("tolerance", [0.0, 1e-9])
def test_a_tuple_counts_as_a_list_to_a_depth(value, wanted, depth, equal, tolerance):
    same = same_value(encode(value), encode(wanted), tolerance=tolerance, list_depth=depth)
    assert same is equal


def test_a_problem_states_the_tolerance_of_its_values(verifier):
    tests = (TestCase(call="f(3)", output="[0.3, 0.2]"),)
    exact = Problem("p", "", tests)
    tolerant = Problem("p", "", tests, tolerance=1e-9)
    jobs = [problem_job(TENTHS, problem) for problem in (exact, tolerant)]
    assert [verdict.reward for verdict in verifier.verify_many(jobs)] == [0.0, 1.0]
    wrong = problem_job("def f(n):\n    return [.31, .2]\n", tolerant)
    assert verifier.verify_many([wrong])[0].reward == 0.0
    rows = {"tests": [[test.to_json() for test in tests]], "tolerance": [1e-9]}
    assert CodeReward(verifier)(completions=[TENTHS], **rows) == [1.0]
    assert Problem.from_json(tolerant.to_json()) == tolerant


def test_a_tolerance_is_refused_where_it_would_do_nothing():
    with pytest.raises(InvalidValueError, match="tolerance: is for tests that call a function"):
        Job("", (TestCase(input="", output="1.0"),), tolerance=1e-6)
    with pytest.raises(InvalidValueError, match="tolerance: must be"):
        Job("", (TestCase(call="f()", output="1.0"),), tolerance=0.0)


@pytest.mark.parametrize(
    "value",
    [
        "float('nan')",
        "[float('nan'), .2]",
        "float('inf')",
        "[.3, .2, .1]",
        "[.3]",
        "'x'",
        "[.3, [.2]]",
    ],
)
def test_what_is_no_close_number_is_wrong_under_a_tolerance(verifier, value):
    job = Job(
        f"def f():\n    return {value}\n",
        (TestCase(call="f()", output="[0.3, 0.2]"),),
        tolerance=1e9,
    )
    assert verifier.verify_many([job])[0].reward == 0.0


def test_a_flood_of_elements_costs_the_host_no_more_under_a_tolerance():
    wanted = encode({k + 0.5: 1.0 for k in range(20_000)})
    keys = b"".join(encode(k * MODULUS) + b"N" for k in range(20_000))
    start = time.process_time()
    for data in (b"d20000:" + keys, b"l400000:" + b"N" * 400_000, b"d1:N" + b"l1:" * 150 + b"N"):
        assert not same_value(data, wanted, tolerance=1e-6)
    assert time.process_time() - start < patience(4)


@pytest.mark.parametrize("compare", ["tokens", "lcb"])
def test_integers_of_many_digits_are_read_and_printed(verifier, compare):
    power = "1" + "0" * 5000
    cases = [
        ("print(10 ** 5000)", "", power),
        ("print(int(input()) + 1)", power, power[:-1] + "1"),
        (f"print({power} % 7)", "", str(pow(10, 5000, 7))),
    ]
    for program, stdin, expected in cases:
        tests = [TestCase(input=stdin, output=expected)]
        assert verifier.verify(program, tests, compare).reward == 1.0, program
    wrong = [TestCase(input="", output=power[:-1] + "1")]
    assert verifier.verify("print(10 ** 5000)", wrong, compare).reward == 0.0


def test_values_of_calls_may_have_many_digits_too(verifier):
    tests = [TestCase(call="f(5000)", output="[1" + "0" * 5000 + ", '" + "1" * 5000 + "']")]
    program = "def f(n):\n    return [10 ** n, '1' * n]\n"
    assert verifier.verify(program, tests).reward == 1.0
    assert verifier.verify(program.replace("10 **", "11 **"), tests).reward == 0.0


def test_more_digits_than_the_official_grader_allows_are_an_error():
    with Verifier(workers=1, time_limit=1.0) as verifier:
        tests = [TestCase(input="", output="1")]
        verdict = verifier.verify("print(10 ** 50_001)", tests)
        assert verdict.outcome is Outcome.RUNTIME_ERROR
        endless = "while True:\n    int('9' * 50_000)\n"
        assert verifier.verify(endless, tests).outcome is Outcome.TIME_LIMIT
