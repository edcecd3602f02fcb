import base64
import datetime
import json
import pickle
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxatk.problems.benchmarks.base import LeftOut
from maxatk.problems.benchmarks.livecodebench import Options, convert, decode_tests
from maxatk.records import TestCase
from maxatk.verifier import Verifier
from problems.rows import CALL_TESTS, STDIN_TESTS, lcb_call_row, lcb_row, packed

MIXED = "its tests are of the kinds ['functional', 'stdin']"
NO_NAME = "its metadata names no function to call"


def test_a_stdin_row_takes_public_and_private_tests():
    private = [{"input": "4\n", "output": "4\n", "testtype": "stdin"}]
    problem = convert(lcb_row(private=private)).problem
    assert problem.id == "livecodebench/abc001_a"
    assert problem.tests == (
        TestCase(input="1 2\n", output="3\n"),
        TestCase(input="4\n", output="4\n"),
    )
    assert (problem.compare, problem.starter_code, problem.entry_point) == ("lcb", None, None)
    assert "reads from standard input" in problem.prompt


def test_private_tests_may_be_plain_json():
    assert convert(lcb_row(private_test_cases=json.dumps(STDIN_TESTS))) == convert(lcb_row())


def test_a_functional_row_becomes_calls_with_python_literals():
    problem = convert(lcb_call_row()).problem
    assert problem.tests == (
        TestCase(call="Solution().pair([1, 2], 'a')", output="{'a': [1, 2, None]}"),
        TestCase(call="Solution().pair([1, 2], 'a')", output="{'a': [1, 2, None]}"),
        TestCase(call="Solution().pair([], True)", output="1e999"),
    )
    assert problem.starter_code.startswith("from typing import Dict, List\n\nclass Solution:")
    assert problem.starter_code.rstrip() in problem.prompt


def test_the_verifier_runs_functional_tests():
    problem = convert(lcb_call_row()).problem
    program = (
        "class Solution:\n    def pair(self, xs, key):\n"
        "        return {key: [*xs, None]} if xs else float('inf')\n"
    )
    with Verifier(workers=1) as verifier:
        assert verifier.verify(program, problem.tests, compare=problem.compare).reward == 1


@pytest.mark.parametrize(
    "date", ["2024-09-14T00:00:00", "2024-09-14", datetime.datetime(2024, 9, 14, 12)]
)
def test_the_window_of_dates_includes_both_ends(date):
    row = lcb_row(contest_date=date)
    inside = Options(start_date="2024-09-14", end_date="2024-09-14")
    assert not isinstance(convert(row, inside), LeftOut)
    assert convert(row, Options(start_date="2024-09-15")) == LeftOut(
        "livecodebench/abc001_a", "its contest was before 2024-09-15"
    )
    assert convert(row, Options(end_date="2024-09-13")).reason == "its contest was after 2024-09-13"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (lcb_row(public=[], private=[]), "has no tests"),
        (lcb_row(public=STDIN_TESTS, private=CALL_TESTS), MIXED),
        (lcb_call_row(metadata="{}"), NO_NAME),
        (lcb_call_row(metadata=json.dumps({"func_name": "a(); b"})), NO_NAME),
    ],
)
def test_rows_that_cannot_be_verified_are_left_out(row, reason):
    assert convert(row).reason == reason


@pytest.mark.parametrize("value", ["NaN", "not json", ""])
def test_arguments_that_are_no_literals_are_refused(value):
    tests = [{"input": value, "output": "1", "testtype": "functional"}]
    with pytest.raises(ValueError, match=r"literal|Expecting value"):
        convert(lcb_call_row(private_test_cases=packed(tests)))


TESTS = st.lists(st.fixed_dictionaries({"input": st.text(), "output": st.text()}))


@given(TESTS)
def test_both_encodings_give_the_tests_back(tests):
    assert decode_tests(json.dumps(tests)) == decode_tests(packed(tests)) == tests


class Runs:
    def __reduce__(self):
        return (print, ("this ran",))


def encoded(value):
    return base64.b64encode(zlib.compress(value)).decode()


def test_a_pickle_that_would_run_code_is_refused(capsys):
    with pytest.raises(ValueError, match="only one text is allowed"):
        decode_tests(encoded(pickle.dumps(Runs())))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "value", [Runs, json.loads, len, ValueError, {1: complex(1, 2)}, bytearray(b"x")]
)
def test_no_class_or_function_can_be_looked_up(value):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(ValueError, match="corrupt tests"):
            decode_tests(encoded(pickle.dumps(value, protocol)))


@pytest.mark.parametrize(
    ("text", "layer"),
    [
        ("\xe9", "neither JSON nor base64"),
        ("a", "neither JSON nor base64"),
        ("", "not zlib data"),
        (base64.b64encode(b"plain").decode(), "not zlib data"),
        (base64.b64encode(zlib.compress(b"x" * 100)[:-6]).decode(), "not zlib data"),
        (encoded(b"no pickle"), "not a pickled text"),
        (encoded(pickle.dumps("x" * 100)[:-9]), "not a pickled text"),
        (encoded(pickle.dumps([1, 2])), "only one text is allowed"),
        (encoded(pickle.dumps("[1")), "not JSON inside"),
        (encoded(pickle.dumps('{"a": 1}')), "must be a JSON list of objects"),
        ("[1]", "must be a JSON list of objects"),
    ],
)
def test_what_is_corrupt_is_named(text, layer):
    with pytest.raises(ValueError, match=layer):
        decode_tests(text)


def test_a_small_pickle_that_takes_for_ever_is_refused():
    with pytest.raises(ValueError, match="only one text is allowed"):
        decode_tests(encoded(b"\x80\x04}" + nested_key(100) + b"K\x01s."))


def nested_key(depth):
    """Return instructions that leave on the stack a tuple whose hash takes 2 ** depth steps."""
    return b")" + b"q\x00h\x00\x86" * depth


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_texts_of_every_protocol_are_read(protocol):
    tests = [{"input": "\u00e9\n" * 300, "output": ""}]
    assert decode_tests(encoded(pickle.dumps(json.dumps(tests), protocol))) == tests


@given(st.binary(max_size=60))
def test_no_bytes_at_all_do_more_than_raise(data):
    for text in (base64.b64encode(data).decode(), encoded(data)):
        with pytest.raises(ValueError, match="corrupt tests"):
            decode_tests(text)


def test_the_decompressed_size_is_bounded():
    bomb = packed([{"input": "0" * (64 << 20), "output": ""}])
    assert len(bomb) < 100_000
    with pytest.raises(ValueError, match="larger than 1048576 bytes when decompressed"):
        decode_tests(bomb, max_bytes=1 << 20)
    tests = [{"input": "0" * 1000, "output": ""}]
    size = len(pickle.dumps(json.dumps(tests)))
    assert decode_tests(packed(tests), max_bytes=size) == tests
