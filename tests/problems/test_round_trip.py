"""Problem -> problems.jsonl -> Problem is the identity."""

import dataclasses

from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from maxatk import load_problems
from maxatk.jsonl import write_jsonl
from maxatk.records import Problem, TestCase

# Any text there is: also lone surrogates, control characters and the line ends of Unicode.
TEXT = st.text(st.characters(exclude_categories=()), max_size=60)
PROMPT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)  # surrogates are refused
HUGE = "\u2028\u00e9\n" * 400_000
TESTS = st.one_of(
    st.builds(TestCase, input=TEXT, output=TEXT),
    st.builds(TestCase, call=TEXT, output=TEXT),
    st.builds(TestCase, check=TEXT),
)
MAYBE_TEXT = st.none() | TEXT
PROBLEMS = st.builds(
    Problem,
    id=st.text(min_size=1, max_size=20),
    prompt=PROMPT,
    tests=st.lists(TESTS, min_size=1, max_size=5).map(tuple),
    entry_point=MAYBE_TEXT,
    starter_code=MAYBE_TEXT,
    time_limit_s=st.none() | st.floats(min_value=1e-3, max_value=1e6),
    memory_limit_mb=st.none() | st.integers(1, 1 << 30),
    compare=st.none() | st.sampled_from(["tokens", "lcb", "literal"]),
    source=MAYBE_TEXT,
)


def with_checker(problem):
    return dataclasses.replace(problem, compare="checker", checker="print(1)\r\n\x00")


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        PROBLEMS | PROBLEMS.map(with_checker), min_size=1, max_size=4, unique_by=lambda p: p.id
    )
)
@example([Problem("huge", HUGE, (TestCase(input=HUGE, output=HUGE),) * 2)])
@example([Problem("empty", "", (TestCase(input="", output=""), TestCase(check="")), checker=None)])
@example([Problem("many", "p", tuple(TestCase(input=str(n), output="") for n in range(20_000)))])
def test_problems_survive_their_file(tmp_path, problems):
    path = tmp_path / "problems.jsonl"
    write_jsonl(path, (problem.to_json() for problem in problems))
    assert load_problems(path) == problems
    again = tmp_path / "again.jsonl"
    write_jsonl(again, (problem.to_json() for problem in load_problems(path)))
    assert again.read_bytes() == path.read_bytes()
