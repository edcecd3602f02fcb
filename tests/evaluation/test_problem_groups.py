"""Results of some of a run's problems: their numbers are of these problems and not of the run."""

import json
import math

import pytest

from maxatk.evaluation.problem_groups import only_problems
from maxatk.jsonl import write_jsonl
from maxatk.records import Outcome, Problem, Score
from runs import write_run

REASON = "own raised ValueError"


@pytest.fixture
def results(tmp_path):
    """A run of three problems: of p one sample is unscored, of q one has a 0 for its failure."""
    rewards = {"p": [1.0, None, 0.5], "q": [0.0, 1.0, 1.0], "r": [0.0, 0.0, 1.0]}
    scores = [
        Score(
            *(name, i, reward, 0, 0),
            outcome=Outcome.SCORED if reward is not None else Outcome.NO_REWARD,
            seconds=0.0,
            error=REASON if (name, i) == ("q", 0) else None,
        )
        for name, of_problem in rewards.items()
        for i, reward in enumerate(of_problem)
    ]
    return write_run(tmp_path / "run", scores)


def test_samples_without_a_reward_are_counted_of_the_problems_alone(results):
    assert (results.counts.unscored, results.counts.zeroed) == (1, 1)
    counts = only_problems(results, ["p"]).counts
    assert (counts.problems, counts.samples, counts.unscored, counts.zeroed) == (1, 3, 1, 0)
    assert counts.lacking == "1 of 3 samples (33.3%) has no reward and is left out"
    counts = only_problems(results, ["r", "q"]).counts
    assert (counts.problems, counts.samples, counts.unscored, counts.zeroed) == (2, 6, 0, 1)
    assert only_problems(results, ["r"]).counts.lacking == ""
    whole = only_problems(results, ["p", "q", "r"])
    assert whole.counts == results.counts
    assert REASON in whole.counts.lacking


def test_rows_by_a_field_count_what_lacks_in_each_value(maxatk, tmp_path):
    problems = [Problem(name, "x", meta={"level": level}) for name, level in (("p", 1), ("q", 2))]
    write_jsonl(tmp_path / "p.jsonl", [problem.to_json() for problem in problems])
    (tmp_path / "r.csv").write_text("problem_id,reward\np,1\np,\nq,1\nq,0\n")
    command = ("score", "--rewards", "r.csv", "--problems", "p.jsonl", "--by", "level", "--k", "1")
    done = maxatk(*command, "--out", "run", "--output-format", "json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["by"]
    assert {row["value"]: row["unscored"] for row in rows} == {"1": 1, "2": 0}
    shown = maxatk(*command, "--out", "run").stdout
    assert "95% intervals over the problems of a level" in " ".join(shown.split())


def test_fields_that_hold_no_number_are_kept_as_null_and_counted_as_none(maxatk, tmp_path):
    levels = {"p": 1.5, "q": math.nan, "r": None, "s": math.inf}
    problems = [Problem(name, "x", meta={"level": level}) for name, level in levels.items()]
    write_jsonl(tmp_path / "p.jsonl", [problem.to_json() for problem in problems])
    (tmp_path / "r.csv").write_text("problem_id,reward\np,1\nq,1\nr,1\ns,0\n")
    command = ("score", "--rewards", "r.csv", "--problems", "p.jsonl", "--by", "level")
    done = maxatk(*command, "--out", "run", "--output-format", "json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["by"]
    numbers = {(row["value"], row["problems"]) for row in rows if row["metric"] == "max@k"}
    assert numbers == {("1.5", 1), ("(none)", 3)}
