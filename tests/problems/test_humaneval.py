import pytest

from maxatk.problems.benchmarks.base import RowOptions
from maxatk.problems.benchmarks.humaneval import convert
from maxatk.verifier import Job, Verifier
from problems.rows import humaneval_row


def verdict_of(program, problem):
    with Verifier(workers=1) as verifier:
        job = Job(program, problem.tests, entry_point=problem.entry_point)
        return verifier.verify_many([job])[0]


def test_the_original_check_runs_and_may_use_helpers_of_the_prompt():
    solved = convert(humaneval_row())
    assert (solved.problem.id, solved.problem.entry_point) == ("HumanEval/900", "four_times")
    assert verdict_of(solved.solution, solved.problem).reward == 1
    wrong = "def four_times(x):\n    return 2 * x\n"
    assert str(verdict_of(wrong, solved.problem).outcome) == "wrong_answer"


def test_a_prompt_may_end_in_a_function_without_a_body():
    solved = convert(
        humaneval_row(
            prompt="def four_times(x):\n    # four times\n",
            canonical_solution="    return 4 * x\n",
            test="def check(candidate):\n    assert candidate(2) == 8\n",
        )
    )
    assert verdict_of(solved.solution, solved.problem).reward == 1


def test_the_plain_prompt_is_the_original_one():
    row = humaneval_row()
    assert convert(row, RowOptions(prompt_style="plain")).problem.prompt == row["prompt"]
    chat = convert(row).problem
    assert row["prompt"].rstrip() in chat.prompt
    assert chat.starter_code == row["prompt"]


@pytest.mark.parametrize("changed", [{"test": "def check("}, {"prompt": "four times, please"}])
def test_rows_that_are_not_python_are_left_out(changed):
    left_out = convert(humaneval_row(**changed))
    assert left_out.reason == "its prompt or its test is not Python 3"
