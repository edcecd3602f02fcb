"""CodeContests+ and CodeContests-O: rows of their schemas, made up, with checkers."""

import pytest

from maxatk.problems.benchmarks import code_contests_o, code_contests_plus
from maxatk.problems.benchmarks.base import LeftOut
from maxatk.problems.benchmarks.code_contests_plus import Options
from maxatk.records import TestCase
from maxatk.verifier import Verifier, problem_job
from problems.rows import TESTLIB, contests_o_row, contests_plus_row

IGNORE = Options(foreign_checkers="ignore")


def test_a_row_of_code_contests_plus_is_verified_by_its_checker():
    solved = code_contests_plus.convert(contests_plus_row())
    problem = solved.problem
    assert problem.id == "code_contests_plus/Codeforces/1_A"
    assert (problem.time_limit_s, problem.memory_limit_mb) == (2.0, 256)
    assert problem.tests[0] == TestCase(input="1\n", output="7\n")
    assert (solved.solution, solved.more) == ("print(7)", ("print(8)",))
    programs = ["print(7)", "print(8)", "print(12)", "print()"]
    with Verifier(workers=1) as verifier:
        verdicts = verifier.verify_many([problem_job(text, problem) for text in programs])
    assert [verdict.reward for verdict in verdicts] == [1.0, 1.0, 0.0, 0.0]


def test_a_row_of_code_contests_o_has_its_corner_cases_as_tests():
    solved = code_contests_o.convert(contests_o_row())
    assert solved.problem.id == "code_contests_o/1_A. Any digit"
    assert solved.problem.tests == (TestCase(input="1\n", output="7\n"),)
    assert (solved.problem.compare, solved.solution) == ("checker", None)


@pytest.mark.parametrize(
    ("convert", "row"),
    [(code_contests_plus.convert, contests_plus_row), (code_contests_o.convert, contests_o_row)],
)
def test_a_checker_in_another_language_leaves_the_row_out_unless_it_is_ignored(convert, row):
    assert convert(row(checker=TESTLIB)).reason == "its checker is not in Python"
    ignored = convert(row(checker=TESTLIB), IGNORE).problem
    assert (ignored.compare, ignored.checker) == (None, None)
    for without in (None, "", " \n"):
        assert convert(row(checker=without)).problem.checker is None
    no_tests = {"test_cases": []} if row is contests_plus_row else {"corner_cases": []}
    assert isinstance(convert(row(**no_tests)), LeftOut)
