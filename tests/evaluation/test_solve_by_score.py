"""A sample is chosen without the tests that decide: by a real tiny model's own samples."""

import dataclasses
import json
from collections import Counter

import pytest

from maxatk.errors import InvalidValueError
from maxatk.evaluation import SamplingSettings, evaluate, score
from maxatk.evaluation.solve_by_score import choose
from maxatk.evaluation.submissions import program_key
from maxatk.jsonl import write_jsonl
from maxatk.records import Problem, Sample, TestCase
from maxatk.verifier import Verifier, extract_code

SETTINGS = SamplingSettings(max_new_tokens=4, seed=3)
VISIBLE = (TestCase(input="", output="1\n"), TestCase(input="x", output="2\n"))
PROBLEM = Problem(
    "p", "print(1)\n", (TestCase(input="", output="3\n"),), visible_tests=VISIBLE, answer="3"
)


@pytest.fixture(scope="module")
def verifier():
    with Verifier(workers=1) as opened:
        yield opened


@pytest.fixture(scope="module")
def drawn(tiny_model, verifier, tmp_path_factory):
    """The samples and scores of an evaluation with the same settings."""
    out = tmp_path_factory.mktemp("run")
    settings = dataclasses.replace(SETTINGS, samples=8)
    evaluate(tiny_model, [PROBLEM], out, settings=settings, verifier=verifier)
    return [
        [json.loads(line) for line in (out / name).read_text().splitlines()]
        for name in ("samples.jsonl", "scores.jsonl")
    ]


def chosen(tiny_model, verifier, by, problem=PROBLEM):
    return choose(tiny_model, problem, by, n=8, settings=SETTINGS, verifier=verifier)


def test_an_evaluation_stores_the_share_of_visible_tests(drawn):
    samples, scores = drawn
    for sample, row in zip(samples, scores, strict=True):
        printed = sample["completion"]
        if printed == "print(1)":
            assert row["columns"] == {"visible_tests": 0.5}
    assert all(row["columns"]["visible_tests"] in (0.0, 0.5) for row in scores)
    assert all(row["total"] == 1 for row in scores)


def test_the_likeliest_sample_and_that_of_most_visible_tests(tiny_model, verifier, drawn):
    samples, scores = drawn
    found = chosen(tiny_model, verifier, "likelihood")
    assert found.scores == pytest.approx([sample["logprob"] for sample in samples])
    assert found.score == max(found.scores)
    assert found.text == samples[found.sample]["completion"]
    visible = [row["columns"]["visible_tests"] for row in scores]
    found = chosen(tiny_model, verifier, "visible-tests")
    assert list(found.scores) == visible
    assert found.sample == visible.index(max(visible))


def test_the_program_that_most_samples_write(tiny_model, verifier, drawn):
    keys = [program_key(extract_code(sample["completion"])) for sample in drawn[0]]
    counts = Counter(keys)
    found = chosen(tiny_model, verifier, "majority")
    assert list(found.scores) == [counts[key] for key in keys]
    assert counts[keys[found.sample]] == max(counts.values())


def test_a_function_chooses_and_sees_no_answer_and_no_tests(tiny_model, verifier, tmp_path, drawn):
    (tmp_path / "own.py").write_text(
        "def longest(completions, answer, tests, **_):\n"
        "    assert set(answer) == {None} and not any(tests)\n"
        "    return [len(text) for text in completions]\n"
    )
    found = chosen(tiny_model, verifier, f"{tmp_path}/own.py:longest")
    assert list(found.scores) == [len(sample["completion"]) for sample in drawn[0]]


@pytest.mark.parametrize("by", ["oracle", "answer", "continuous"])
def test_the_oracle_does_not_choose(tiny_model, verifier, by):
    with pytest.raises(InvalidValueError, match=rf"select: got '{by}'; allowed: likelihood"):
        chosen(tiny_model, verifier, by)


def test_the_nearest_way_of_choosing_is_named(tiny_model, verifier):
    with pytest.raises(InvalidValueError, match="did you mean 'likelihood'"):
        chosen(tiny_model, verifier, "likelyhood")


def test_a_problem_without_visible_tests_is_refused(tiny_model, verifier):
    with pytest.raises(InvalidValueError, match="'p' has no visible_tests"):
        chosen(tiny_model, verifier, "visible-tests", Problem("p", "x"))


def test_the_command_solves_a_problem_without_tests(maxatk, tiny_model, tmp_path):
    (tmp_path / "prompt.txt").write_text("print(1)\n")
    done = maxatk(
        *("solve", "--model", tiny_model, "--prompt", "prompt.txt", "--select", "likelihood"),
        *(
            "-n",
            4,
            "--max-new-tokens",
            4,
            "--format",
            "json",
            "--progress",
            "none",
            "--verifier.workers",
            1,
        ),
    )
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["scores"]) == 4


def test_scored_samples_can_be_chosen_by_visible_tests(maxatk, verifier, tmp_path):
    programs = ["print(3)", "print(1)", "print(3 if not input() else 2)"]
    write_jsonl(
        tmp_path / "s.jsonl", (Sample("p", i, text).to_json() for i, text in enumerate(programs))
    )
    score(tmp_path / "s.jsonl", [PROBLEM], tmp_path / "run", verifier=verifier)
    done = maxatk("select", "run", "--by", "visible_tests", "--k", 3, "--format", "csv")
    rows = {line.split(",")[0]: line.split(",")[2] for line in done.stdout.splitlines()}
    assert float(rows["truth"]) == 1.0
    assert float(rows["visible_tests"]) == 0.0  # print(1) passes one of them, and is wrong
