"""The expected update is the gradient of what a row claims: exact sums over a small policy."""

import itertools

import numpy as np
import pytest

from maxatk.errors import InvalidValueError
from maxatk.objectives import METHODS, Method, OrderWeights, advantages
from maxatk.objectives.baselines import BASELINES
from oracles import policies

RULES = [name for name, row in BASELINES.items() if row.rule and not row.ratios_only]

ARMS = np.array([0.0, 0.3, 1.0, -0.5])
ANSWERS = np.array([0, 1, 0, 2])
SCORES = [np.array([0.4, 0.1, 0.2, 0.3]), np.array([1, 0, 1, 0]), np.zeros(4)]
THETA = np.array([0.2, -0.3, 0.5, 0.1])
OLD = THETA + np.array([0.3, -0.2, -0.1, 0.25])
CLAIMS = {name: method for name, method in METHODS.items() if method.unbiased_for}
WEIGHTS = [
    OrderWeights.top(2, of=3),
    OrderWeights.quantile(0.3, of=3),
    OrderWeights.cvar(0.4, of=2, tail="lower"),
    OrderWeights.mixture({1: 0.5, 3: -0.25}),
    OrderWeights.harmonic(),
]


def sizes(method):
    pairs = [(2, 1), (3, 2), (4, 2), (4, 4)] if method.credit_row.uses_k else [(4, 1)]
    return [(n, k) for n, k in pairs if method.samples_needed(k) <= n]


def errors(method, n, k, *, old=None, form="ppo", **columns):
    """The expected update minus the gradient of the statistic, in the method's convention."""
    if method.credit_row.needs_answers:
        columns["answers"] = ANSWERS
    want = policies.statistic_gradient(THETA, ARMS, method, n, k, **columns)
    got = policies.expected_update(THETA, ARMS, method, n, k, old=old, form=form, **columns)
    return got / (n if method.credit_row.per_sample else 1) - want


def test_the_closed_form_gradient_is_a_derivative():
    for k in (1, 3):
        for a in range(len(ARMS)):
            step = 1e-6 * np.eye(len(ARMS))[a]
            up = policies.max_at_k(THETA + step, ARMS, k)
            down = policies.max_at_k(THETA - step, ARMS, k)
            want = policies.gradient(THETA, ARMS, k)[a]
            assert (up - down) / 2e-6 == pytest.approx(want, abs=1e-9)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_the_statistic_of_a_group_has_the_gradient_of_max_at_k(k):
    row = METHODS["bon_loo1"]
    want = policies.gradient(THETA, ARMS, k)
    np.testing.assert_allclose(
        policies.statistic_gradient(THETA, ARMS, row, 4, k), want, atol=1e-14
    )


@pytest.mark.parametrize("name", CLAIMS)
def test_every_row_is_unbiased_for_what_it_claims(name):
    for n, k in sizes(METHODS[name]):
        np.testing.assert_allclose(errors(METHODS[name], n, k), 0, atol=1e-13)


@pytest.mark.parametrize("weights", WEIGHTS, ids=lambda weights: str(weights)[:40])
@pytest.mark.parametrize("baseline", [name for name in RULES if BASELINES[name].unbiased])
def test_any_weights_are_unbiased_with_any_baseline_of_the_others(weights, baseline):
    if weights.by_rank and BASELINES[baseline].spare:  # of fewer samples it is another statistic
        with pytest.raises(InvalidValueError, match="does not go with the credit"):
            Method(credit=weights, baseline=baseline)
        return
    np.testing.assert_allclose(
        errors(Method(credit=weights, baseline=baseline), 4, 1), 0, atol=1e-13
    )


@pytest.mark.parametrize("weights", WEIGHTS, ids=lambda weights: str(weights)[:40])
@pytest.mark.parametrize("baseline", ["none", "leave_one_out", "replace_one"])
@pytest.mark.parametrize("form", ["ppo", "reinforce"])
def test_any_weights_are_unbiased_off_policy(weights, baseline, form):
    row = Method(credit=weights, correction="exact", baseline=baseline)
    np.testing.assert_allclose(errors(row, 4, 1, old=OLD, form=form), 0, atol=1e-13)


@pytest.mark.parametrize("name", [n for n, m in CLAIMS.items() if m.correction == "exact"])
@pytest.mark.parametrize("form", ["ppo", "reinforce"])
def test_exact_corrections_are_unbiased_off_policy(name, form):
    for n, k in sizes(METHODS[name]):
        np.testing.assert_allclose(errors(METHODS[name], n, k, old=OLD, form=form), 0, atol=1e-13)


@pytest.mark.parametrize("scores", SCORES, ids=["distinct", "tied", "equal"])
@pytest.mark.parametrize("name", [name for name in CLAIMS if METHODS[name].credit_row.order])
def test_every_row_is_unbiased_for_the_statistic_of_the_selected(name, scores):
    for n, k in sizes(METHODS[name]):
        np.testing.assert_allclose(errors(METHODS[name], n, k, selection=scores), 0, atol=1e-13)


@pytest.mark.parametrize("scores", SCORES, ids=["distinct", "tied", "equal"])
@pytest.mark.parametrize("baseline", ["none", "leave_one_out", "replace_one"])
@pytest.mark.parametrize("form", ["ppo", "reinforce"])
def test_exact_corrections_are_unbiased_for_the_statistic_of_the_selected(baseline, scores, form):
    for weights in (OrderWeights.max(2), WEIGHTS[1]):
        row = Method(credit=weights, correction="exact", baseline=baseline)
        bias = errors(row, 4, 1, old=OLD, form=form, selection=scores)
        np.testing.assert_allclose(bias, 0, atol=1e-13)


def test_the_mean_baseline_gives_a_share_of_the_gradient():
    row = Method(credit="max_at_k", baseline="mean")
    for n, k in ((3, 1), (4, 2), (4, 3), (4, 4)):
        got = policies.expected_update(THETA, ARMS, row, n, k)
        want = (1 - k / n) * policies.gradient(THETA, ARMS, k)
        np.testing.assert_allclose(got, want, atol=1e-14)


@pytest.mark.parametrize("name", sorted(METHODS.keys() - CLAIMS.keys()))
def test_rows_without_a_claim_are_biased(name):
    method = METHODS[name]
    aim = "reward" if method.credit_row.per_sample else "max_at_k"
    want = policies.statistic_gradient(THETA, ARMS, Method(credit=aim), 4, 2)
    got = policies.expected_update(THETA, ARMS, method, 4, 2)
    if method.credit_row.per_sample:
        got /= 4
    assert np.abs(got - want).max() > 0.01


def test_the_check_can_fail():
    # Without the correction the other samples' ratios are missing.
    assert np.abs(errors(METHODS["bon_loo1"], 4, 3, old=OLD)).max() > 0.01


def test_the_first_order_removes_most_of_the_bias():
    near = THETA + 0.3 * (OLD - THETA)
    biased, corrected = (
        np.abs(errors(Method(credit="max_at_k", correction=correction), 4, 3, old=near)).max()
        for correction in ("none", "first_order")
    )
    assert corrected < biased / 5


def test_with_two_answers_alone_leave_one_out_has_the_least_variance():
    groups = np.array(list(itertools.product([0.0, 1.0], repeat=8)))
    scores = np.where(groups == 1, 2.0, -2.0)  # the gradient of log p and of log (1 - p) at 0.5
    variances = {}
    for method in ("bon_loo1", "bon_replace", "bon_centred", "pkpo_sloo"):
        estimates = (advantages(groups, method, 4) * scores).sum(axis=1)
        assert estimates.mean() == pytest.approx(4 * 0.5**3)
        variances[method] = estimates.var()
    ratios = [variances[method] / variances["bon_loo1"] for method in variances]
    np.testing.assert_allclose(ratios, [1.0, 1.73, 2.54, 6.37], atol=0.005)
