import json
import re

import pytest

from maxatk.errors import DataError
from maxatk.jsonl import write_jsonl
from maxatk.records import Outcome, Sample, Score
from maxatk.report import load_comparison, write_report
from maxatk.report.load_runs import Reading
from maxatk.report.problem_details import MOST_TEXT, problem_details, rewards_text
from runs import write_run

REWARDS = [0.5, 1.0, None, 0.0, 0.5]
IDS = ["p<0>", "p1"]


@pytest.fixture
def folder(tmp_path):
    """A run with five samples of two problems."""
    keys = [(problem_id, i) for problem_id in IDS for i in range(len(REWARDS))]
    samples = [Sample(*key, f"<{key[0]}> {key[1]} \ud800", tokens=3) for key in keys]
    scores = []
    for key in keys:
        reward = REWARDS[key[1]]
        outcome = {None: Outcome.INFRA_ERROR, 1.0: Outcome.PASSED}.get(reward, Outcome.TIME_LIMIT)
        scores.append(Score(*key, reward, round(2 * (reward or 0)), 2, outcome, 0.0))
    write_run(tmp_path / "run", scores, samples)
    write_prompts(tmp_path / "run", "p<0>", "What is <b>?")
    return tmp_path / "run"


def write_prompts(folder, name, prompt):
    write_jsonl(folder / "prompts.jsonl", [{"problem_id": name, "prompt": prompt}])


def test_rewards_are_sorted_and_samples_spread_from_best_to_worst(folder):
    first, second = problem_details(load_comparison({"run": folder}))
    assert (first.prompt, second.prompt) == ("What is <b>?", None)
    (run,) = first.runs
    assert run.rewards == "1.000 × 1, 0.500 × 2, 0.000 × 1, unscored × 1"
    assert [sample.index for sample in run.samples] == [1, 4, 2]
    assert [sample.verdict for sample in run.samples] == [
        "reward 1.000, 2 of 2 tests, passed",
        "reward 0.500, 1 of 2 tests, time limit",
        "unscored, 0 of 2 tests, infra error",
    ]
    assert run.samples[0].text == "<p<0>> 1 ?"


@pytest.mark.parametrize(("count", "indices"), [(1, [1]), (2, [1, 2]), (9, [1, 0, 4, 3, 2])])
def test_any_number_of_samples(folder, count, indices):
    (first, _) = problem_details(load_comparison({"run": folder}), samples=count)
    assert sorted(sample.index for sample in first.runs[0].samples) == sorted(indices)


@pytest.mark.parametrize("count", [1, 3, 5])
def test_a_sample_without_a_reward_comes_after_the_lowest_reward(tmp_path, count):
    rewards = [-5.0, None, -2.0, -3.5, -4.0]
    scores = [Score("p", i, reward, 0, 0, Outcome.SCORED, 0.0) for i, reward in enumerate(rewards)]
    write_run(tmp_path, scores)
    (problem,) = problem_details(load_comparison({"run": tmp_path}), samples=count)
    indices = [sample.index for sample in problem.runs[0].samples]
    assert indices[0] == 2
    assert 1 not in indices[:-1]


def test_the_rewards_of_samples_are_those_of_the_column_of_the_run(tmp_path):
    scores = [
        Score("p", i, i / 2, 0, 0, Outcome.SCORED, 0.0, columns={"judge": judge})
        for i, judge in enumerate((0.9, 0.3, 0.6))
    ]
    write_run(tmp_path, scores)
    (problem,) = problem_details(load_comparison({"run": tmp_path}, Reading(column="judge")))
    (run,) = problem.runs
    assert run.rewards == "0.900 × 1, 0.600 × 1, 0.300 × 1"
    assert [sample.index for sample in run.samples] == [0, 2, 1]
    assert run.samples[0].verdict == "reward 0.900, scored"


def test_rewards_are_counted_as_they_are_printed_and_many_of_them_together():
    assert rewards_text([0.12341, 0.12349, None, 1.0, 1]) == "1.000 × 2, 0.123 × 2, unscored × 1"
    many = [place / 100 for place in range(100)]
    assert rewards_text(many) == (
        "0.990 × 1, 0.980 × 1, 0.970 × 1, 0.960 × 1, 0.950 × 1, 0.940 × 1, 88 between, "
        "0.050 × 1, 0.040 × 1, 0.030 × 1, 0.020 × 1, 0.010 × 1, 0.000 × 1"
    )
    assert "between" not in rewards_text(many[:12])


def test_without_texts_the_verdicts_are_shown(folder):
    (folder / "samples.jsonl").unlink()
    (first, _) = problem_details(load_comparison({"run": folder}))
    assert [sample.text for sample in first.runs[0].samples] == [None] * 3


def test_runs_that_are_no_folders_have_no_details(folder):
    results = json.loads((folder / "results.json").read_text())
    assert problem_details(load_comparison({"run": results})) == []
    assert problem_details(load_comparison({"run": folder / "results.json"})) == []


def test_long_texts_are_cut(folder):
    write_prompts(folder, "p1", "x" * 10 * MOST_TEXT)
    (_, second) = problem_details(load_comparison({"run": folder}))
    assert second.prompt == "x" * MOST_TEXT + " …"


def test_the_page_holds_them_as_data(folder, tmp_path):
    def details(samples):
        path = tmp_path / "r.html"
        page = write_report({"run": folder}, path, samples=samples).read_text()
        return json.loads(re.search(r'id="problem-data">(.*?)</script>', page)[1])["details"]

    first, second = details(3)
    assert (first["prompt"], list(second)) == ("What is <b>?", ["runs"])
    assert first["runs"][0]["samples"][0]["verdict"] == "reward 1.000, 2 of 2 tests, passed"
    assert details(0) == []


@pytest.mark.parametrize("reward", [10**400, float("inf"), float("nan"), "x"])
def test_a_reward_that_is_no_finite_number_is_named_with_its_line(folder, reward):
    path = folder / "scores.jsonl"
    first, *other_lines = path.read_text().splitlines()
    damaged = json.dumps({**json.loads(first), "reward": reward})
    path.write_text("\n".join([damaged, *other_lines]) + "\n")
    message = (
        r"scores\.jsonl:1: score\.reward: (must be (a finite number|float)|Number out of range)"
    )
    with pytest.raises(DataError, match=message):
        problem_details(load_comparison({"run": folder}))
