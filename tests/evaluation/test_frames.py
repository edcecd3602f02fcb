"""Rewards of a long data frame."""

import numpy as np
import pandas as pd
import pytest

from maxatk.errors import DataError, InvalidValueError
from maxatk.evaluation import frame
from maxatk.objectives import max_at_k

REWARDS = {"a": [0.5, 2.0, -1.0], "b": [1.0, np.nan, 0.0]}


@pytest.fixture
def data():
    rows = [(p, r) for p, rewards in REWARDS.items() for r in rewards]
    return pd.DataFrame(rows, columns=["task", "score"]).sample(frac=1, random_state=0)


def test_the_samples_of_a_problem_are_its_rows_in_any_order(data):
    results = frame(data, problem="task", reward="score", more_ks=[2], threshold=0.5)
    assert results.per_problem.ids == ("a", "b")
    for k in (1, 2):
        expected = [float(max_at_k(rewards, k)) for rewards in REWARDS.values()]
        assert results.per_problem.values["max@k"][k] == pytest.approx(expected)
    assert results.per_problem.correct == (2, 1)
    assert results.counts.unscored == 1


def test_a_reward_that_only_rounds_below_the_threshold_passes():
    summed = 0.7 + 0.2 + 0.1
    assert summed < 1
    data = pd.DataFrame({"problem_id": list("ppqq"), "reward": [summed, 0.0, 0.999, 0.0]})
    results = frame(data)
    assert results.per_problem.correct == (1, 0)
    assert results.metrics["pass@k"][2].mean == 0.5
    difference = 0.7 - 0.4
    assert difference < 0.3
    one = pd.DataFrame({"problem_id": ["p"], "reward": [difference]})
    assert frame(one, threshold=0.3).metrics["pass@k"][1].mean == 1.0


@pytest.mark.parametrize("threshold", [1e-6, 1e-9, 1e-12, 1e-300])
def test_a_reward_of_0_is_below_every_threshold_above_0(threshold):
    data = pd.DataFrame({"problem_id": list("aabb"), "reward": [0.0, 0.0, 0.0, threshold]})
    assert frame(data, threshold=threshold).metrics["pass@k"][1].mean == 0.25


def test_a_wrong_column_or_value_is_named(data):
    with pytest.raises(InvalidValueError, match=r"reward: unknown value 'scores'.*'score'"):
        frame(data, problem="task", reward="scores")
    with pytest.raises(DataError, match=r"row 0: field 'score': must be text or an integer"):
        frame(data, problem="score", reward="task")
    with pytest.raises(DataError, match=r"row 0: field 'task': must be a finite number"):
        frame(data, problem="task", reward="task")
    with pytest.raises(DataError, match=r"row 0: field 'score': .*, got the text '-?[0-9.]+'"):
        frame(data.dropna().astype({"score": str}), problem="task", reward="score")
    with pytest.raises(DataError, match="column 'score' holds no rewards"):
        frame(data.assign(score=np.nan), problem="task", reward="score")
    with pytest.raises(DataError, match="holds no rows"):
        frame(data[:0], problem="task", reward="score")


def test_two_columns_of_one_name_are_refused_by_it(data):
    joined = pd.concat([data, data[["score"]]], axis=1)
    with pytest.raises(DataError, match=r"data: 2 columns are named 'score'; every column needs"):
        frame(joined, problem="task", reward="score")


def test_a_sample_that_occurs_twice_is_refused_as_in_a_file(data):
    numbered = data.assign(sample=data.groupby("task").cumcount() + 1)
    results = frame(numbered, problem="task", reward="score")
    assert results.per_problem == frame(data, problem="task", reward="score").per_problem
    two_runs = pd.concat([numbered, numbered.assign(model="other")])
    with pytest.raises(DataError, match=r"data, row 6: sample 1 of '[ab]' occurs twice; allowed"):
        frame(two_runs, problem="task", reward="score")
    with pytest.raises(
        DataError, match=r"row 0: field 'sample': must be an integer from 0, got 'x"
    ):
        frame(data.assign(sample="x"), problem="task", reward="score")
    rewards = data.assign(sample=data["score"]).drop(columns="score")
    assert frame(rewards, problem="task", reward="sample").counts.samples == 6


def test_rows_that_are_parts_of_rollouts_are_refused_and_not_counted():
    """The same table counts each rollout once where it is a file."""
    data = pd.DataFrame({"task": ["a"] * 4, "score": [0, 1, 0, 0], "rollout": [0, 0, 1, None]})
    with pytest.raises(DataError, match=r"'rollout': 2 rows of '0.*' of 'a' would count as 2 sam"):
        frame(data, problem="task", reward="score")
    with pytest.raises(DataError, match="column 'turn' without a column 'rollout'"):
        frame(data.rename(columns={"rollout": "turn"}), problem="task", reward="score")
    of_one_row = frame(data.assign(rollout=[0, 1, 2, None]), problem="task", reward="score")
    assert of_one_row.per_problem.samples == (4,)
    two_tasks = data.assign(task=list("abab"))
    assert frame(two_tasks, problem="task", reward="score").per_problem.samples == (2, 2)
