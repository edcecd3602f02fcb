import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.records import (
    Outcome,
    Problem,
    Sample,
    Score,
    TestCase,
    TestResult,
    Verdict,
    read_jsonl,
    write_jsonl,
)

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
    tests=st.lists(cases, min_size=1, max_size=3).map(tuple),
    entry_point=st.none() | text,
    starter_code=st.none() | text,
    time_limit_s=st.none() | positive,
    memory_limit_mb=st.none() | st.integers(1, 1 << 20),
    compare=st.none() | text,
    source=st.none() | text,
) | st.builds(
    Problem,
    id=st.just("p"),
    prompt=text,
    tests=st.just((TestCase(check=""),)),
    compare=st.just("checker"),
    checker=text,
)
numbers = st.floats(allow_nan=False, allow_infinity=False)
samples = st.builds(
    Sample,
    problem_id=text,
    sample=st.integers(0),
    completion=text,
    tokens=st.none() | st.integers(0),
    finish_reason=st.none() | text,
    logprob=st.none() | numbers,
    entropy=st.none() | numbers,
)
scores = st.builds(
    Score,
    problem_id=text,
    sample=st.integers(0),
    reward=st.none() | st.floats(0, 1),
    passed=st.integers(0),
    total=st.integers(1),
    outcome=st.sampled_from(Outcome),
    seconds=numbers,
    program=st.none() | text,
)


@given(st.one_of(problems, samples, scores))
def test_every_record_survives_its_json_line(record):
    line = json.dumps(record.to_json())
    assert "\n" not in line
    assert type(record).from_json(json.loads(line)) == record


@given(st.lists(problems, max_size=4))
def test_every_file_reads_back_as_written(tmp_path_factory, written):
    path = tmp_path_factory.mktemp("records") / "deep" / "problems.jsonl"
    write_jsonl(path, (problem.to_json() for problem in written))
    assert list(read_jsonl(path, Problem.from_json)) == written
    assert [p.name for p in path.parent.iterdir()] == [path.name]


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
        ({"tests": ()}, "'p': has no tests"),
        ({"time_limit_s": 0}, "'p': time_limit_s must be positive, got 0"),
        ({"time_limit_s": float("nan")}, "time_limit_s must be positive, got nan"),
        ({"memory_limit_mb": -1}, "'p': memory_limit_mb must be positive, got -1"),
    ],
)
def test_a_problem_refuses_values_that_make_no_sense(changed, message):
    with pytest.raises(InvalidValueError, match=message):
        dataclasses.replace(Problem("p", "", (TestCase(input="", output=""),)), **changed)


GOOD = {"id": "p", "prompt": "", "tests": [{"input": "", "output": ""}]}
BAD_LINES = {
    "{": "Expecting property name",
    "[1]": "must be a JSON object, got list",
    "null": "must be a JSON object, got NoneType",
    f"{json.dumps(GOOD)}, {json.dumps(GOOD)}": "Extra data",
    "{} {}": "Extra data",
    " {": "Expecting property name",
    "{}": "problem: missing field 'id'",
    '{"id": "p", "prompt": ""}': "problem: missing field 'tests'",
    json.dumps({**GOOD, "promt": ""}): "unknown field 'promt'.*did you mean 'prompt'",
    json.dumps({**GOOD, "tests": []}): "'p': has no tests",
    json.dumps({**GOOD, "tests": 3}): "tests: must be a list of objects",
    json.dumps({**GOOD, "tests": {"input": ""}}): "tests: must be a list of objects",
    json.dumps({**GOOD, "tests": [["input", "output"]]}): "tests: must be a list of objects",
    json.dumps({**GOOD, "tests": [{"inputs": "", "output": ""}]}): "did you mean 'input'",
    json.dumps({**GOOD, "id": 7}): "id: must be a string, got 7",
    json.dumps({**GOOD, "prompt": None}): "prompt: must be a string, got None",
    json.dumps({**GOOD, "time_limit_s": "2"}): "time_limit_s must be a number, got '2'",
}


@pytest.mark.parametrize(("line", "message"), BAD_LINES.items())
def test_a_bad_line_is_named_by_file_and_number(tmp_path, line, message):
    path = tmp_path / "problems.jsonl"
    path.write_text(f"{json.dumps(GOOD)}\n\n{line}\n")
    with pytest.raises(DataError, match=message) as caught:
        list(read_jsonl(path, Problem.from_json))
    assert str(caught.value).startswith(f"{path}:3: ")


def test_a_bad_line_is_named_in_a_file_of_many_blocks(tmp_path):
    path = tmp_path / "samples.jsonl"
    rows = [Sample("p", i, "x" * 1000).to_json() for i in range(1500)]
    write_jsonl(path, rows)
    lines = path.read_text().splitlines()
    lines[1200] = lines[1200][:-1]
    path.write_text("\n".join(lines))
    with pytest.raises(DataError, match=r"samples\.jsonl:1201: "):
        list(read_jsonl(path, Sample.from_json))
    lines[1200] += "}"
    path.write_text("\n".join(lines))
    assert [s.to_json() for s in read_jsonl(path, Sample.from_json)] == rows


def test_an_unknown_outcome_or_missing_field_of_a_score_is_refused(tmp_path):
    path = tmp_path / "scores.jsonl"
    row = Score("p", 0, 1.0, 1, 1, Outcome.PASSED, 0.0).to_json()
    for bad, message in (({**row, "outcome": "great"}, "great"), ({"sample": 0}, "problem_id")):
        path.write_text(json.dumps(bad))
        with pytest.raises(DataError, match=f":1: .*{message}"):
            list(read_jsonl(path, Score.from_json))


def test_a_missing_file_and_a_binary_file(tmp_path):
    with pytest.raises(MissingFileError, match=r"nowhere\.jsonl: no such file"):
        list(read_jsonl(tmp_path / "nowhere.jsonl", dict))
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="not a UTF-8 text file"):
        list(read_jsonl(tmp_path / "binary.jsonl", dict))


def test_a_failed_write_leaves_the_old_file_whole(tmp_path):
    path = tmp_path / "rows.jsonl"
    write_jsonl(path, [{"old": 1}])

    def rows():
        yield {"new": 1}
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_jsonl(path, rows())
    assert path.read_text() == '{"old": 1}\n'


def results(*outcomes):
    return Verdict(tuple(TestResult(outcome, cpu_seconds=0.25) for outcome in outcomes))


def test_a_verdict_counts_declared_tests():
    verdict = results(Outcome.PASSED, Outcome.TIME_LIMIT, Outcome.WRONG_ANSWER, Outcome.PASSED)
    assert (verdict.passed, verdict.total, verdict.reward) == (2, 4, 0.5)
    assert verdict.outcome is Outcome.TIME_LIMIT
    assert verdict.seconds == 1.0
    assert results(Outcome.PASSED).outcome is Outcome.PASSED


def test_a_failure_of_the_judge_makes_the_verdict_unscorable_not_zero():
    verdict = results(Outcome.WRONG_ANSWER, Outcome.INFRA_ERROR)
    assert not verdict.scorable
    assert verdict.reward is None
    assert verdict.outcome is Outcome.INFRA_ERROR
    score = Score.from_verdict(verdict, problem_id="p", sample=3)
    assert (score.reward, score.total, score.sample) == (None, 2, 3)


def test_outcomes_print_as_their_names():
    assert f"{Outcome.WRONG_ANSWER}" == str(Outcome.WRONG_ANSWER) == "wrong_answer"


@pytest.mark.parametrize("fields", [{"compare": "checker"}, {"checker": "print(1)"}])
def test_a_checker_and_its_rule_go_together(fields):
    with pytest.raises(InvalidValueError, match="go together"):
        Problem(id="p", prompt="", tests=(TestCase(input="", output=""),), **fields)
