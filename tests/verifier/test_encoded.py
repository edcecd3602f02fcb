"""Encoded values compared and shown without building them."""

import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxatk.records import Outcome, TestCase
from maxatk.verifier import Job, Verifier
from maxatk.verifier.encoded import MOST, printed_excerpt, same_value, value_excerpt
from maxatk.verifier.inside import values
from maxatk.verifier.inside.values import encode
from maxatk.verifier.rules import COMPARE, equal_values
from processes import patience
from verifier.test_values import anything

# Few values that are often equal to one another, in types that compare across.
FEW = st.recursive(
    st.sampled_from([0, 1, 2, True, 1.0, 0.0, -0.0, 1 + 0j, 2.5, 2**60, 2.0**60, "1", b"1", None]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=2).map(tuple)
        | st.frozensets(st.sampled_from([0, 1, True, 1.0, "1"]), max_size=3)
        | st.sets(st.sampled_from([0, 1, 2.5, (1, 0)]), max_size=3)
        | st.dictionaries(st.sampled_from([0, 1, True, "a"]), inner, max_size=2)
    ),
    max_leaves=6,
)


@given(first=FEW, second=FEW)
def test_encodings_are_equal_where_the_values_are(first, second):
    assert same_value(encode(first), encode(second)) is bool(first == second)


@given(value=anything, other=anything)
def test_the_same_holds_for_values_of_all_sizes(value, other):
    assert same_value(encode(value), encode(value))
    assert same_value(encode(value), encode(other)) is bool(value == other)


@given(data=st.binary(max_size=100))
def test_noise_is_no_value(data):
    assert not same_value(data, encode({1: {2, 3}}))


def test_a_value_that_is_no_number_equals_nothing():
    nan = encode([float("nan")])
    assert not same_value(nan, nan)


MODULUS = (1 << 61) - 1  # of Python's hash of integers: all multiples have the hash 0


def floods(count):
    keys = [encode(k * MODULUS) for k in range(count)]
    yield b"S%d:" % count + b"".join(keys)
    yield b"d%d:" % count + b"".join(key + b"N" for key in keys)
    yield b"S1:t2:i1:1z%d:" % count + b"".join(keys)


def test_a_flood_of_colliding_hashes_costs_the_host_no_more_than_other_values():
    expected = list(range(40_000))
    start = time.process_time()
    for data in floods(40_000):  # building the first one took ten seconds
        assert not equal_values(data, set(expected), "tokens")
    assert time.process_time() - start < patience(4)


def test_a_literal_of_colliding_hashes_is_compared_in_linear_time():
    printed = "{" + ", ".join(str(k * MODULUS) for k in range(30_000)) + "}"
    expected = "{" + ", ".join(str(k + 10**24) for k in range(30_000)) + "}"
    start = time.process_time()
    assert not COMPARE["literal"](printed.encode(), expected)
    assert time.process_time() - start < patience(4)


@pytest.mark.parametrize("data", [b"l16777216:" + b"N" * (1 << 24), b"N" * (1 << 24)])
def test_more_elements_than_expected_are_not_looked_at(data):
    tracemalloc.start()
    start = time.process_time()
    assert not equal_values(data, [1, 2, 3], "tokens")
    assert time.process_time() - start < patience(0.5)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("name", ["tokens", "lcb", "deepmind"])
@pytest.mark.parametrize("printed", [b"1 " * (1 << 21), b"1\n" * (1 << 21)])
def test_a_rule_splits_no_more_than_the_expected_text_has(name, printed):
    tracemalloc.start()
    assert not COMPARE[name](printed, "1 2")
    assert tracemalloc.get_traced_memory()[1] < 5 * len(printed)
    tracemalloc.stop()


def test_tokens_that_are_nearly_numbers_take_linear_time():
    printed = b" ".join([b"1" * 3999 + b"x"] * 500)
    start = time.process_time()
    assert not COMPARE["tokens"](printed, " ".join(["1" * 3999 + "y"] * 500))
    assert not COMPARE["tokens"](printed, " ".join(["2"] * 500))
    assert time.process_time() - start < patience(2)


def test_a_call_returns_sets_and_dicts_in_any_order(verifier):
    program = (
        "def f(n):\n    return {str(i): {i, i + 1, 'x'} for i in range(n)}, frozenset('abc'), set()"
    )
    value = (
        {str(i): {i, i + 1, "x"} for i in range(4)},
        {"c", "b", "a"},
        set(),
    )
    assert verifier.verify(program, [TestCase(call="f(4)", output=repr(value))]).reward == 1.0


def test_a_program_that_floods_its_host_fails_cheaply(verifier):
    attack = (
        f"def f():\n    return [k * {MODULUS} for k in range(30_000)]\n"
        "import sys\nfor name, module in list(sys.modules.items()):\n"
        "    if name.endswith('.values'):\n"
        "        encode = module.encode\n"
        "        module.encode = lambda v, d=0: b'S30000:' + b''.join(map(encode, v))\n"
    )
    start = time.process_time()
    verdict = verifier.verify(attack, [TestCase(call="f()", output=repr(set(range(30_000))))])
    assert verdict.reward == 0.0
    assert time.process_time() - start < patience(4)


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
