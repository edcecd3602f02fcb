"""Checkers by id, and problems where two right solutions print unequal outputs."""

import json

import pytest

from maxatk import load_problems
from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.jsonl import write_jsonl
from maxatk.problems import PrepareSettings, find_problem, prepare
from maxatk.problems.benchmarks.base import Checker
from maxatk.problems.check import ambiguous_problems, check_solutions, checked_problems
from maxatk.problems.checkers import read_checkers, with_checker
from maxatk.records import Problem, Sample, TestCase
from maxatk.settings import from_mapping
from maxatk.verifier import Verifier
from problems.rows import ANY_DIGIT, contest_row, mbpp_row

PROBLEMS = [
    Problem("digit", "Print any digit.", (TestCase(input="", output="7"),)),
    Problem("seven", "Print 7.", (TestCase(input="", output="7"),)),
    Problem("slow", "Print 7.", (TestCase(input="", output="7"),)),
    Problem("alone", "Print 7.", (TestCase(input="", output="7"),)),
]
SOLUTIONS = [
    ("digit", "print(7)"),
    ("digit", "print(8)"),
    ("seven", "print(7)"),
    ("seven", "print('7 ')"),
    ("seven", "print(7)"),
    ("slow", "print(7)"),
    ("slow", "1 / 0"),  # it fails, and prints nothing else
    ("alone", "print(7)"),
]


@pytest.fixture
def prepared(tmp_path):
    path = tmp_path / "p.jsonl"
    write_jsonl(path, [problem.to_json() for problem in PROBLEMS])
    samples = [Sample(name, i, text).to_json() for i, (name, text) in enumerate(SOLUTIONS)]
    write_jsonl(tmp_path / "p.solutions.jsonl", samples)
    return path


def checkers_file(folder, *rows):
    path = folder / "checkers.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def ignore(*_):
    return None


def test_two_right_solutions_that_differ_mark_a_problem_and_a_checker_settles_it(prepared):
    with Verifier(workers=1) as verifier:
        problems = checked_problems(prepared, {})
        counts, rows = ambiguous_problems(prepared, problems, verifier=verifier, progress=ignore)
        assert counts == {"ambiguous": 1, "alike": 2, "unknown": 1}
        assert rows == [
            {"problem_id": "digit", "test": 0, "solutions": 2, "passed": 1, "wrong_answer": 1}
        ]
        problems = checked_problems(prepared, {"digit": Checker(ANY_DIGIT)})
        counts, _ = ambiguous_problems(prepared, problems, verifier=verifier, progress=ignore)
        assert counts["ambiguous"] == 0
        counts, _ = check_solutions(prepared, problems, verifier=verifier, progress=ignore)
        assert counts == {"passed": 4, "failed": 0, "unverified": 0, "without_solution": 0}


def test_a_checker_is_given_as_text_or_as_a_file(tmp_path):
    (tmp_path / "own.py").write_text(ANY_DIGIT)
    rows = [{"id": "a", "checker": "print(1)"}, {"id": "b", "file": "own.py"}]
    assert read_checkers(checkers_file(tmp_path, *rows)) == {
        "a": Checker("print(1)"),
        "b": Checker(ANY_DIGIT),
    }


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": "a"}], "needed: id, and either checker or file"),
        ([{"checker": "print(1)"}], "needed: id"),
        ([{"id": "a", "checker": "int main() {}"}], "checker of 'a': is not a program in Python"),
        ([{"id": "a", "checker": ""}], "is not a program in Python"),
        ([{"id": "a", "file": "no.py"}], "no.py' does not exist"),
        ([{"id": "a", "checker": "print(1)"}] * 2, "the id 'a' occurs twice"),
        ([{"id": "a", "checker": "print(1)", "lang": "py"}], "lang"),
    ],
)
def test_what_is_no_checker_is_refused(tmp_path, rows, message):
    with pytest.raises((DataError, InvalidValueError), match=message):
        read_checkers(checkers_file(tmp_path, *rows))


def test_a_checker_needs_a_problem_that_prints(prepared):
    with pytest.raises(DataError, match="1 checker of unknown problems, the first 'none'"):
        checked_problems(prepared, {"none": "print(1)"})
    call = Problem("f", "", (TestCase(call="f()", output="1"),))
    with pytest.raises(InvalidValueError, match="'f' has tests that call a function"):
        with_checker(call, {"f": Checker("print(1)")})


def settings(path, **more):
    return from_mapping(PrepareSettings, {"file": str(path), **more}, where="settings")


def test_prepare_attaches_checkers_and_keeps_several_solutions(rows_file, tmp_path):
    solutions = {"language": [3, 2, 3, 3], "solution": ["print(1)", "cpp", "print(2)", "print(3)"]}
    rows = rows_file(contest_row("1_A. Sum", solutions=solutions), contest_row("2_A. Sum"))
    # The second row has two solutions as well.
    checkers = checkers_file(tmp_path, {"id": "code_contests/1_A. Sum", "checker": ANY_DIGIT})
    prepare_settings = settings(
        rows, benchmark="code_contests", solutions=2, checkers=str(checkers)
    )
    manifest = prepare(prepare_settings, tmp_path / "p.jsonl")
    problems = load_problems(tmp_path / "p.jsonl")
    assert [problem.checker for problem in problems] == [ANY_DIGIT, None]
    assert manifest["counts"]["solutions"] == 4
    written = [json.loads(line) for line in (tmp_path / "p.solutions.jsonl").open()]
    assert [row["completion"] for row in written[:2]] == ["print(1)", "print(2)"]
    assert find_problem(tmp_path / "p.jsonl", problems[0].id).solution == "print(1)"
    assert prepare(prepare_settings, tmp_path / "p.jsonl") == manifest
    checkers_file(tmp_path, {"id": "code_contests/1_A. Sum", "checker": "print(1)"})
    assert prepare(prepare_settings, tmp_path / "p.jsonl") != manifest  # the checkers are others


def test_prepare_refuses_checkers_of_problems_that_are_not_there(rows_file, tmp_path):
    rows = rows_file(mbpp_row(1))
    checkers = checkers_file(tmp_path, {"id": "mbpp/9", "checker": "print(1)"})
    with pytest.raises(DataError, match="the first 'mbpp/9'"):
        prepare(settings(rows, benchmark="mbpp", checkers=str(checkers)), tmp_path / "p.jsonl")
    with pytest.raises(MissingFileError, match=r"no\.jsonl"):
        settings(rows, benchmark="mbpp", checkers="no.jsonl")
