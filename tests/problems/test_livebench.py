import pytest

from maxatk.problems.benchmarks.livebench import convert
from maxatk.records import TestCase
from maxatk.verifier import Verifier, extract_code
from problems.rows import lcb_call_row, livebench_row

COMPLETION = livebench_row("coding_completion")

NAME = "livebench"


def test_a_generation_row_is_a_problem_of_livecodebench():
    problem = convert(livebench_row()).problem
    assert (problem.id, problem.compare, problem.source) == (
        "livebench/0123abcd",
        "lcb",
        "livebench",
    )
    assert problem.tests == (TestCase(input="1 2\n", output="3\n"),) * 2
    assert problem.starter_code is None


def test_a_functional_row_gets_the_starter_of_its_original():
    call = lcb_call_row()
    problem = convert(
        livebench_row(
            public_test_cases=call["public_test_cases"],
            private_test_cases=call["private_test_cases"],
            original_json=call,
        )
    ).problem
    assert problem.tests[0].call == "Solution().pair([1, 2], 'a')"
    assert "from typing import Dict, List" in problem.prompt


def test_a_completion_asks_for_the_whole_program_and_its_own_solution_passes():
    solved = convert(COMPLETION)
    assert solved.problem.starter_code == "numbers = input().split()"
    assert "the given lines included" in solved.problem.prompt
    assert "```python\nnumbers = input().split()\n```" in solved.problem.prompt
    answer = f"Here it is:\n```python\n{solved.solution}\n```"
    with Verifier(workers=1) as verifier:
        program = extract_code(answer)
        assert verifier.verify(program, solved.problem.tests, compare="lcb").reward == 1


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"task": "agentic_coding"}, "its task is 'agentic_coding'"),
        ({"partial_solution": ""}, "it is a completion without a given part"),
        ({"public_test_cases": "[]", "private_test_cases": "[]"}, "has no tests"),
    ],
)
def test_rows_without_a_task_or_tests_are_left_out(changed, reason):
    assert convert({**COMPLETION, **changed}).reason == reason
