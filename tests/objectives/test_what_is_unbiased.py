"""Each line of "What is unbiased for what" in docs/objectives.md, by expectation over all groups.

A categorical policy with closed forms takes the place of a model: the expectation of an estimate
runs over every tuple of samples, with the advantages as the trainer computes and scales them. The
lines on the trainer's own losses are enumerated in test_scale, test_vllm and test_forms.
"""

import itertools

import numpy as np
import pytest

from maxatk.objectives import Method, advantages
from maxatk.objectives.objective import AdvantageScale, Objective
from oracles import policies

REWARDS = np.array([-0.5, 0.25, 0.25, 1.0])
NOW = np.array([0.2, -0.3, 0.5, -0.4])
OLD = NOW + np.array([0.4, -0.3, -0.2, 0.3])
N = 4


def row(baseline, correction="none", scale="none"):
    return Method(credit="max_at_k", correction=correction, baseline=baseline, scale=scale)


def expected(estimate, *, sampled=NOW):
    """E over all groups of N samples of (1/N) sum A_i grad log pi(y_i), under `sampled`.

    `estimate` maps rewards (P, n) and log ratios (P, n) to what multiplies grad log pi, (P, n).
    """
    p = policies.softmax(NOW)
    q = policies.softmax(sampled)
    groups = np.array(list(itertools.product(range(len(REWARDS)), repeat=N)))
    weights = estimate(REWARDS[groups], np.log(p / q)[groups])
    chances = q[groups].prod(axis=1)
    scores = np.eye(len(REWARDS))[groups] - p  # grad log pi of every sample, (P, n, logits)
    return np.einsum("p,pi,pia->a", chances, weights, scores) / N


def scaled(method, k, *, form="ppo", clamp=None, off_policy=False):
    """The estimate of a method at scale "mean", with the own ratio where the loss brings it."""
    factor = AdvantageScale("mean", method).factor(N)

    def estimate(rewards, log_ratios):
        logs = log_ratios if off_policy else None
        raw = advantages(rewards, method, k, log_ratios=logs, form=form, clamp=clamp)
        ratio = np.exp(log_ratios) if form == "ppo" else 1.0
        return factor * raw * ratio

    return estimate


def error(update, want):
    return np.linalg.norm(update - want) / np.linalg.norm(want)


def cosine(update, want):
    return update @ want / np.linalg.norm(update) / np.linalg.norm(want)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("baseline", ["none", "leave_one_out"])
def test_on_policy_these_baselines_are_unbiased(baseline, k):
    update = expected(scaled(row(baseline), k))
    assert error(update, policies.gradient(NOW, REWARDS, k)) < 1e-10


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_on_policy_the_mean_baseline_shrinks_the_gradient_by_k_over_n(k):
    update = expected(scaled(row("mean"), k))
    want = (1 - k / N) * policies.gradient(NOW, REWARDS, k)
    np.testing.assert_allclose(update, want, atol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("form", ["ppo", "reinforce"])
@pytest.mark.parametrize("baseline", ["none", "leave_one_out"])
def test_stale_samples_are_unbiased_under_the_exact_correction_without_clamp(baseline, form, k):
    estimate = scaled(row(baseline, "exact"), k, form=form, off_policy=True)
    update = expected(estimate, sampled=OLD)
    assert error(update, policies.gradient(NOW, REWARDS, k)) < 1e-10


def test_stale_samples_are_biased_without_correction_and_less_with_a_clamped_one():
    want = policies.gradient(NOW, REWARDS, 3)
    plain = error(expected(scaled(row("leave_one_out"), 3), sampled=OLD), want)
    exact = row("leave_one_out", "exact")
    clamped = error(expected(scaled(exact, 3, clamp=0.2, off_policy=True), sampled=OLD), want)
    first = row("leave_one_out", "first_order")
    linear = error(expected(scaled(first, 3, off_policy=True), sampled=OLD), want)
    assert plain > 0.05
    assert 1e-3 < clamped < plain
    assert 1e-3 < linear < plain


def test_a_constant_baseline_off_policy_is_biased_in_size_and_direction():
    want = policies.gradient(NOW, REWARDS, 3)
    update = expected(scaled(row("constant", "exact"), 3, off_policy=True), sampled=OLD)
    assert error(update, want) > 0.5
    assert 0.9 < cosine(update, want) < 1 - 1e-4


def test_a_division_by_the_std_is_the_gradient_of_no_fixed_objective():
    want = policies.gradient(NOW, REWARDS, 2)
    update = expected(scaled(row("leave_one_out", scale="std"), 2))
    assert cosine(update, want) < 1 - 1e-3


@pytest.mark.parametrize("form", ["ppo", "reinforce"])
@pytest.mark.parametrize("correction", ["none", "exact"])
def test_a_mixture_is_the_mixture_of_the_gradients(correction, form):
    """With the leave-one-out baseline; the rows of METHODS that the trainer takes by name."""
    name = {"none": "bon_loo1", "exact": "bon_off_policy_exact"}[correction]
    mixture = Objective(method=name, k=3, max_weight=0.7, form=form, delta_clamp=None)

    def estimate(rewards, log_ratios):
        mixed = N * mixture.advantages(rewards, 3, log_ratios=log_ratios)
        return mixed * (np.exp(log_ratios) if form == "ppo" else 1.0)

    sampled = OLD if correction == "exact" else NOW
    mixed = expected(estimate, sampled=sampled)
    gradients = [policies.gradient(NOW, REWARDS, k) for k in (3, 1)]
    np.testing.assert_allclose(mixed, 0.7 * gradients[0] + 0.3 * gradients[1], atol=1e-12)


def test_the_second_step_on_the_same_samples_is_biased_whatever_the_correction():
    """After a step the parameters depend on the samples, and eq. (10) assumes that they do not."""
    method = row("leave_one_out", "exact")
    q = policies.softmax(OLD)
    groups = np.array(list(itertools.product(range(len(REWARDS)), repeat=N)))
    bias = np.zeros(len(REWARDS))
    for group in groups:
        rewards = REWARDS[group][None]
        scores = np.eye(len(REWARDS))[group] - q
        moved = OLD + 2.0 * (advantages(rewards, method, 2)[0] @ scores)
        p = policies.softmax(moved)
        logs = np.log(p / q)[group]
        corrected = advantages(rewards, method, 2, log_ratios=logs[None], clamp=None)[0]
        second = (corrected * np.exp(logs)) @ (np.eye(len(REWARDS))[group] - p)
        bias += q[group].prod() * (second - policies.gradient(moved, REWARDS, 2))
    assert np.linalg.norm(bias) > 0.02 * np.linalg.norm(policies.gradient(OLD, REWARDS, 2))
