"""Logs whose rollouts have several rows: each counts once in what `score` says."""

import json
import random

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from maxatk.cli.main import main
from maxatk.errors import DataError, InvalidValueError
from maxatk.evaluation.external_rewards import read_rewards, score_rewards
from maxatk.exchange import read_log
from maxatk.jsonl import write_jsonl
from maxatk.training.rows import Rows

METRICS = ("max@k", "pass@k")
FEW_EXAMPLES = hypothesis.settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)


def results_of(folder, rows, name, **settings):
    path = folder / f"{name}.jsonl"
    write_jsonl(path, rows)
    return read_rewards(path, **settings).results()


def split(rows, seed, rule):
    """The rows of a table, some in several parts at random, as a trainer would log them."""
    generator = random.Random(seed)
    parts = []
    for number, row in enumerate(rows):
        count = generator.choice([1, 1, 2, 4])
        rewards = [row["reward"]] * count
        if rule == "last":
            rewards = [generator.random() for _ in range(count - 1)] + rewards[:1]
        elif rule == "sum" and row["reward"] is not None:
            rewards = [row["reward"] / count] * count
        elif rule == "some":
            rewards = [None] * (count - 1) + rewards[:1]
        parts.append([{**row, "rollout": number, "reward": reward} for reward in rewards])
    # Rows of different rollouts may be mixed, those of one are in their order.
    order = [place for place, of_row in enumerate(parts) for _ in of_row]
    generator.shuffle(order)
    iterators = [iter(of_row) for of_row in parts]
    return [next(iterators[place]) for place in order]


@FEW_EXAMPLES
@hypothesis.given(
    rewards=st.lists(
        st.lists(st.sampled_from([0.0, 0.25, 1.0, None]), min_size=3, max_size=6), min_size=1
    ),
    seed=st.integers(0, 99),
    rule=st.sampled_from(["equal", "some", "last", "sum"]),
)
def test_splitting_rollouts_changes_no_metric(tmp_path, rewards, seed, rule):
    rows = [
        {"problem_id": f"p{problem}", "reward": reward}
        for problem, of_problem in enumerate(rewards)
        for reward in of_problem
    ]
    hypothesis.assume(any(row["reward"] is not None for row in rows))
    mapping = {"rollout_reward": rule} if rule in ("last", "sum") else {}
    if rule == "last":  # without a reward in its last row a rollout would have an earlier one
        rows = [{**row, "reward": row["reward"] or 0.0} for row in rows]
    whole = results_of(tmp_path, rows, "whole")
    parts = results_of(tmp_path, split(rows, seed, rule), "parts", mapping=mapping)
    assert whole.per_problem.ids == parts.per_problem.ids
    for metric in METRICS:
        of_whole = whole.per_problem.values[metric]
        of_parts = parts.per_problem.values[metric]
        assert of_whole.keys() == of_parts.keys()
        for k, values in of_whole.items():
            assert of_parts[k] == pytest.approx(values, nan_ok=True)


@FEW_EXAMPLES
@hypothesis.given(
    rollouts=st.lists(
        st.lists(st.sampled_from([0.0, 0.25, 1.0, None]), min_size=1, max_size=4), min_size=2
    ),
    rule=st.sampled_from(["last", "sum", None]),
)
def test_a_log_and_a_training_give_a_rollout_the_same_reward(tmp_path, rollouts, rule):
    """Turns without a reward among them, which said nothing in one and all in the other."""
    if rule is None:  # all that are rewarded have one reward
        rollouts = [
            [None if r is None else float(n % 2) for r in of] for n, of in enumerate(rollouts)
        ]
    rows = [
        {"problem_id": "p", "rollout": number, "reward": reward}
        for number, of_rollout in enumerate(rollouts)
        for reward in of_rollout
    ]
    hypothesis.assume(any(row["reward"] is not None for row in rows))
    write_jsonl(tmp_path / "log.jsonl", rows)
    mapping = {} if rule is None else {"rollout_reward": rule}
    log = read_rewards(tmp_path / "log.jsonl", mapping=mapping)
    names = [row["rollout"] for row in rows]
    trained = Rows(["p"] * len(rows), len(rollouts), names, rule)
    of_training = trained.groups(np.array([row["reward"] for row in rows], float), k=1).rewards
    of_log = np.array([[score.reward for score in log.scores]], float)
    np.testing.assert_array_equal(of_training, of_log)


def test_rows_that_say_their_turn_are_in_its_order_wherever_they_stand(tmp_path):
    """Workers that log in parallel write the turns of a rollout as they end."""
    rewards = {1: 0.0, 2: 1.0, 3: 0.5}
    rows = [
        {
            "problem_id": "p",
            "rollout": 0,
            "turn": turn,
            "reward": rewards[turn],
            "completion": f"turn {turn}",
        }
        for turn in (3, 1, 2)
    ]
    write_jsonl(tmp_path / "log.jsonl", rows)
    (sample,) = read_log(tmp_path / "log.jsonl", mapping={"rollout_reward": "last"})
    assert (sample.reward, sample.completion) == (0.5, "turn 3")
    assert sample.transcript == "turn 1\n\nturn 2\n\nturn 3"
    assert sample.reached == {1: 0.0, 2: 1.0}


@pytest.mark.parametrize(
    "columns",
    [{}, {"rollout": None}, {"turn": None, "step": 2}, {"sample": 0}],
    ids=["no rollout", "an empty rollout", "a mapped turn", "a sample of several rows"],
)
def test_a_turn_of_no_rollout_is_refused_and_is_no_sample(tmp_path, columns):
    """Each of four turns of two rollouts counted as a sample that had taken one turn."""
    rows = [
        {"problem_id": "p", "turn": turn, "reward": reward, **columns}
        for turn, reward in ((1, 0.0), (2, 1.0), (1, 0.5), (2, 0.0))
    ]
    write_jsonl(tmp_path / "log.jsonl", rows)
    mapping = {"turn": "step"} if "step" in columns else {}
    message = r"log.jsonl:1: field 'turn': . without a rollout, .*; --map rollout=FIELD"
    with pytest.raises(DataError, match=message):
        read_log(tmp_path / "log.jsonl", mapping=mapping)


def test_a_column_called_turn_may_be_the_number_of_turns(tmp_path):
    pairs = ((4, 1), (2, 0))
    rows = [{"problem_id": "p", "turn": turn, "reward": reward} for turn, reward in pairs]
    write_jsonl(tmp_path / "log.jsonl", rows)
    samples = read_log(tmp_path / "log.jsonl", mapping={"turns": "turn"})
    assert [(s.turn, s.turns, s.reached) for s in samples] == [(None, 4, {4: 1}), (None, 2, {2: 0})]


def test_a_lone_success_in_four_rows_counts_once(tmp_path, capsys):
    """The case of the issue: max@4 of 8 is 0.5, and 0.894 where rows are counted."""
    rows = [{"problem_id": "p", "rollout": "a", "reward": 1.0} for _ in range(4)]
    rows += [{"problem_id": "p", "rollout": f"b{n}", "reward": 0.0} for n in range(7)]
    write_jsonl(tmp_path / "log.jsonl", rows)
    command = ["score", "--rewards", str(tmp_path / "log.jsonl"), "--out", str(tmp_path / "run")]
    assert main([*command, "--k", "4"]) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["metrics"]["max@k"]["4"]["mean"] == 0.5
    capsys.readouterr()
    assert main(["diagnose", str(tmp_path / "run"), "--n", "4", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["problems"] == [{"problems": 1, "samples": 8}]


def test_different_rewards_of_one_rollout_are_refused_by_name(tmp_path):
    rows = [
        {"problem_id": "p", "rollout": "a", "reward": 0.5},
        {"problem_id": "p", "rollout": "b", "reward": 0.25},
        {"problem_id": "p", "rollout": "a", "reward": 1.0},
    ]
    write_jsonl(tmp_path / "log.jsonl", rows)
    with pytest.raises(DataError, match=r"log.jsonl:1: rollout 'a' of 'p': .* 0\.5 and 1; --map"):
        score_rewards(tmp_path / "log.jsonl", tmp_path / "run")
    last = read_rewards(tmp_path / "log.jsonl", mapping={"rollout_reward": "last"})
    assert [score.reward for score in last.scores] == [1.0, 0.25]
    total = read_rewards(tmp_path / "log.jsonl", mapping={"rollout_reward": "sum"})
    assert [score.reward for score in total.scores] == [1.5, 0.25]
    with pytest.raises(InvalidValueError, match="rollout_reward: unknown value 'mean'"):
        read_rewards(tmp_path / "log.jsonl", mapping={"rollout_reward": "mean"})


def test_the_rollout_may_be_any_field_and_its_last_text_is_its_completion(tmp_path):
    rows = [
        {"problem_id": "p", "session": {"id": 3}, "reward": 1, "completion": "first", "part": 1},
        {"problem_id": "p", "session": {"id": 3}, "reward": 1, "completion": "second", "part": 2},
        {"problem_id": "q", "session": {"id": 3}, "reward": 0, "completion": "other", "part": 1},
    ]
    write_jsonl(tmp_path / "log.jsonl", rows)
    samples = read_log(tmp_path / "log.jsonl", mapping={"rollout": "session.id"})
    assert [(s.problem_id, s.sample, s.completion) for s in samples] == [
        ("p", 0, "second"),
        ("q", 0, "other"),
    ]
    assert samples[0].columns["part"] == 2


def test_outputs_of_a_session_of_verl_are_one_sample_whose_last_counts(tmp_path):
    rows = [
        {"input": "a", "output": "x", "score": 0.0, "uid": "u1_0_0"},
        {"input": "a, compacted", "output": "y", "score": 1.0, "uid": "u1_0_1"},
        {"input": "a", "output": "z", "score": 0.25, "uid": "u1_1_0"},
        {"input": "b", "output": "z", "score": 0.5, "uid": "u2_0_0"},
    ]
    write_jsonl(tmp_path / "1.jsonl", rows)
    samples = read_log(tmp_path / "1.jsonl")
    assert [(s.problem_id, s.sample, s.reward, s.completion) for s in samples] == [
        ("a", 0, 1.0, "y"),
        ("a", 1, 0.25, "z"),
        ("b", 0, 0.5, "z"),
    ]
