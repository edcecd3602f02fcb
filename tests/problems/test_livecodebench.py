import datetime
import json

import pytest

from maxatk.problems.benchmarks.base import LeftOut
from maxatk.problems.benchmarks.livecodebench import Options, convert
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
