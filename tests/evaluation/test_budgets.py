"""max@k and pass@k of what rollouts reach within T turns, against enumeration."""

import itertools
import json
import random

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from maxatk.cli.main import main
from maxatk.errors import InvalidValueError
from maxatk.evaluation.budgets import read_budget
from maxatk.evaluation.external_rewards import read_rewards
from maxatk.evaluation.load import load_results
from maxatk.jsonl import write_jsonl
from maxatk.report.model_comparison import CompareOptions, compare
from maxatk.statistics.significance import adjusted_p_values, paired_difference


def rollouts(seed, *, problems=4, samples=5):
    """Rewards after each turn of every rollout of every problem."""
    generator = random.Random(seed)
    return [
        [
            [generator.choice([0.0, 0.25, 0.5, 1.0]) for _ in range(generator.randint(1, 6))]
            for _ in range(samples)
        ]
        for _ in range(problems)
    ]


def rows_of(drawn, *, start=1):
    return [
        {"problem_id": f"p{p}", "rollout": r, "turn": start + t, "reward": reward}
        for p, of_problem in enumerate(drawn)
        for r, of_rollout in enumerate(of_problem)
        for t, reward in enumerate(of_rollout)
    ]


def within(of_rollout, turns, rule):
    """What a rollout had reached when it is stopped after some turns."""
    if rule == "end":
        return of_rollout[-1] if len(of_rollout) <= turns else 0.0
    rewards = of_rollout[:turns]
    return max(rewards if rule == "last" else np.cumsum(rewards))


def subset_mean(rewards, k):
    return np.mean([max(chosen) for chosen in itertools.combinations(rewards, k)])


@hypothesis.settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
@hypothesis.given(
    seed=st.integers(0, 999),
    rule=st.sampled_from(["last", "sum", "end"]),
    turns=st.integers(1, 7),
    start=st.integers(0, 1),
)
def test_the_metrics_are_those_of_rewards_within_the_budget(tmp_path, seed, rule, turns, start):
    drawn = rollouts(seed)
    rows = rows_of(drawn, start=start)
    mapping = {"rollout_reward": rule}
    if rule == "end":  # a log that gives every turn the reward of the whole rollout
        rows = [
            {**row, "reward": drawn[int(row["problem_id"][1:])][row["rollout"]][-1]} for row in rows
        ]
        mapping = {}
    random.Random(seed).shuffle(rows)
    write_jsonl(tmp_path / "log.jsonl", rows)
    rewards = read_rewards(tmp_path / "log.jsonl", mapping=mapping)
    results = rewards.results(column=f"turns={turns}", threshold=0.5)
    for k in (1, 2, 4):
        reached = [[within(r, turns, rule) for r in of_problem] for of_problem in drawn]
        best = [subset_mean(of_problem, k) for of_problem in reached]
        passed = [subset_mean([float(r >= 0.5) for r in of_problem], k) for of_problem in reached]
        ids = [f"p{p}" for p in range(len(drawn))]
        order = [ids.index(problem_id) for problem_id in results.ids]
        np.testing.assert_allclose(
            results.per_problem.values["max@k"][k], [best[p] for p in order], atol=1e-6
        )
        np.testing.assert_allclose(
            results.per_problem.values["pass@k"][k], [passed[p] for p in order], atol=1e-6
        )


def test_a_budget_above_all_turns_is_the_reward_itself(tmp_path):
    pairs = ((0.5, 3), (1.0, 7), (0.0, 1))
    rows = [{"problem_id": "p", "reward": r, "turns": t} for r, t in pairs]
    write_jsonl(tmp_path / "log.jsonl", rows)
    rewards = read_rewards(tmp_path / "log.jsonl")
    whole = rewards.results()
    assert rewards.results(column="turns=7").metrics == whole.metrics
    values = rewards.results(column="turns=3").per_problem.values["max@k"]
    assert values[1] == (pytest.approx(0.5 / 3, abs=1e-6),)
    assert "max@k by turns=3" not in whole.metrics
    assert whole.column is None


def test_a_sample_without_a_reward_has_none_within_any_budget(tmp_path):
    rows = [{"problem_id": "p", "reward": r, "turns": 2} for r in (1.0, None, 0.0)]
    write_jsonl(tmp_path / "log.jsonl", rows)
    results = read_rewards(tmp_path / "log.jsonl").results(column="turns=1")
    assert results.per_problem.scored == (2,)
    assert results.per_problem.values["max@k"][1] == (0.0,)


def test_score_prints_a_row_for_each_budget(tmp_path, capsys):
    drawn = rollouts(1)
    write_jsonl(tmp_path / "log.jsonl", rows_of(drawn))
    command = [
        "score", "--rewards", str(tmp_path / "log.jsonl"), "--out", str(tmp_path / "run"),
        "--map", "rollout_reward=last", "--k", "1", "2",
    ]  # fmt: skip
    assert main([*command, "--budget", "turns=1,2,4"]) == 0
    text = capsys.readouterr().out
    assert "within turns" in text
    assert main([*command, "--budget", "turns=1,2,4", "--output-format", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)["budgets"]
    for turns in (1, 2, 4):
        reached = [[within(r, turns, "last") for r in of_problem] for of_problem in drawn]
        expected = np.mean([subset_mean(of_problem, 2) for of_problem in reached])
        rows = [r for r in printed if (r["turns"], r["metric"], r["k"]) == (turns, "max@k", 2)]
        assert rows[0]["mean"] == pytest.approx(expected)
        assert rows[0]["low"] <= expected <= rows[0]["high"]
    assert load_results(tmp_path / "run", column="turns=2").column == "turns=2"


def test_compare_tests_every_budget_and_corrects_within_it(tmp_path, capsys):
    first = rollouts(2, problems=12)
    second = rollouts(3, problems=12)
    paths = {}
    for name, drawn in (("a", first), ("b", second)):
        rows = [
            {"problem_id": f"p{p}", "reward": of_rollout[-1], "turns": len(of_rollout)}
            for p, of_problem in enumerate(drawn)
            for of_rollout in of_problem
        ]
        paths[name] = tmp_path / f"{name}.jsonl"
        write_jsonl(paths[name], rows)
    compared = compare(paths, CompareOptions(k=(2,), budget="turns=1,4"))
    assert list(compared.comparisons) == ["within 1 turn", "within 4 turns"]
    for turns, name in ((1, "within 1 turn"), (4, "within 4 turns")):
        ks = compared.comparisons[name].ks
        tables = [
            [[subset_mean([within(r, turns, "end") for r in p], k) for k in ks] for p in drawn]
            for drawn in (second, first)
        ]
        expected = paired_difference(*map(np.array, tables))
        place = ks.index(2)
        (test,) = [
            t for t in compared.differences if (t.measure.benchmark, t.measure.k) == (name, 2)
        ]
        assert test.difference == pytest.approx(expected.mean[place])
        assert test.p == pytest.approx(expected.p[place])
        assert test.adjusted_p == pytest.approx(adjusted_p_values(expected.p.tolist())[place])
    assert main(["compare", f"a={paths['a']}", f"b={paths['b']}", "--budget", "turns=1,4"]) == 0
    assert "within 4 turns" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["4", "turns=", "turns=0", "turns=a", "tokens=4", "turns=1,,2"])
def test_other_budgets_are_refused(text):
    with pytest.raises(InvalidValueError, match="budget: must be"):
        read_budget(text)


def test_a_log_without_turns_says_what_it_lacks(tmp_path):
    write_jsonl(tmp_path / "log.jsonl", [{"problem_id": "p", "reward": 1}])
    with pytest.raises(InvalidValueError, match="budget: 'turns=2': no sample says how many"):
        read_rewards(tmp_path / "log.jsonl").results(column="turns=2")
    with pytest.raises(InvalidValueError, match="budget: does not go with by or column"):
        CompareOptions(budget="turns=1", by="level")


def test_a_rollout_that_is_cut_off_does_not_beat_one_with_a_negative_reward(tmp_path):
    rows = [{"problem_id": "p", "reward": r, "turns": t} for r, t in ((-1.0, 1), (1.0, 3))]
    write_jsonl(tmp_path / "log.jsonl", rows)
    rewards = read_rewards(tmp_path / "log.jsonl")
    with pytest.raises(InvalidValueError, match=r"budget: .turns=2.: .* as 1 of them do.*, got -1"):
        rewards.results(column="turns=2")
    # Nothing is cut off within three turns.
    assert rewards.results(column="turns=3").metrics == rewards.results().metrics
