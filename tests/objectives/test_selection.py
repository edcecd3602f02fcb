"""Selection by a score: what best-of-k by that score returns, and the credit for it."""

import itertools

import numpy as np
import pytest

from maxatk.objectives import METHODS, Method, OrderWeights, advantages, max_at_k, order_at_k
from maxatk.objectives.baselines import BASELINES
from oracles import subsets

RULES = [name for name, row in BASELINES.items() if row.rule and not row.ratios_only]

REWARDS = np.random.default_rng(0).normal(size=(4, 6))
SCORES = np.stack(
    [
        np.random.default_rng(1).normal(size=6),
        np.array([0, 1, 1, 0, 2, 1]),
        np.array([1, 1, 0, 0, 1, 0]),
        np.zeros(6),
    ]
)


def over_all_orders(rewards, scores, k):
    """max@k by score where each order of the samples breaks the ties."""
    values = []
    for order in itertools.permutations(range(len(rewards))):
        ranks = {sample: (scores[sample], place) for place, sample in enumerate(order)}
        values += [
            rewards[max(subset, key=ranks.__getitem__)]
            for subset in itertools.combinations(order, k)
        ]
    return np.mean(values)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_the_metric_is_the_mean_over_all_ways_to_break_ties(k):
    got = max_at_k(REWARDS[:, :5], k, selection=SCORES[:, :5])
    for row in range(4):
        want = over_all_orders(REWARDS[row, :5], SCORES[row, :5], k)
        assert got[row] == pytest.approx(want, abs=1e-14)


def test_the_metric_by_the_rewards_themselves_is_max_at_k():
    for k in ([1, 3, 6], 2):
        np.testing.assert_allclose(
            max_at_k(REWARDS, k, selection=REWARDS), max_at_k(REWARDS, k), atol=1e-15
        )
    np.testing.assert_allclose(max_at_k(REWARDS, 3, selection=0 * REWARDS), REWARDS.mean(axis=1))


@pytest.mark.parametrize("baseline", RULES)
@pytest.mark.parametrize(
    "weights", [OrderWeights.max(3), OrderWeights.cvar(0.5, of=3), OrderWeights.any_k(4)]
)
def test_every_baseline_equals_enumeration(baseline, weights):
    row = Method(credit=weights, baseline=baseline)
    got = advantages(REWARDS, row, selection=SCORES)
    for rewards, scores, row_advantages in zip(REWARDS, SCORES, got, strict=True):
        want = subsets.advantages(list(rewards), np.zeros(6), 3, row, scores=list(scores))
        np.testing.assert_allclose(row_advantages, want, atol=1e-13)
    want = [
        subsets.value(subsets.samples_of(*pair), row, 3)
        for pair in zip(REWARDS, SCORES, strict=True)
    ]
    np.testing.assert_allclose(order_at_k(REWARDS, weights, selection=SCORES), want, atol=1e-14)


@pytest.mark.parametrize("name", [name for name, row in METHODS.items() if row.credit_row.order])
def test_rows_take_a_selection(name):
    distinct = SCORES[:1]
    logs = 0.2 * REWARDS[:1]
    for ratios in (None, logs):
        got = advantages(REWARDS[:1], name, 3, selection=distinct, log_ratios=ratios)
        deltas = np.zeros(6) if ratios is None else np.clip(np.expm1(logs[0]), -0.5, 0.5)
        want = subsets.advantages(
            list(REWARDS[0]), deltas, 3, METHODS[name], scores=list(distinct[0])
        )
        np.testing.assert_allclose(got[0], want, atol=1e-11)


def test_a_sample_that_wins_the_selection_and_is_worse_gets_negative_credit():
    got = advantages([[0.0, 1.0, 1.0]], "bon_loo1", 2, selection=[[9.0, 1.0, 2.0]])
    assert got[0, 0] < 0
    assert (got[0, 1:] >= 0).all()


def test_a_sample_without_a_score_leaves_its_group():
    scores = np.insert(SCORES, 2, np.nan, axis=1)
    rewards = np.insert(REWARDS, 2, 7.0, axis=1)
    np.testing.assert_array_equal(
        np.delete(advantages(rewards, k=3, selection=scores), 2, axis=1),
        advantages(REWARDS, k=3, selection=SCORES),
    )
    np.testing.assert_array_equal(
        max_at_k(rewards, 3, selection=scores), max_at_k(REWARDS, 3, selection=SCORES)
    )


CORRECTED = [
    Method(credit="max_at_k", correction=correction, baseline=name)
    for name, row in BASELINES.items()
    for correction in row.corrected
    if name != "constant"  # divides by a sum over the group, which is averaged after it
]


def mean_over_orders(method, rewards, scores, logs, form):
    """The advantages where each order of the samples in turn breaks the ties."""
    n = len(rewards)
    total = np.zeros(n)
    count = 0
    for order in map(list, itertools.permutations(range(n))):
        ranks = np.argsort(np.argsort(scores[order], kind="stable"))
        ordered = advantages(
            rewards[order][None],
            method,
            2,
            selection=ranks[None],
            log_ratios=logs[order][None],
            form=form,
        )
        total[order] += ordered[0]
        count += 1
    return total / count


@pytest.mark.parametrize("form", ["ppo", "reinforce"])
@pytest.mark.parametrize("method", CORRECTED, ids=lambda m: f"{m.correction}-{m.baseline}")
def test_pairs_of_ties_are_averaged_over_their_orders_under_a_correction(method, form):
    scores = np.array([1, 0, 1, 0, 2])
    logs = 0.2 * REWARDS[1, :5]
    got = advantages(
        REWARDS[:1, :5], method, 2, selection=scores[None], log_ratios=logs[None], form=form
    )
    want = mean_over_orders(method, REWARDS[0, :5], scores, logs, form)
    np.testing.assert_allclose(got[0], want, atol=1e-14)


def test_ties_of_many_lose_the_variance_of_their_order_under_a_correction():
    method = METHODS["bon_off_policy_exact"]
    rng = np.random.default_rng(0)
    scores = np.zeros(6)
    logs = 0.1 * rng.normal(size=6)
    want = mean_over_orders(method, REWARDS[0], scores, logs, "ppo")
    tied, by_index = (
        advantages(REWARDS[:1], method, 2, selection=selection[None], log_ratios=logs[None])[0]
        for selection in (scores, np.arange(6.0))
    )
    assert np.abs(tied - want).max() < 0.05 * np.abs(by_index - want).max()


def test_the_order_of_tied_samples_is_not_looked_at_under_a_correction():
    first, second = (
        advantages(r, "bon_off_policy_exact", 2, selection=[[1.0] * 3], log_ratios=logs)[0]
        for r, logs in (
            ([[0.0, 1.0, 0.5]], [[0.1, 0.0, 0.0]]),
            ([[1.0, 0.5, 0.0]], [[0.0, 0.0, 0.1]]),
        )
    )
    np.testing.assert_allclose(first[[1, 2, 0]], second, atol=1e-14)
