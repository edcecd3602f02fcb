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


def test_a_check_may_call_the_entry_point_by_its_own_name():
    row = humaneval_row(
        prompt='def helper(x):\n    return x\n\n\ndef four_times(x):\n    """Four times x."""\n',
        canonical_solution="    return 4 * x\n",
        test="def check(candidate):\n"
        "    assert tuple([candidate(2)]) == tuple([four_times(helper(2))])\n"
        "    assert four_times(3) == 12\n",
    )
    solved = convert(row)
    assert verdict_of(solved.solution, solved.problem).reward == 1
    wrong = verdict_of("def four_times(x):\n    return 2 * x\n", solved.problem)
    assert str(wrong.outcome) == "wrong_answer"
    assert "assert four_times(3) == 12" in wrong.tests[0].stderr


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
