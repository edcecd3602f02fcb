import pytest

from maxatk.problems.benchmarks.base import LeftOut
from maxatk.problems.benchmarks.codeforces import convert
from maxatk.problems.overlap import contest_keys
from maxatk.records import TestCase
from problems.rows import codeforces_row, contest_row

CHECKER = "import sys\nprint(1)\n"


def test_a_row_becomes_a_problem_with_its_limits_and_whole_statement():
    problem = convert(codeforces_row()).problem
    assert problem.id == "codeforces/2050/A"
    assert problem.tests[0] == TestCase(input="3\n", output="1 2\n")
    assert (problem.time_limit_s, problem.memory_limit_mb, len(problem.tests)) == (2.0, 256, 2)
    assert (problem.compare, problem.checker) == (None, None)
    parts = [
        "# Any two",
        "Find two",
        "## Input\n\nOne",
        "## Output\n\nTwo",
        "## Example",
        "## Note",
    ]
    places = [problem.prompt.index(part) for part in parts]
    assert places == sorted(places)


def test_a_generated_checker_decides():
    problem = convert(codeforces_row(generated_checker=CHECKER)).problem
    assert (problem.compare, problem.checker) == ("checker", CHECKER)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"input_mode": "file"}, "its input mode is 'file', not stdio"),
        ({"interaction_format": "Ask."}, "is interactive"),
        ({"executable": False}, "is not executable"),
        ({"official_tests": []}, "has no official tests"),
        ({"generated_checker": "int main() {}"}, "its checker is not in Python"),
    ],
)
def test_rows_that_cannot_be_verified_are_left_out(changed, reason):
    assert convert(codeforces_row(**changed)) == LeftOut("codeforces/2050/A", reason)


@pytest.mark.parametrize(
    ("row", "keys"),
    [
        (codeforces_row(), {("2050", "A")}),
        (
            codeforces_row("2050/B1", aliases=["2049/D", "2051/f2"]),
            {("2050", "B1"), ("2049", "D"), ("2051", "F2")},
        ),
        (codeforces_row(id="codeforces/2050/A", contest_id=None), {("2050", "A")}),
        (codeforces_row(aliases=["gym"]), {("2050", "A")}),
    ],
)
def test_the_keys_of_a_row_are_its_id_and_its_aliases(row, keys):
    assert contest_keys(row) == keys


@pytest.mark.parametrize(
    ("row", "keys"),
    [
        (contest_row(), {("1", "A")}),
        (contest_row("1041_E. Tree", cf_contest_id=0, cf_index=""), {("1041", "E")}),
        (
            contest_row("1041_F2. Tree", cf_contest_id=1042, cf_index="c"),
            {("1041", "F2"), ("1042", "C")},
        ),
        (contest_row("p00001 sum", cf_contest_id=0, cf_index=""), set()),
        ({"id": "code_contests/7_C. Sum", "prompt": "", "tests": []}, {("7", "C")}),
    ],
)
def test_the_keys_of_a_contest_come_from_its_columns_and_its_name(row, keys):
    assert contest_keys(row) == keys
