import subprocess
import sys

import pytest

from maxatk.errors import DataError, InvalidValueError
from maxatk.jsonl import write_jsonl
from maxatk.problems import load_benchmark, load_problems
from maxatk.problems.benchmarks.base import LeftOut
from maxatk.problems.benchmarks.mbpp import Options, convert
from maxatk.records import TestCase
from maxatk.verifier import Job, Verifier, problem_job
from problems.rows import mbpp_row


def cases_of(*asserts):
    return convert(mbpp_row(tests=list(asserts))).problem.tests


def test_a_row_becomes_a_stdin_problem():
    solved = convert(mbpp_row(7))
    problem = solved.problem
    assert (problem.id, problem.compare, problem.source) == ("mbpp/7", "literal", "mbpp")
    assert problem.tests == (
        TestCase(input="[1, 2]\n3\n", output="[4, 5]\n"),
        TestCase(input="[]\n1\n", output="[]\n"),
    )
    assert "Write a function to add a number" in problem.prompt
    assert "`add_all`" in problem.prompt
    assert "Input:\n[1, 2]\n3\n\nOutput:\n[4, 5]\n" in problem.prompt


@pytest.mark.parametrize("form", ["stdin", "asserts"])
def test_rows_of_mbpp_plus_are_refused_and_not_read_as_those_of_mbpp(tmp_path, form):
    plus = "inputs = [[[1], 2]]\nresults = [[3]]\nfor i, r in zip(inputs, results): assert 1"
    write_jsonl(tmp_path / "plus.jsonl", [mbpp_row(11, test=plus)])
    with pytest.raises(DataError, match=r"plus\.jsonl.*column 'test' holds the tests of MBPP\+"):
        load_benchmark("mbpp", file=tmp_path / "plus.jsonl", options={"form": form})


def test_the_reference_solution_is_a_whole_program():
    solved = convert(mbpp_row())
    assert "\r" not in solved.solution
    done = subprocess.run(
        [sys.executable, "-c", solved.solution], input="[1, 2]\n3\n", capture_output=True, text=True
    )
    assert done.stdout == "[4, 5]\n"


@pytest.mark.parametrize(
    ("statement", "stdin", "expected"),
    [
        ("assert f() == 1", "", "1\n"),
        ("assert f(-1, 'a b') == None", "-1\n'a b'\n", "None\n"),
        ("assert f('two\\nlines') == (1,)", "'two\\nlines'\n", "(1,)\n"),
        ("assert f({'a': [1]}) == {1: (2, 3)}", "{'a': [1]}\n", "{1: (2, 3)}\n"),
        ("assert f(1.50) == 1e3, 'why'", "1.5\n", "1000.0\n"),
        ("  assert f(True)==False  ", "True\n", "False\n"),
        ("assert f(set()) == ()", "set()\n", "()\n"),
    ],
)
def test_literals_are_written_one_a_line(statement, stdin, expected):
    assert cases_of(statement) == (TestCase(input=stdin, output=expected),)


def test_sets_have_one_order_in_every_process():
    words = {"red", "green", "blue", "black", "white"}
    (test,) = cases_of(f"assert f({words!r}) == [{{3, 1, 20}}]")
    assert test.input == "{'black', 'blue', 'green', 'red', 'white'}\n"
    assert test.output == "[{1, 20, 3}]\n"


@pytest.mark.parametrize(
    "statement",
    [
        "assert f(g(1)) == 2",
        "assert f(x) == 2",
        "assert f(1) < 2",
        "assert f(n=1) == 2",
        "assert math.isclose(f(1), 2)",
        "assert m.f(1) == 2",
        "assert f(*[1]) == 2",
        "assert f({[1]}) == 2",
        "assert f(1) == f(2)",
        "print(f(1))",
        "assert f(",
        "",
    ],
)
def test_other_asserts_leave_the_row_out(statement):
    left_out = convert(mbpp_row(9, tests=["assert f(1) == 2", statement]))
    assert left_out == LeftOut("mbpp/9", "an assert is not of the form: f(literals) == literal")


def test_asserts_on_two_functions_leave_the_row_out():
    left_out = convert(mbpp_row(9, tests=["assert f(1) == 2", "assert g(1) == 2"]))
    assert left_out == LeftOut("mbpp/9", "the asserts call 2 different functions")


ASSERTS = Options(form="asserts")


def test_the_original_asserts_become_checks_one_a_test():
    row = mbpp_row(
        8,
        tests=["assert add_all([1], 2) == [3]", "assert set(add_all([1, 1], 0)) == set([one])"],
        test_setup_code="one = 1",
    )
    solved = convert(row, ASSERTS)
    problem = solved.problem
    assert (problem.entry_point, problem.compare, len(problem.tests)) == ("add_all", None, 2)
    assert "assert add_all([1], 2) == [3]" in problem.prompt
    wrong = "def add_all(xs, n):\n    return [3]"
    with Verifier(workers=1) as verifier:
        jobs = [Job(p, problem.tests, entry_point="add_all") for p in (solved.solution, wrong)]
        rewards = [verdict.reward for verdict in verifier.verify_many(jobs)]
    assert rewards == [1.0, 0.5]


def test_tests_that_are_shown_do_not_count_and_a_program_may_be_chosen_by_them():
    cases = [f"assert add_all([{i}], 2) == [{i + 2}]" for i in range(3)]
    row = mbpp_row(8, tests=cases)
    whole = convert(row, ASSERTS).problem
    assert (len(whole.tests), whole.visible_tests) == (3, ())
    for count in (1, 2):
        problem = convert(row, Options(form="asserts", visible_tests=count)).problem
        assert problem.visible_tests + problem.tests == whole.tests
        assert len(problem.visible_tests) == count
        assert [case in problem.prompt for case in cases] == [i < count for i in range(3)]
    constant = Job("def add_all(xs, n):\n    return [2]", problem.tests, entry_point="add_all")
    with Verifier(workers=1) as verifier:  # what passes the test that is shown earns nothing
        assert verifier.verify_many([constant])[0].reward == 0


def test_a_row_without_a_test_to_hide_is_left_out():
    left_out = convert(mbpp_row(8), Options(form="asserts", visible_tests=2))
    assert left_out == LeftOut("mbpp/8", "has no more tests than the 2 that are visible")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"visible_tests": 1}, "visible_tests: is for the form 'asserts', got form='stdin'"),
        ({"form": "asserts", "visible_tests": 0}, "visible_tests: must be at least 1, got 0"),
    ],
)
def test_visible_tests_that_make_no_sense_are_refused(options, message):
    with pytest.raises(InvalidValueError, match=message):
        Options(**options)


def test_asserts_may_use_the_modules_of_the_program():
    row = mbpp_row(
        code="import math\ndef half(x): return x / 2", tests=["assert math.isclose(half(1), .5)"]
    )
    assert convert(row, ASSERTS).problem.tests[0].check.startswith("import math\n")


def test_a_text_of_several_lines_in_an_assert_stays_as_it_is():
    text = 'assert add_all([len("""a\n  b""")], 1) == [6] and "\x0c\u2028" == chr(12) + chr(0x2028)'
    problem = convert(mbpp_row(tests=[text]), ASSERTS).problem
    right = Job(
        "def add_all(xs, n):\n  return [x + n for x in xs]", problem.tests, entry_point="add_all"
    )
    with Verifier(workers=1) as verifier:
        assert verifier.verify_many([right])[0].reward == 1.0


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"tests": ["assert add_all([Node(1)], 2) == 3"]}, "an assert uses a class that only the"),
        ({"tests": ["assert add_all([1], int) == 3"]}, "an assert uses a class that only the"),
        ({"test_setup_code": "root = Node(1)"}, "an assert uses a class that only the program has"),
        ({"tests": ["assert other(1) == 2"]}, "the asserts do not call exactly one function"),
        ({"code": "print 1"}, "its code or an assert is not Python 3"),
        ({"tests": ["assert ("]}, "its code or an assert is not Python 3"),
    ],
)
def test_asserts_that_cannot_be_verified_leave_the_row_out(changed, reason):
    assert reason in convert(mbpp_row(9, **changed), ASSERTS).reason


def test_real_rows_with_their_asserts(real_data):
    path = real_data("mbpp/mbpp.jsonl")
    loaded = load_benchmark("mbpp", file=path, options={"form": "asserts"})
    assert [row.row_id for row in loaded.left_out] == [f"mbpp/{n}" for n in (367, 533, 601, 927)]
    sanitized = real_data("mbpp/sanitized-mbpp.json")
    assert len(load_benchmark("mbpp", file=sanitized, options={"form": "asserts"}).solved) == 427


def test_real_rows(real_data):
    loaded = load_benchmark("mbpp", file=real_data("mbpp/mbpp.jsonl"))
    assert len(loaded.solved) == 967
    assert [row.row_id for row in loaded.left_out] == [
        f"mbpp/{number}" for number in (367, 486, 533, 596, 601, 912, 927)
    ]
    assert len({solved.problem.id for solved in loaded.solved}) == 967
    assert len(load_problems("mbpp", file=real_data("mbpp/mbpp.jsonl"), limit=5)) == 5


def test_real_reference_solutions_pass(real_data):
    solved = load_benchmark("mbpp", file=real_data("mbpp/mbpp.jsonl"), limit=60).solved
    jobs = [Job(s.solution, s.problem.tests, compare=s.problem.compare) for s in solved]
    with Verifier(workers=2, time_limit=2.0) as verifier:
        verdicts = verifier.verify_many(jobs)
    failed = [
        solution.problem.id
        for solution, verdict in zip(solved, verdicts, strict=True)
        if verdict.reward != 1
    ]
    assert failed == ["mbpp/40"]  # it prints a Counter, which is no literal


def test_real_references_that_return_a_match_pass_their_asserts(real_data):
    path = real_data("mbpp/mbpp.jsonl")
    loaded = load_benchmark("mbpp", file=path, options={"form": "asserts"})
    named = {f"mbpp/{number}" for number in (737, 787, 794)}
    with Verifier(workers=2) as verifier:
        rewards = [
            verifier.verify_many([problem_job(s.solution, s.problem)])[0].reward
            for s in loaded.solved
            if s.problem.id in named
        ]
    assert rewards == [1.0] * 3
