"""The blind retry: against every choice of distinct samples, and in the results of real runs."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxatk.evaluation.blind_retry import retried_max_at_k
from maxatk.evaluation.build_results import build_results
from maxatk.evaluation.results import RETRIED
from maxatk.objectives import max_at_k
from maxatk.records import Outcome, Problem, Score, TestCase
from runs import scored, write_samples

samples = st.lists(
    st.tuples(st.sampled_from([-1.0, 0.0, 0.25, 1.0, 2.0]), st.sampled_from([0.0, 0.5, 1.0])),
    min_size=2,
    max_size=6,
)


def by_hand(rewards, visible, k):
    """The mean of the best of k tries over all choices of 2k distinct samples, in any order."""
    best = []
    for chosen in itertools.permutations(range(len(rewards)), 2 * k):
        tries = [chosen[2 * t : 2 * t + 2] for t in range(k)]
        best.append(max(rewards[i] if visible[i] >= 1 else rewards[j] for i, j in tries))
    return np.mean(best)


@given(samples)
def test_it_is_the_mean_over_all_choices_of_distinct_samples(pairs):
    rewards, visible = (np.array(column) for column in zip(*pairs, strict=True))
    ks = range(1, len(rewards) // 2 + 1)
    (values,) = retried_max_at_k(rewards[None], visible[None], ks)
    expected = [by_hand(rewards, visible, k) for k in ks]
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12)


def test_of_one_try_it_is_the_mean_over_ordered_pairs():
    draw = np.random.default_rng(0)
    rewards = draw.random(40)
    passes = draw.random(40) < 0.3
    pairs = itertools.permutations(range(40), 2)
    mean = np.mean([rewards[i] if passes[i] else rewards[j] for i, j in pairs])
    ((value,),) = retried_max_at_k(rewards[None], passes[None].astype(float), [1])
    assert value == pytest.approx(mean, abs=1e-12)


def test_tests_that_all_pass_or_all_fail_leave_max_at_k():
    rewards = np.random.default_rng(1).random((1, 64))
    for share in (0.0, 1.0):  # the second sample of a try is as good as the first
        values = retried_max_at_k(rewards, np.full((1, 64), share), [1, 8, 32])
        np.testing.assert_allclose(values, max_at_k(rewards, [1, 8, 32]), atol=1e-10)


def test_it_is_unbiased_for_a_policy():
    """Samples of a known policy: the mean over many runs is the value of a retry."""
    draw = np.random.default_rng(2)
    kinds = draw.choice(4, size=(4000, 6), p=[0.1, 0.2, 0.3, 0.4])
    rewards = np.array([1.0, 0.5, 0.5, 0.0])[kinds]
    visible = np.array([1.0, 1.0, 0.0, 0.5])[kinds]
    of_one = 0.1 * 1 + 0.2 * 0.5 + 0.7 * (0.1 * 1 + 0.5 * 0.5)  # passes at once, or draws again
    values = retried_max_at_k(rewards, visible, [1])[:, 0]
    assert values.mean() == pytest.approx(of_one, abs=4 * values.std() / np.sqrt(len(values)))


def test_samples_without_a_reward_or_a_share_are_left_out():
    rewards = np.array([[0.0, 1.0, np.nan, 1.0, 0.5], [0.0, 1.0, 1.0, 0.0, 1.0]])
    visible = np.array([[0.0, 1.0, 1.0, np.nan, 0.0], [np.nan] * 5])
    values = retried_max_at_k(rewards, visible, [1, 2])
    assert values[0, 0] == pytest.approx(by_hand([0.0, 1.0, 0.5], [0.0, 1.0, 0.0], 1))
    assert np.isnan(values[0, 1])
    assert np.isnan(values[1]).all()


def with_shares(shares, rewards):
    """The scores of problems whose samples have these shares of the visible tests, if any."""
    scores = []
    for name, of_problem in shares.items():
        for n, (share, reward) in enumerate(zip(of_problem, rewards, strict=True)):
            columns = {} if share is None else {"visible_tests": share}
            scores.append(Score(name, n, reward, 0, 1, Outcome.SCORED, 0.0, columns=columns))
    return scores


def test_results_have_it_over_the_problems_with_visible_tests():
    rewards = [0.0, 1.0, 0.0, 1.0, 0.0]
    shares = {"a": [0.0, 1.0, 0.5, 0.0, 1.0], "b": [None] * 5}
    results = build_results(["a", "b"], None, with_shares(shares, rewards), manifest={})
    by_k = results.metrics[RETRIED]
    assert list(by_k) == [1, 2]  # of five samples, no four tries and their retries
    assert by_k[1].mean == pytest.approx(by_hand(rewards, shares["a"], 1), abs=1e-6)
    assert (by_k[1].problems, results.per_problem.values[RETRIED][1][1]) == (1, None)
    without = build_results(["b"], None, with_shares({"b": [None] * 5}, rewards), manifest={})
    assert RETRIED not in without.metrics


def test_eval_and_report_show_it_beside_max_at_k(maxatk, tmp_path):
    shown = (TestCase(input="", output="1\n"),)
    hidden = (TestCase(input="x", output="1\n"), TestCase(input="y", output="1\n"))
    problems = [Problem(f"p{n}", "x", hidden, visible_tests=shown) for n in range(2)]
    texts = {problem.id: ["print(1)", "print(2)", "print(2)", "1/0"] for problem in problems}
    path = write_samples(tmp_path / "s.jsonl", texts)
    results = scored(path, problems, tmp_path / "run")
    assert results.metrics[RETRIED][1].mean == pytest.approx(1 / 4 + 3 / 4 * 1 / 3)

    done = maxatk("report", "run", "--out", "r.html", "--k", 1, 2, "--format", "json")
    rows = json.loads(done.stdout)["metrics"]
    assert {row["k"]: row["mean"] for row in rows if row["metric"] == RETRIED} == {
        k: mean.mean for k, mean in results.metrics[RETRIED].items()
    }
    done = maxatk("report", "run", "--out", "r.html", "--k", 1, 2)
    (line,) = [line for line in done.stdout.splitlines() if "retry after a failed" in line]
    assert "0.500" in line
    assert "retry after a failed visible test" in (tmp_path / "r.html").read_text()
