import json

import pytest

from maxatk.errors import DataError, MissingFileError
from maxatk.evaluate import read_submissions
from maxatk.records import Problem, Sample, TestCase

PROBLEMS = {
    name: Problem(name, f"def {name[-1]}(x):\n", (TestCase(call=f"{name[-1]}(1)", output="1"),))
    for name in ("HumanEval/a", "HumanEval/b")
}


def write(tmp_path, *rows):
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_our_own_file(tmp_path):
    fenced = "Here:\n```python\nprint(1)\n```\n"
    rows = [
        {"problem_id": "HumanEval/a", "sample": 5, "completion": fenced, "other": 1},
        {"problem_id": "HumanEval/a", "sample": 2, "completion": "print(2)", "tokens": 3},
    ]
    first, second = read_submissions(write(tmp_path, *rows), PROBLEMS)
    assert first.program.strip() == "print(1)"
    assert first.sample == Sample("HumanEval/a", 5, fenced)
    assert second.sample.tokens == 3


def test_human_eval_completions_continue_the_prompt(tmp_path):
    rows = [
        {"task_id": "HumanEval/a", "completion": "    return x\n"},
        {"task_id": "HumanEval/b", "completion": "    return 0\n"},
        {"task_id": "HumanEval/a", "completion": "    return 2\n"},
    ]
    found = read_submissions(write(tmp_path, *rows), PROBLEMS)
    assert [(f.sample.problem_id[-1], f.sample.sample) for f in found] == [
        ("a", 0),
        ("b", 0),
        ("a", 1),
    ]
    assert found[2].program == "def a(x):\n    return 2\n"
    assert found[2].sample.completion == "    return 2\n"


def test_evalplus_solutions_are_whole_programs(tmp_path):
    rows = [{"task_id": "HumanEval/a", "solution": "def a(x): return x", "completion": "no"}]
    (found,) = read_submissions(write(tmp_path, *rows), PROBLEMS)
    assert found.program == found.sample.completion == "def a(x): return x"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"task_id": "HumanEval/c", "completion": ""}, "unknown problem 'HumanEval/c'.*did you"),
        ({"completion": ""}, "needs the field 'problem_id' or 'task_id'"),
        ({"task_id": "HumanEval/a", "text": ""}, "needs the text 'completion' or 'solution'"),
        ({"problem_id": "HumanEval/a", "sample": 0}, "missing field 'completion'"),
        ({"problem_id": "HumanEval/a", "sample": "0", "completion": ""}, "must be an integer"),
        ({"problem_id": "HumanEval/a", "sample": 0, "completion": None}, "must be text"),
    ],
)
def test_other_lines_are_refused_with_their_place(tmp_path, row, message):
    good = {"task_id": "HumanEval/a", "solution": ""}
    with pytest.raises(DataError, match=rf"samples\.jsonl:2: .*{message}"):
        read_submissions(write(tmp_path, good, row), PROBLEMS)


def test_a_sample_that_occurs_twice_is_refused(tmp_path):
    row = {"problem_id": "HumanEval/a", "sample": 0, "completion": ""}
    with pytest.raises(DataError, match=r":2: sample 0 of 'HumanEval/a' occurs twice"):
        read_submissions(write(tmp_path, row, row), PROBLEMS)


def test_missing_file(tmp_path):
    with pytest.raises(MissingFileError, match="no such file"):
        read_submissions(tmp_path / "none.jsonl", PROBLEMS)
