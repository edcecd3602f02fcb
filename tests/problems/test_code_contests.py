import pytest

from maxatk.problems import load_benchmark
from maxatk.problems.benchmarks.base import LeftOut
from maxatk.problems.benchmarks.code_contests import Options, convert
from maxatk.records import TestCase
from maxatk.verifier import Job, Verifier
from problems.rows import contest_row, cure_row

NO_TESTS = {"input": [], "output": []}


def test_a_row_becomes_a_problem_with_all_its_tests():
    solved = convert(contest_row())
    problem = solved.problem
    assert problem.id == "code_contests/1_A. Sum"
    assert problem.prompt.endswith("\n\nPrint the sum of the numbers of a line.\n")
    assert problem.tests == tuple(
        TestCase(input=stdin, output=expected)
        for stdin, expected in [("1 2\n", "3\n"), ("4 4\n", "8\n"), ("\n", "0\n"), ("-1\n", "-1\n")]
    )
    assert (problem.time_limit_s, problem.memory_limit_mb) == (1.5, 256)
    assert problem.compare is None
    assert problem.source == "code_contests"


def test_the_solution_is_the_first_one_in_python_3():
    assert convert(contest_row()).solution == "print(sum(map(int, input().split())))"
    only_python_2 = {"language": [1, 2], "solution": ["print 1", "int main() {}"]}
    assert convert(contest_row(solutions=only_python_2)).solution is None


@pytest.mark.parametrize(
    ("changed", "limits"),
    [
        ({"time_limit": None, "memory_limit_bytes": 0}, (None, None)),
        ({"time_limit": {"seconds": 0, "nanos": 0}, "memory_limit_bytes": None}, (None, None)),
        ({"time_limit": {"seconds": 0, "nanos": 250_000_000}}, (0.25, 256)),
    ],
)
def test_limits_that_are_not_given_are_left_to_the_verifier(changed, limits):
    problem = convert(contest_row(**changed)).problem
    assert (problem.time_limit_s, problem.memory_limit_mb) == limits


@pytest.mark.parametrize("column", ["input_file", "output_file"])
def test_problems_on_files_are_left_out(column):
    left_out = convert(contest_row(**{column: "sum.txt"}))
    assert left_out == LeftOut(
        "1_A. Sum", "reads or writes a file instead of standard input and output"
    )


def test_problems_without_tests_are_left_out():
    row = contest_row(public_tests=NO_TESTS, private_tests=NO_TESTS, generated_tests=NO_TESTS)
    assert convert(row) == LeftOut("1_A. Sum", "has no tests")


def test_mutated_tests_and_the_rule_are_settings():
    solved = convert(contest_row(), Options(generated_tests=False, compare="deepmind"))
    assert len(solved.problem.tests) == 3
    assert solved.problem.compare == "deepmind"


@pytest.mark.parametrize("row", [contest_row, cure_row])
def test_difficulty_is_a_code_up_to_which_rows_are_kept(row):
    upto = Options(max_difficulty=3)
    assert not isinstance(convert(row(difficulty=3), upto), LeftOut)
    assert not isinstance(convert(row(difficulty=0), upto), LeftOut)
    assert convert(row(difficulty=4), upto).reason == "its difficulty is above 3"
    assert not isinstance(convert(row(difficulty=4)), LeftOut)
    with pytest.raises(TypeError, match="column 'difficulty' must be int, got str: 'EASY'"):
        convert(row(difficulty="EASY"), upto)


def test_rows_of_cure_are_read_too():
    solved = convert(cure_row(5))
    assert solved.problem.id == "cure/CodeContests/5"
    assert solved.problem.tests[1] == TestCase(input="4 4\n", output="8\n")
    assert (solved.problem.time_limit_s, solved.problem.source) == (1, "cure")
    assert solved.solution == "print(sum(map(int, input().split())))"
    assert convert(cure_row(solutions=[])).solution is None


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"exe_method": "functional"}, "its tests are of the kind 'functional', not stdin"),
        ({"test_input": [], "test_output": []}, "has no tests"),
    ],
)
def test_rows_of_cure_that_cannot_be_verified_are_left_out(changed, reason):
    assert convert(cure_row(**changed)) == LeftOut("cure/CodeContests/0", reason)


def test_real_rows_of_cure(real_data):
    loaded = load_benchmark("code_contests", file=real_data("cure/cure_schema_20.json"))
    assert (len(loaded.solved), loaded.left_out) == (20, ())


def test_real_rows(real_data):
    loaded = load_benchmark(
        "code_contests", file=real_data("codecontests/code_contests_verified.jsonl")
    )
    assert (len(loaded.solved), loaded.left_out) == (231, ())
    assert all(solved.solution for solved in loaded.solved)


def test_real_reference_solutions_pass(real_data):
    path = real_data("codecontests/code_contests_verified.jsonl")
    solved = load_benchmark("code_contests", file=path, limit=24).solved
    with Verifier(workers=2, time_limit=12.0) as verifier:
        verdicts = verifier.verify_many([Job(s.solution, s.problem.tests) for s in solved])
    failed = [
        solution.problem.id
        for solution, verdict in zip(solved, verdicts, strict=True)
        if verdict.reward != 1
    ]
    assert failed == []
