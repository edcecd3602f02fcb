import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxatk.errors import InvalidValueError
from maxatk.records import Outcome, Problem, Sample, Score, TestCase, TestResult, Verdict

text = st.text(max_size=20)
positive = st.floats(min_value=1e-3, max_value=1e6)
cases = st.one_of(
    st.builds(TestCase, input=text, output=text),
    st.builds(TestCase, call=text, output=text),
    st.builds(TestCase, check=text),
)
problems = st.builds(
    Problem,
    id=st.text(min_size=1, max_size=10),
    prompt=text,
    tests=st.lists(cases, max_size=3).map(tuple),
    visible_tests=st.lists(cases, max_size=2).map(tuple),
    answer=st.none() | text,
    meta=st.dictionaries(text, st.none() | text | st.integers() | st.lists(text), max_size=2),
    entry_point=st.none() | text,
    starter_code=st.none() | text,
    time_limit_s=st.none() | positive,
    memory_limit_mb=st.none() | st.integers(1, 1 << 20),
    compare=st.none() | text,
    source=st.none() | text,
    tolerance=st.none() | positive,
) | st.builds(
    Problem,
    id=st.just("p"),
    prompt=text,
    tests=st.just((TestCase(check=""),)),
    compare=st.just("checker"),
    checker=text,
)
counts = st.integers(0, (1 << 63) - 1)
LARGEST = 1e100  # in size, of any number of a record
numbers = st.floats(-LARGEST, LARGEST)
samples = st.builds(
    Sample,
    problem_id=text,
    sample=counts,
    completion=text,
    tokens=st.none() | counts,
    finish_reason=st.none() | text,
    logprob=st.none() | numbers,
    entropy=st.none() | numbers,
)
scores = st.builds(
    Score,
    problem_id=text,
    sample=counts,
    reward=st.none() | st.floats(0, 1),
    passed=counts,
    total=counts,
    outcome=st.sampled_from(Outcome),
    seconds=numbers,
    program=st.none() | st.text(min_size=1, max_size=20),
    columns=st.dictionaries(text, numbers, max_size=2),
)


@given(st.one_of(problems, samples, scores))
def test_every_record_survives_its_json_line(record):
    line = json.dumps(record.to_json())
    assert "\n" not in line
    assert type(record).from_json(json.loads(line)) == record


def test_only_fields_that_are_set_are_written_and_a_missing_reward_stays():
    problem = Problem("p", "do", (TestCase(input="1", output="2"),))
    tests = [{"input": "1", "output": "2"}]
    assert problem.to_json() == {"id": "p", "prompt": "do", "tests": tests}
    assert Sample("p", 0, "x").to_json() == {"problem_id": "p", "sample": 0, "completion": "x"}
    score = Score("p", 0, None, 0, 1, Outcome.INFRA_ERROR, 0.0)
    assert score.to_json()["reward"] is None
    assert score.to_json()["outcome"] == "infra_error"


def test_null_fields_of_a_test_count_as_absent():
    row = {"input": "1", "output": "2", "call": None, "check": None}
    assert TestCase.from_json(row) == TestCase(input="1", output="2")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"input": "1"},
        {"output": "1"},
        {"call": "f()"},
        {"input": "1", "call": "f()", "output": "2"},
        {"check": "def check(f): ...", "output": "2"},
    ],
)
def test_a_test_is_of_exactly_one_kind(fields):
    with pytest.raises(InvalidValueError, match="allowed: input and output"):
        TestCase(**fields)


def test_a_test_holds_text():
    with pytest.raises(InvalidValueError, match=r"TestCase\.output: must be a string, got 3"):
        TestCase(input="1", output=3)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"id": ""}, "id: must not be empty"),
        ({"id": "\udc80"}, "id: must be Unicode, got half of a surrogate pair: .*udc80"),
        ({"prompt": "a\ud800"}, "prompt: must be Unicode, got half of a surrogate pair"),
        ({"answer": [4]}, r"'p': answer: must be text or a number, got \[4\]"),
        ({"meta": ["hard"]}, r"'p': meta: must be an object, got \['hard'\]"),
        ({"time_limit_s": 0}, "'p': time_limit_s: must be a finite number above 0, got 0"),
        ({"time_limit_s": float("inf")}, "time_limit_s: must be a finite number above 0, got inf"),
        ({"entry_point": 3}, "'p': entry_point: must be text, got 3"),
        ({"time_limit_s": float("nan")}, "time_limit_s: must be a finite number above 0, got nan"),
        ({"tolerance": -1e-6}, "'p': tolerance: must be a finite number above 0, got -1e-06"),
        ({"memory_limit_mb": -1}, "'p': memory_limit_mb: must be a finite number above 0, got -1"),
    ],
)
def test_a_problem_refuses_values_that_make_no_sense(changed, message):
    with pytest.raises(InvalidValueError, match=message):
        dataclasses.replace(Problem("p", "", (TestCase(input="", output=""),)), **changed)


GOOD = {"id": "p", "prompt": "", "tests": [{"input": "", "output": ""}]}
BAD_ROWS = {
    "{}": "problem: missing field 'id'",
    '{"id": "p", "tests": []}': "problem: missing field 'prompt'",
    json.dumps({**GOOD, "promt": ""}): "unknown key 'promt'.*did you mean 'prompt'",
    json.dumps({**GOOD, "answer": True}): "'p': answer: must be text or a number, got True",
    json.dumps({**GOOD, "meta": "hard"}): "'p': meta: must be an object, got 'hard'",
    json.dumps({**GOOD, "visible_tests": 3}): "visible_tests: must be a list of objects",
    json.dumps({**GOOD, "tests": 3}): "tests: must be a list of objects",
    json.dumps({**GOOD, "tests": {"input": ""}}): "tests: must be a list of objects",
    json.dumps({**GOOD, "tests": [["input", "output"]]}): "tests: must be a list of objects",
    json.dumps({**GOOD, "tests": [{"inputs": "", "output": ""}]}): "did you mean 'input'",
    json.dumps({**GOOD, "id": 7}): "id: must be a string, got 7",
    json.dumps({**GOOD, "prompt": None}): "prompt: must be a string, got None",
    json.dumps({**GOOD, "id": None}): "id: must not be empty",
    json.dumps({**GOOD, "time_limit_s": "2"}): "must be a finite number above 0, got '2'",
}


@pytest.mark.parametrize(("row", "message"), BAD_ROWS.items())
def test_a_row_that_is_no_problem_is_refused(row, message):
    with pytest.raises(ValueError, match=message):
        Problem.from_json(json.loads(row))


def test_an_unknown_outcome_or_missing_field_of_a_score_is_refused():
    row = Score("p", 0, 1.0, 1, 1, Outcome.PASSED, 0.0).to_json()
    with pytest.raises(ValueError, match="great"):
        Score.from_json({**row, "outcome": "great"})
    with pytest.raises(InvalidValueError, match="score: missing field 'problem_id', got"):
        Score.from_json({"sample": 0})


def results(*outcomes):
    return Verdict(tuple(TestResult(outcome, cpu_seconds=0.25) for outcome in outcomes))


def test_a_verdict_counts_declared_tests():
    verdict = results(Outcome.PASSED, Outcome.TIME_LIMIT, Outcome.WRONG_ANSWER, Outcome.PASSED)
    assert (verdict.passed, verdict.total, verdict.reward) == (2, 4, 0.5)
    assert verdict.outcome is Outcome.TIME_LIMIT
    assert verdict.seconds == 1.0
    assert results(Outcome.PASSED).outcome is Outcome.PASSED


def test_a_failure_of_the_verifier_makes_the_verdict_unscorable_not_zero():
    verdict = results(Outcome.WRONG_ANSWER, Outcome.INFRA_ERROR)
    assert not verdict.scorable
    assert verdict.reward is None
    assert verdict.outcome is Outcome.INFRA_ERROR
    assert verdict.total == 2


def test_outcomes_print_as_their_names():
    assert f"{Outcome.WRONG_ANSWER}" == str(Outcome.WRONG_ANSWER) == "wrong_answer"


@pytest.mark.parametrize("fields", [{"compare": "checker"}, {"checker": "print(1)"}])
def test_a_checker_and_its_rule_go_together(fields):
    with pytest.raises(InvalidValueError, match="go together"):
        Problem(id="p", prompt="", tests=(TestCase(input="", output=""),), **fields)
