"""What came instead of the expected output: bounded, readable, and never built in the host."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxatk.records import Outcome, TestCase
from maxatk.verifier import Job, Verifier
from maxatk.verifier.excerpts import MOST, printed_excerpt, value_excerpt
from maxatk.verifier.inside import values

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8"), max_size=8) | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4)
    | st.lists(inner, max_size=4).map(tuple)
    | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(plain)
def test_a_value_reads_as_its_repr_cut_at_the_limit(value):
    text = value_excerpt(values.encode(value))
    whole = repr(value)
    if len(whole) <= MOST:
        assert text == whole
    else:
        assert text.startswith(whole[:100])
        assert len(text) <= MOST + 1


@pytest.mark.parametrize("value", [set(), frozenset(), {1}, (1,), bytearray(b"x"), [[]] * 3])
def test_sets_single_tuples_and_byte_arrays_read_as_themselves(value):
    assert value_excerpt(values.encode(value)) == repr(value).replace("frozenset()", "set()")


@pytest.mark.parametrize(
    "value",
    ["x" * 10**7, list(range(10**5)), 1 << (1 << 20), b"y" * 10**7, [["z" * 300] * 99] * 99],
    ids=["text", "list", "number", "bytes", "nested"],
)
def test_a_large_value_costs_no_more_than_what_is_shown_of_it(value):
    encoded = values.encode(value)
    tracemalloc.start()
    text = value_excerpt(encoded)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0 < len(text) <= MOST + 1
    assert peak < 100_000


@given(st.binary(max_size=60))
def test_what_is_no_encoding_has_no_excerpt_and_raises_nothing(data):
    assert len(value_excerpt(data)) <= MOST + 1


@given(st.binary(max_size=3000))
def test_printed_bytes_are_cut_to_characters(data):
    text = printed_excerpt(data)
    assert len(text) <= MOST + 1
    assert data.decode("utf-8", "replace").startswith(text.removesuffix("…")[:190])


@pytest.fixture(scope="module")
def verifier():
    with Verifier(workers=1, time_limit=2.0) as opened:
        yield opened


def test_the_first_wrong_answer_of_a_program_says_what_came(verifier):
    tests = [TestCase(input=f"{n}\n", output=f"{2 * n}\n") for n in (0, 1, 2)]
    first, second, third = verifier.verify("print(3 * int(input()))", tests).tests
    assert (first.outcome, first.got) == (Outcome.PASSED, "")
    assert (second.outcome, second.got) == (Outcome.WRONG_ANSWER, "3\n")
    assert (third.outcome, third.got) == (Outcome.WRONG_ANSWER, "")


def test_a_wrong_value_of_a_call_is_shown_as_a_value(verifier):
    tests = [TestCase(call="f(2)", output="[2, 'b']")]
    (result,) = verifier.verify("def f(x):\n    return [x, 'a']", tests).tests
    assert result.got == "[2, 'a']"


def test_what_a_checker_refuses_is_shown(verifier):
    checker = "import sys; print(int(open(sys.argv[3]).read() == open(sys.argv[2]).read()))"
    job = Job("print('no')", [TestCase(input="", output="yes\n")] * 2, checker=checker)
    (verdict,) = verifier.verify_many([job])
    assert [test.got for test in verdict.tests] == ["no\n", ""]


def test_a_megabyte_of_output_leaves_200_characters_in_the_verdict(verifier):
    (result,) = verifier.verify("print('x' * (1 << 20))", [TestCase(input="", output="1")]).tests
    assert result.got == "x" * MOST + "…"


def test_a_program_that_ends_badly_shows_its_error_and_nothing_that_came(verifier):
    (result,) = verifier.verify("print(1)\n1 / 0", [TestCase(input="", output="1")]).tests
    assert (result.outcome, result.got) == (Outcome.RUNTIME_ERROR, "")
    assert "ZeroDivisionError" in result.stderr
