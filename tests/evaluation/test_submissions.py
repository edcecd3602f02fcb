import json
import re

import pytest

from maxatk.errors import DataError, MissingFileError
from maxatk.evaluation import read_submissions
from maxatk.evaluation.submissions import answer_of
from maxatk.records import Problem, Sample, TestCase
from maxatk.verifier.extract import Refusal

PROBLEMS = {
    name: Problem(name, f"def {name[-1]}(x):\n", (TestCase(call=f"{name[-1]}(1)", output="1"),))
    for name in ("HumanEval/a", "HumanEval/b")
}

ONE = Problem("mbpp/1", "x", PROBLEMS["HumanEval/a"].tests)
OWN = {"problem_id": "HumanEval/a", "sample": 0, "completion": ""}


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


def test_ids_may_be_integers_and_samples_without_numbers_are_counted(tmp_path):
    problems = {name: Problem(name, "x", PROBLEMS["HumanEval/a"].tests) for name in ("1", "2")}
    rows = [
        {"problem_id": 1, "completion": "a", "tokens": 3},
        {"problem_id": "2", "completion": ""},
    ]
    path = write(tmp_path, *rows, {"problem_id": 1, "completion": "b"})
    samples = [submission.sample for submission in read_submissions(path, problems)]
    assert samples == [Sample("1", 0, "a", tokens=3), Sample("2", 0, ""), Sample("1", 1, "b")]
    (mbpp,) = read_submissions(write(tmp_path, {"task_id": 1, "completion": "a"}), {"mbpp/1": ONE})
    assert mbpp.sample.problem_id == "mbpp/1"
    mixed = [{"problem_id": 1, "completion": "a"}, {"problem_id": 1, "sample": 0, "completion": ""}]
    with pytest.raises(DataError, match=r"sample 0 of '1' occurs twice"):
        read_submissions(write(tmp_path, *mixed), problems)


def test_a_completion_that_stands_elsewhere_needs_no_reward(tmp_path):
    rows = [{"task": "HumanEval/a", "response": "print(1)"}]
    mapping = {"problem_id": "task", "completion": "response"}
    (only,) = read_submissions(write(tmp_path, *rows), PROBLEMS, mapping=mapping)
    assert (only.sample, only.program) == (Sample("HumanEval/a", 0, "print(1)"), "print(1)")
    with pytest.raises(DataError, match="--map problem_id=FIELD completion=FIELD"):
        read_submissions(write(tmp_path, *rows), PROBLEMS)


def test_human_eval_completions_continue_the_prompt(tmp_path):
    rows = [
        {"task_id": "HumanEval/a", "completion": "    return x\n"},
        {"task_id": "HumanEval/b", "completion": "    return 0\n"},
        {"task_id": "HumanEval/a", "completion": "    return 2\n"},
    ]
    submissions = read_submissions(write(tmp_path, *rows), PROBLEMS)
    samples = [submission.sample for submission in submissions]
    assert [(sample.problem_id[-1], sample.sample) for sample in samples] == [
        ("a", 0),
        ("b", 0),
        ("a", 1),
    ]
    assert submissions[2].program == "def a(x):\n    return 2\n"
    assert submissions[2].sample.completion == "    return 2\n"


def test_a_completion_continues_the_starter_code_of_a_prompt_in_words(tmp_path):
    problem = Problem("HumanEval/a", "Write a.", entry_point="a", starter_code="def a(x):\n")
    rows = [
        {"task_id": "HumanEval/a", "completion": "    return x\n"},
        {"task_id": "HumanEval/a", "completion": "```python\ndef a(x):\n    return 1\n```"},
    ]
    submissions = read_submissions(write(tmp_path, *rows), {"HumanEval/a": problem})
    programs = [submission.program.strip() for submission in submissions]
    assert programs == ["def a(x):\n    return x", "def a(x):\n    return 1"]


@pytest.mark.parametrize("token", ["<|endoftext|>", "<|im_end|>", "</s>"])
def test_special_tokens_behind_a_continuation_are_cut_off(tmp_path, token):
    rows = [{"task_id": "HumanEval/a", "completion": f"    return x\n{token}"}]
    submissions = read_submissions(write(tmp_path, *rows), PROBLEMS)
    assert submissions[0].program == "def a(x):\n    return x\n"
    assert submissions[0].sample.completion == f"    return x\n{token}"


def test_a_continuation_that_never_stops_thinking_is_no_program(tmp_path):
    rows = [{"task_id": "HumanEval/a", "completion": "<think>\n    return x\n"}]
    (submission,) = read_submissions(write(tmp_path, *rows), PROBLEMS)
    assert (submission.program, submission.refused) == ("", Refusal("unfinished_thought"))


def test_evalplus_solutions_are_whole_programs(tmp_path):
    rows = [{"task_id": "HumanEval/a", "solution": "def a(x): return x", "completion": "no"}]
    (submission,) = read_submissions(write(tmp_path, *rows), PROBLEMS)
    assert submission.program == submission.sample.completion == "def a(x): return x"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"task_id": "HumanEval/c", "completion": ""}, "unknown problem 'HumanEval/c'.*did you"),
        ({"completion": ""}, r"missing field 'problem_id' \(or 'task_id' of other tools\)"),
        ({"task_id": "HumanEval/a", "text": ""}, "missing field 'completion' or 'solution'"),
        ({"problem_id": "HumanEval/a", "sample": 0}, "missing field 'completion'"),
        ({"problem_id": "HumanEval/a", "sample": "0", "completion": ""}, "must be int, got '0'"),
        ({"problem_id": "HumanEval/a", "sample": True, "completion": ""}, "must be int, got True"),
        ({"problem_id": "HumanEval/a", "sample": -1, "completion": ""}, "must be an integer"),
        (
            {"problem_id": "HumanEval/a", "sample": 0, "completion": None},
            "must be str, got nothing",
        ),
        ({**OWN, "problem_id": 3.5}, "field 'problem_id': must be text or an integer, got 3.5"),
        ({**OWN, "problem_id": 3}, "sample of an unknown problem '3'"),
        ({"task_id": None, "completion": ""}, "field 'task_id': must be text or an integer, got"),
        ({"task_id": "HumanEval/a", "solution": 7}, "field 'solution': must be text, got 7"),
        ({**OWN, "tokens": "9"}, "sample.tokens: must be int, got '9'"),
        (
            {**OWN, "entropy": float("nan")},
            "sample: 'entropy' must be a finite number of at most .*, got nan",
        ),
        ({**OWN, "logprob": True}, "sample.logprob: must be float, got True"),
        ({**OWN, "finish_reason": 1}, "sample.finish_reason: must be str, got 1"),
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


def test_an_id_without_its_benchmark_names_one_problem_or_none(tmp_path):
    problems = {name: Problem(name, "p") for name in ("a/1", "b/1", "b/2")}
    (submission,) = read_submissions(write(tmp_path, {"task_id": "2", "completion": ""}), problems)
    assert submission.sample.problem_id == "b/2"
    with pytest.raises(DataError, match="unknown problem '1'"):
        read_submissions(write(tmp_path, {"task_id": "1", "completion": ""}), problems)


def test_missing_file(tmp_path):
    with pytest.raises(MissingFileError, match="no such file"):
        read_submissions(tmp_path / "none.jsonl", PROBLEMS)


def test_every_bad_line_is_named_at_once(tmp_path):
    good = json.dumps({"task_id": "HumanEval/a", "solution": ""}).encode()
    bad = {
        2: (b"{", "broken JSON: Expecting property name"),
        4: (b'"text"', "must be a JSON object, got str"),
        5: (b'{"task_id": "HumanEval/a", "solution": "\xff"}', "not UTF-8: invalid start byte"),
        7: (b'{"task_id": "HumanEval/a"}', "missing field 'completion' or 'solution'"),
        8: (b"[" * 100_000, "broken JSON"),
    }
    path = tmp_path / "samples.jsonl"
    path.write_bytes(b"\r\n".join(bad[n][0] if n in bad else good for n in range(1, 10)))
    with pytest.raises(DataError) as caught:
        read_submissions(path, PROBLEMS)
    heading, *lines = str(caught.value).splitlines()
    assert heading == f"{path}: 5 bad lines:"
    assert [int(line.split(":")[1]) for line in lines] == list(bad)
    for line, (_, message) in zip(lines, bad.values(), strict=True):
        assert message in line


def test_no_more_than_fifty_bad_lines_are_printed(tmp_path):
    rows = [{"task_id": f"HumanEval/{i}", "completion": ""} for i in range(2000)]
    with pytest.raises(DataError) as caught:
        read_submissions(write(tmp_path, *rows), PROBLEMS)
    heading, *lines = str(caught.value).splitlines()
    assert re.search(r"2,000 bad lines, the first 50:$", heading)
    assert len(lines) == 50


def test_blank_lines_are_skipped_and_counted(tmp_path):
    path = write(tmp_path, {"task_id": "HumanEval/a", "solution": ""}, {})
    path.write_text("\n  \n" + path.read_text())
    with pytest.raises(DataError, match=r"samples\.jsonl:4: "):
        read_submissions(path, PROBLEMS)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"7 so \boxed{ 12 } pens", "12"),
        ("3+4=7\n8.5", "8.5"),
        (" Paris ", "Paris"),
        ("It costs $1,000.", "1000"),
        ("It costs $2,000.50 in all", "2000.50"),
        ("between 1,2 and 12,3456", "3456"),
        ("so 1/4", "1/4"),
        ("The answer is .5", "0.5"),
        ("so x = -.5.", "-0.5"),
        ("as in section.5", "5"),
        ("so 3/4", "3/4"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\frac{3}{2}}, as in figure 2", r"\frac{3}{2}"),
        (r"\boxed{12,000}", "12000"),
        (r"\boxed{(1,200)}", "(1,200)"),
        (r"\boxed{3} and \boxed{5}", "3, 5"),
        (r"7 and \boxed{}", "7"),
        ("", ""),
    ],
)
def test_an_answer_is_boxed_or_the_last_number_or_the_text(text, answer):
    assert answer_of(text) == answer
