"""What must hold for any rewards: symmetry, ties, shifts, scales, signs and precision."""

import itertools

import hypothesis
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from maxatk.errors import InvalidValueError
from maxatk.objectives import (
    METHODS,
    Method,
    OrderWeights,
    advantages,
    effective_sample_size,
    max_at_k,
    pass_at_k,
)
from maxatk.objectives.baselines import BASELINES
from oracles import answers_of, subsets

RULES = [name for name, row in BASELINES.items() if row.rule and not row.ratios_only]
NAMES = list(METHODS)
LOO = [name for name, m in METHODS.items() if m.baseline == "leave_one_out" and m.credit_row.uses_k]
SCALED = [name for name, m in METHODS.items() if m.scale != "none"]
LEVEL = [name for name, m in METHODS.items() if m.keeps_level]
LINEAR = [
    name
    for name, m in METHODS.items()
    if m.credit_row.order or m.credit_row.uses_k or m.credit_row.per_sample
]
SHIFT_BLIND = [
    name
    for name, m in METHODS.items()
    if name not in LEVEL and m.unbiased_for and m.credit_row.order
]
FORMS = st.sampled_from(["ppo", "reinforce"])


def advantages_of(rewards, method, k, answers=None, **columns):
    """The advantages, with answers where the method needs them."""
    if answers is None:
        answers = answers_of(METHODS[method], rewards)
    return advantages(rewards, method, k, answers=answers, **columns)


@st.composite
def problems(draw, with_nan=False):
    """A few groups with many ties, their log ratios, and a k."""
    n = draw(st.integers(1, 12))
    shape = (draw(st.integers(1, 3)), n)
    values = [-1.0, 0.0, 0.25, 0.5, 1.0, 3.0] + ([np.nan] if with_nan else [])
    rewards = draw(hnp.arrays(np.float64, shape, elements=st.sampled_from(values)))
    logs = draw(hnp.arrays(np.float64, shape, elements=st.floats(-0.7, 0.7)))
    return rewards, logs, draw(st.integers(1, n))


def fitting(problem, method):
    """The problem with a k that the method has, where it has one."""
    rewards, logs, k = problem
    while k > 1 and METHODS[method].samples_needed(k) > rewards.shape[1]:
        k -= 1
    hypothesis.assume(METHODS[method].samples_needed(k) <= rewards.shape[1])
    return rewards, logs, k


@settings(max_examples=150)
@given(problems(with_nan=True), st.sampled_from(NAMES), FORMS, st.randoms(use_true_random=False))
def test_permutation_equivariance(problem, method, form, random):
    rewards, logs, k = fitting(problem, method)
    order = list(range(rewards.shape[1]))
    random.shuffle(order)
    got = advantages_of(rewards[:, order], method, k, log_ratios=logs[:, order], form=form)
    want = advantages_of(rewards, method, k, log_ratios=logs, form=form)[:, order]
    np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-10)
    metric = max_at_k(rewards, k)
    shuffled = max_at_k(rewards[:, order], k)
    np.testing.assert_array_equal(metric, shuffled)


@settings(max_examples=100)
@given(problems(), st.sampled_from(NAMES), FORMS)
def test_tied_samples_of_equal_ratio_get_equal_advantages(problem, method, form):
    rewards, logs, k = fitting(problem, method)
    logs = np.round(2 * logs) / 2  # few values: ties of both
    got = advantages_of(rewards, method, k, log_ratios=logs, form=form)
    for row in range(len(rewards)):
        for pair in set(zip(rewards[row], logs[row], strict=True)):
            same = (rewards[row] == pair[0]) & (logs[row] == pair[1])
            np.testing.assert_allclose(got[row][same], got[row][same][0], rtol=1e-8, atol=1e-10)


@settings(max_examples=100)
@given(problems(), st.sampled_from(NAMES), FORMS)
def test_finite_and_zero_for_equal_rewards(problem, method, form):
    rewards, logs, k = fitting(problem, method)
    got = advantages_of(rewards, method, k, log_ratios=logs, form=form)
    assert np.isfinite(got).all()
    if method not in LEVEL:
        assert not got[np.ptp(rewards, axis=1) == 0].any()


@settings(max_examples=100)
@given(problems(), st.sampled_from(SHIFT_BLIND), FORMS, st.integers(-8, 8))
def test_a_shift_of_the_rewards_changes_no_advantage_of_steps(problem, method, form, shift):
    rewards, logs, k = fitting(problem, method)
    answers = answers_of(METHODS[method], rewards)
    got = advantages_of(rewards + shift, method, k, answers, log_ratios=logs, form=form)
    want = advantages_of(rewards, method, k, log_ratios=logs, form=form)
    if k > 1:
        np.testing.assert_array_equal(got, want)  # the steps of these rewards are exact
    else:
        np.testing.assert_allclose(got, want, atol=1e-14)


@settings(max_examples=100)
@given(problems(), st.sampled_from(LINEAR), FORMS, st.sampled_from([0.125, 4.0]))
def test_scale_equivariance(problem, method, form, factor):
    rewards, logs, k = fitting(problem, method)
    got = advantages_of(
        rewards * factor,
        method,
        k,
        answers_of(METHODS[method], rewards),
        log_ratios=logs,
        form=form,
    )
    want = advantages_of(rewards, method, k, log_ratios=logs, form=form)
    if METHODS[method].scale in ("mean", "subset_std"):  # free of units
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)
    elif METHODS[method].scale == "none":
        np.testing.assert_allclose(got, want * factor, rtol=1e-12, atol=1e-14)
    else:  # up to the epsilon of the division
        np.testing.assert_array_equal(np.sign(got.round(6)), np.sign(want.round(6)))


@settings(max_examples=150)
@given(problems(with_nan=True), st.sampled_from(SCALED), FORMS, st.integers(60, 1000))
def test_a_scale_is_right_for_the_largest_rewards(problem, method, form, power):
    rewards, logs, k = fitting(problem, method)
    # The epsilon of the std is below rounding on both sides.
    want = advantages_of(np.ldexp(rewards, 60), method, k, log_ratios=logs, form=form)
    got = advantages_of(np.ldexp(rewards, power), method, k, log_ratios=logs, form=form)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("method", SCALED)
def test_rewards_whose_spread_does_not_fit_a_float_are_refused(method):
    with pytest.raises(InvalidValueError, match="advantages: overflow; rewards or log_ratios"):
        advantages([[-1.7e308, 1.7e308, 1.7e308, 1.7e308]], method, k=2)


@settings(max_examples=80)
@given(problems(), FORMS, st.integers(-1000, -500))
def test_the_spread_of_subsets_is_right_for_the_smallest_rewards(problem, form, power):
    rewards, _, k = problem
    got = advantages(np.ldexp(rewards, power), "pass_at_k_training", k, form=form)
    want = advantages(rewards, "pass_at_k_training", k, form=form)
    np.testing.assert_allclose(got, want, rtol=1e-12)


@settings(max_examples=150)
@given(problems(), st.sampled_from(LOO), FORMS)
def test_leave_one_out_advantages_are_never_negative(problem, method, form):
    rewards, logs, k = problem
    if k > 1:
        assert (advantages_of(rewards, method, k, log_ratios=logs, form=form) >= 0).all()


@settings(max_examples=100)
@given(problems())
def test_max_at_k_lies_in_the_group_and_grows_with_k(problem):
    rewards, _, k = problem
    n = rewards.shape[1]
    values = max_at_k(rewards, range(1, n + 1))
    assert (np.diff(values, axis=1) >= -1e-12).all()
    np.testing.assert_allclose(values[:, 0], rewards.mean(axis=1), atol=1e-14)
    np.testing.assert_array_equal(values[:, -1], rewards.max(axis=1))
    np.testing.assert_array_equal(values[:, k - 1], max_at_k(rewards, k))
    smallest = -max_at_k(-rewards, k)
    assert (smallest <= values[:, k - 1] + 1e-12).all()


@settings(max_examples=100)
@given(st.integers(1, 60), st.data())
def test_pass_at_k_is_max_at_k_of_zeros_and_ones(n, data):
    correct = data.draw(st.integers(0, n))
    k = data.draw(st.integers(1, n))
    rewards = np.arange(n) < correct
    assert pass_at_k(n, correct, k) == pytest.approx(float(max_at_k(rewards, k)), abs=1e-14)


@pytest.mark.parametrize("method", NAMES)
@pytest.mark.parametrize("form", ["ppo", "reinforce"])
def test_float32_input_gives_float64_results(method, form):
    rng = np.random.default_rng(3)
    rewards = rng.random((4, 64)).astype(np.float32)
    logs = (rng.normal(size=(4, 64)) * 0.1).astype(np.float32)
    got = advantages_of(rewards, method, 16, log_ratios=logs, form=form)
    wide = advantages_of(
        rewards.astype(float), method, 16, log_ratios=logs.astype(float), form=form
    )
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got, wide)
    assert max_at_k(rewards, 16).dtype == np.float64


@settings(max_examples=60)
@given(problems())
def test_effective_sample_size_is_a_share(problem):
    _, logs, k = problem
    share = effective_sample_size(logs, k)
    assert ((share > 0) & (share <= 1 + 1e-12)).all()
    np.testing.assert_allclose(effective_sample_size(0 * logs + 0.3, k), 1, rtol=1e-12)


@settings(max_examples=60)
@given(
    logs=hnp.arrays(np.float64, 7, elements=st.floats(-1, 1)),
    k=st.integers(1, 7),
    spread=st.sampled_from([0.5, 60.0, 700.0, 1e5]),
    clamp=st.sampled_from([None, 0.5, 1.0, 2.0]),
)
@example(logs=np.eye(1, 7)[0], k=4, spread=60.0, clamp=None)
@example(logs=np.eye(1, 7)[0], k=2, spread=700.0, clamp=None)
def test_effective_sample_size_equals_enumeration_however_far_ratios_are_apart(
    logs, k, spread, clamp
):
    logs = spread * logs
    clamped = logs
    if clamp is not None:
        least = np.log(1 - clamp) if clamp < 1 else -np.inf
        clamped = np.clip(logs, least, np.log(1 + clamp))
    of_subsets = np.array([sum(chosen) for chosen in itertools.combinations(clamped, k)])
    weights = np.exp(of_subsets - of_subsets.max())
    expected = weights.mean() ** 2 / (weights**2).mean()
    got = effective_sample_size(logs[None], k, clamp=clamp)
    np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-300)


@settings(max_examples=80)
@given(
    hnp.arrays(np.float64, 6, elements=st.sampled_from([-1.0, 0.0, 0.5, 1.0, np.nan])),
    st.lists(st.sampled_from([-1.5, 0.0, 0.25, 1.0]), min_size=1, max_size=4).filter(any),
    st.sampled_from(sorted(RULES)),
    st.sampled_from(["none", "exact"]),
    st.sampled_from([1e-6, 1.0, 1e6]),
)
def test_random_weights_equal_enumeration(rewards, weights, baseline, correction, unit):
    scored = ~np.isnan(rewards)
    hypothesis.assume(scored.sum() > len(weights))
    if correction not in BASELINES[baseline].corrected:
        correction = "none"
    row = Method(credit=OrderWeights(tuple(weights)), baseline=baseline, correction=correction)
    logs = np.linspace(-0.3, 0.4, 6)
    got = advantages(unit * rewards[None], row, log_ratios=logs[None])[0]
    deltas = np.expm1(logs)[scored]
    want = subsets.advantages(list(rewards[scored]), deltas, 1, row)
    np.testing.assert_allclose(got[scored], unit * want, rtol=1e-9, atol=1e-12 * unit)
    assert not got[~scored].any()
