"""The estimates of the gradient have the right mean, on a policy with a closed form."""

import numpy as np
import pytest

from maxatk.objectives import Method, advantages
from oracles import policies

GROUPS, ARMS = 30_000, np.array([0.0, 0.3, 0.3, 1.0, -0.5])
THETA = np.array([0.2, -0.3, 0.5, -0.6, 0.1])
OLD = THETA + np.array([0.3, -0.2, -0.1, 0.25, -0.25])


def deviations(method, n, k, *, old, form):
    """How many standard errors the mean estimate lies from the gradient, for every logit."""
    p, q = policies.softmax(THETA), policies.softmax(old)
    draws = np.random.default_rng([n, k]).choice(len(ARMS), size=(GROUPS, n), p=q)
    ratios = (p / q)[draws]
    logs = None if old is THETA else np.log(ratios)
    got = advantages(ARMS[draws], method, k, log_ratios=logs, form=form, clamp=None)
    if form == "ppo":
        got = got * ratios  # what the surrogate does
    estimates = np.stack([(got * (draws == a)).sum(1) for a in range(len(ARMS))], axis=1)
    estimates -= got.sum(axis=1, keepdims=True) * p
    error = estimates.mean(axis=0) - policies.gradient(THETA, ARMS, k)
    return np.abs(error) / (estimates.std(axis=0) / np.sqrt(GROUPS))


def row(baseline, correction="none"):
    return Method(credit="max_at_k", correction=correction, baseline=baseline)


def test_the_closed_form_gradient_is_a_derivative():
    for k in (1, 3):
        for a in range(len(ARMS)):
            step = 1e-6 * np.eye(len(ARMS))[a]
            up, down = (policies.max_at_k(THETA + s, ARMS, k) for s in (step, -step))
            want = policies.gradient(THETA, ARMS, k)[a]
            assert (up - down) / 2e-6 == pytest.approx(want, abs=1e-9)


@pytest.mark.parametrize("baseline", ["none", "leave_one_out"])
@pytest.mark.parametrize(("n", "k"), [(4, 1), (4, 2), (5, 4), (3, 3)])
def test_on_policy(baseline, n, k):
    assert deviations(row(baseline), n, k, old=THETA, form="ppo").max() < 4


@pytest.mark.parametrize("baseline", ["none", "leave_one_out"])
@pytest.mark.parametrize(("n", "k"), [(4, 1), (4, 2), (5, 4), (3, 3)])
@pytest.mark.parametrize("form", ["ppo", "reinforce"])
def test_exact_off_policy(baseline, n, k, form):
    assert deviations(row(baseline, "exact"), n, k, old=OLD, form=form).max() < 4


def test_the_check_can_fail():
    # Without the correction the other samples' ratios are missing: a bias of many errors.
    assert deviations(row("leave_one_out"), 5, 4, old=OLD, form="ppo").max() > 8


def test_the_first_order_removes_most_of_the_bias():
    near = THETA + 0.3 * (OLD - THETA)
    biased = deviations(row("none"), 5, 4, old=near, form="reinforce").max()
    corrected = deviations(row("none", "first_order"), 5, 4, old=near, form="reinforce").max()
    assert corrected < 4
    assert biased > corrected
