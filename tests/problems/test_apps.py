import json

import pytest

from maxatk.errors import InvalidValueError
from maxatk.problems import load_benchmark
from maxatk.problems.benchmarks.apps import Options, convert
from maxatk.records import TestCase
from maxatk.verifier import Verifier, problem_job
from problems.rows import apps_row, selected_apps_row


def with_tests(**declared):
    return apps_row(input_output=json.dumps(declared))


def test_a_stdin_row_of_the_hub():
    solved = convert(apps_row())
    assert solved.problem.id == "apps/4000"
    assert solved.problem.tests == (TestCase(input="1 2\n", output="3\n"),)
    assert solved.solution.startswith("print(sum")


def test_inputs_may_be_lists_of_lines():
    problem = convert(with_tests(inputs=[["1", "2"]], outputs=[["3"]])).problem
    assert problem.tests == (TestCase(input="1\n2\n", output="3\n"),)


@pytest.mark.parametrize(
    ("starter", "call"),
    [
        ("", "add([1], 'x')"),
        ("class Solution:\n    def add(self, xs, s):", "Solution().add([1], 'x')"),
    ],
)
def test_a_function_of_the_hub_becomes_calls(starter, call):
    declared = {"fn_name": "add", "inputs": [[[1], "x"]], "outputs": [["x1"]]}
    row = apps_row(input_output=json.dumps(declared), starter_code=starter)
    assert convert(row).problem.tests == (TestCase(call=call, output="'x1'"),)


def test_values_that_json_has_changed_are_those_of_a_function_again():
    declared = {
        "fn_name": "f",
        "inputs": [[{"1": "a", "-2": "b"}, 1], [{"1": "a", "x": "b"}, 1], [{}, 2]],
        "outputs": [[["a", 1]], [["a b", 1]], [{"3": 4}]],
    }
    starter = "def f(names, n):\n\t"
    problem = convert(apps_row(input_output=json.dumps(declared), starter_code=starter)).problem
    program = (
        "def f(names, n):\n    if not names: return {3: 4}\n"
        "    return names[1] if 1 in names else ' '.join(names.values()), n"
    )
    with Verifier(workers=1) as verifier:
        assert verifier.verify_many([problem_job(program, problem)])[0].reward == 1.0


def test_a_selected_row_is_used_when_it_reads_standard_input():
    assert convert(selected_apps_row()).problem.tests == (TestCase(input="1 2", output="3"),)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (with_tests(), "has no tests"),
        (apps_row(input_output=""), "has no tests"),
        (with_tests(fn_name="f", inputs=[[float("nan")]], outputs=[1]), "a value has no literal"),
        (apps_row(input_output=f'{{"inputs": [{"7" * 60_000}]}}'), "more than 50,000 digits"),
        (selected_apps_row(starter_code="def f(x):"), "its call arguments are text"),
        (selected_apps_row(test_list=[]), "has no tests"),
        (selected_apps_row(test_list=[{"input": "1", "output": ["1", "2"]}]), "several outputs"),
    ],
)
def test_rows_that_cannot_be_verified_are_left_out(row, reason):
    assert reason in convert(row).reason


def test_a_difficulty_can_be_chosen():
    assert convert(apps_row(), Options(difficulty="interview")).reason == (
        "its difficulty is not interview"
    )
    with pytest.raises(InvalidValueError, match="difficulty: unknown value 'hard'; allowed: "):
        Options(difficulty="hard")


def test_real_rows(real_data):
    loaded = load_benchmark("apps", file=real_data("apps/apps_selected150.jsonl"))
    assert (len(loaded.solved), len(loaded.left_out)) == (52, 98)


@pytest.mark.parametrize(
    ("outputs", "program", "reward"),
    [
        # An output that is a list of one item is unwrapped where all of the row are.
        ([[1, 2, 4], [1]], "def f(n):\n    return [k for k in range(1, n + 1) if n % k == 0]", 1.0),
        ([[3], [1]], "def f(n):\n    return sum(n % k == 0 for k in range(1, n + 1))", 1.0),
        ([[[[0, 0]], [[1, 1]]], [[[0, 0]]]], "def f(n):\n    return [[(0, 0)], [(1, 1)]][:n]", 0.0),
        (
            [[[[0, 0], [1, 1]]], [[[0, 0]]]],
            "def f(n):\n    return [(0, 0), (1, 1)][: n - 2 or 1]",
            1.0,
        ),
        (
            [[[[0, 0], [1, 1]]], [[[0, 0]]]],
            "def f(n):\n    return ((0, 0), (1, 2))[: n - 2 or 1]",
            0.5,
        ),
    ],
)
def test_lists_of_one_item_and_tuples_are_what_the_official_grader_takes(outputs, program, reward):
    declared = {"fn_name": "f", "inputs": [[4], [1]], "outputs": outputs}
    problem = convert(apps_row(input_output=json.dumps(declared), starter_code="")).problem
    with Verifier(workers=1) as verifier:
        assert verifier.verify_many([problem_job(program, problem)])[0].reward == reward
