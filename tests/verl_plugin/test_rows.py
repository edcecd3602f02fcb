"""Validation metrics against the definition over all subsets."""

import itertools

import numpy as np

from maxatk.verl.rows import validation_metrics

NAN = float("nan")


def over_subsets(values, k):
    return np.mean([max(chosen) for chosen in itertools.combinations(values, k)])


def test_max_at_k_and_pass_at_k_are_means_over_all_subsets():
    ids = ["p", "q", "p", "q", "p", "q", "p", "q"]
    rewards = [0.0, 0.5, 1.0, 1.0, 0.25, 0.5, 0.0, NAN]
    metrics = validation_metrics(["s"] * 8, ids, {"reward": rewards}, k=3)
    p = [0.0, 1.0, 0.25, 0.0]
    q = [0.5, 1.0, 0.5]
    for k in (1, 2, 3):
        expected = (over_subsets(p, k) + over_subsets(q, k)) / 2
        assert np.isclose(metrics[f"val-core/s/reward/max@{k}"], expected)
        solved = [[float(reward == 1) for reward in group] for group in (p, q)]
        expected = np.mean([over_subsets(group, k) for group in solved])
        assert np.isclose(metrics[f"val-core/s/reward/pass@{k}"], expected)
    assert np.isclose(metrics["val-core/s/reward/max@4"], 1.0)  # q has three scored samples
    assert metrics["val-aux/s/reward/unscored"] == 1 / 8


def test_tests_decide_what_passes_where_the_verifier_counts_them():
    columns = {"reward": [1.0, 0.5], "passed": [2, 2], "total": [4, 2]}
    metrics = validation_metrics(["s", "t"], ["p", "q"], columns, k=1)
    assert (metrics["val-core/s/reward/pass@1"], metrics["val-core/t/reward/pass@1"]) == (0.0, 1.0)


def test_nothing_is_solved_by_passing_none_of_no_tests():
    columns = {"reward": [1.0, 1.0], "passed": [0, None], "total": [0, 0]}
    metrics = validation_metrics(["s", "s"], ["p", "q"], columns, k=1)
    assert metrics["val-core/s/reward/pass@1"] == 0.0


def test_a_source_without_tests_passes_by_its_reward_beside_one_with_tests():
    """verl fills what the reward function of one source has not returned with None."""
    columns = {
        "reward": [1.0, 0.0, 1.0, 0.5],
        "passed": [None, None, 2, 1],
        "total": [None, None, 4, 2],
    }
    sources = ["math", "math", "code", "code"]
    metrics = validation_metrics(sources, ["p", "p", "q", "q"], columns, k=1)
    assert metrics["val-core/math/reward/pass@1"] == 0.5
    assert metrics["val-core/math/reward/pass@2"] == 1.0
    assert metrics["val-core/code/reward/pass@1"] == 0.0


def test_one_success_in_256_is_one_at_256():
    rewards = [1.0] + [0.0] * 255
    metrics = validation_metrics(["s"] * 256, ["p"] * 256, {"reward": rewards}, k=8)
    assert metrics["val-core/s/reward/max@256"] == 1.0
    assert np.isclose(metrics["val-core/s/reward/max@8"], 8 / 256)
