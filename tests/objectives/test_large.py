"""Thousands of samples: finite, and equal to exact integer arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest

from maxatk.objectives import (
    Method,
    OrderWeights,
    advantages,
    effective_sample_size,
    max_at_k,
    order_at_k,
)
from maxatk.objectives.subsets import shares_below
from maxatk.objectives.symmetric import joined_sums, prefix_means, stepwise_sums

N = 4096
K = 1024
ON_POLICY = Method(credit="max_at_k")
EXACT = Method(credit="max_at_k", correction="exact")
FIRST = Method(credit="max_at_k", correction="first_order")


@pytest.fixture(scope="module")
def rewards():
    return np.random.default_rng(0).integers(0, 1 << 20, N)


def binomials(top, size):
    """C(j, size) for j = 0..top as Python integers."""
    values = [0] * size
    current = 1
    for j in range(size, top + 1):
        values.append(current)
        current = current * (j + 1) // (j + 1 - size)
    return values


def exact_credits(numerators):
    """Eq. (9) in integers, in the order of the samples."""
    order = np.argsort(numerators, kind="stable")
    ascending = [int(x) for x in numerators[order]]
    diagonal = binomials(N, K - 1)
    pairs = binomials(N, K - 2)
    total = math.comb(N, K) << 20
    result = np.empty(N)
    after = 0
    for j in range(N, 0, -1):
        value = diagonal[j - 1] * ascending[j - 1] + after
        result[order[j - 1]] = float(Fraction(value, total))
        after += pairs[j - 2] * ascending[j - 1] if j >= 2 else 0
    return result


def exact_leave_one_out(numerators):
    """The LOO-1 advantages in integers, in the order of the samples."""
    order = np.argsort(numerators, kind="stable")
    ascending = [int(x) for x in numerators[order]]
    below = binomials(N, K - 1)
    total = math.comb(N, K) << 20
    result = np.empty(N)
    value = 0
    for j in range(N):
        value += below[j] * (ascending[j] - ascending[j - 1]) if j else 0
        result[order[j]] = float(Fraction(value, total))
    return result


def test_on_policy_credits(rewards):
    got = advantages(rewards[None] / (1 << 20), ON_POLICY, K)[0]
    np.testing.assert_allclose(got, exact_credits(rewards), rtol=2e-13)


def test_leave_one_out(rewards):
    got = advantages(rewards[None] / (1 << 20), "bon_loo1", K)[0]
    np.testing.assert_allclose(got, exact_leave_one_out(rewards), rtol=2e-12, atol=1e-300)


def test_equal_ratios_factor_out_of_the_exact_correction(rewards):
    logs = np.full((1, N), 0.01)
    one = advantages(rewards[None], EXACT, K)
    got = advantages(rewards[None], EXACT, K, log_ratios=logs)
    np.testing.assert_allclose(got, one * math.exp(0.01 * (K - 1)), rtol=1e-11)
    plain = advantages(rewards[None], "bon_loo1", K)
    loo = advantages(rewards[None], "bon_off_policy_exact", K, log_ratios=logs)
    np.testing.assert_allclose(loo, plain * math.exp(0.01 * (K - 1)), rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize("method", ["bon_off_policy", "bon_off_policy_exact", FIRST])
def test_everything_is_finite_with_ratios_at_the_clamp(method, rewards):
    logs = np.where(np.random.default_rng(1).random((1, N)) < 0.5, -3.0, 3.0)
    for form in ("ppo", "reinforce"):
        assert np.isfinite(
            advantages(rewards[None] / (1 << 20), method, K, log_ratios=logs, form=form)
        ).all()
    assert 0 <= effective_sample_size(logs, K)[0] < 1e-30


def elementary(values, top):
    """e_0..e_top of integers."""
    sums = [1] + [0] * top
    for value in values:
        for m in range(top, 0, -1):
            sums[m] += value * sums[m - 1]
    return sums


@pytest.mark.parametrize("k", [2, 11, 39, 40])
def test_exact_correction_equals_integers_for_unequal_ratios(k):
    n = 40
    unit = 1 << 8
    rng = np.random.default_rng(k)
    rewards = np.sort(rng.integers(0, 1 << 10, n))
    ratios = rng.integers(unit // 2, 2 * unit, n)
    got = joined_sums(rewards[None, None].astype(float), ratios[None] / unit, k)[0, 0]
    for i in range(n):
        others = [j for j in range(n) if j != i]
        value = int(rewards[i]) * elementary([int(ratios[j]) for j in others if j < i], k - 1)[-1]
        for j in others[i:]:
            before = [int(ratios[x]) for x in others if x < j]
            value += int(rewards[j]) * int(ratios[j]) * elementary(before, k - 1)[k - 2]
        want = float(Fraction(value, math.comb(n, k) * unit ** (k - 1)))
        assert got[i] == pytest.approx(want, rel=1e-13)


def test_blocks_of_prompts_change_nothing(monkeypatch):
    rng = np.random.default_rng(5)
    rewards = np.sort(rng.random((2, 7, 12)), axis=-1)
    ratios = np.exp(rng.normal(size=(7, 12)))
    sums = joined_sums(rewards, ratios, 5)
    means = prefix_means(ratios, 5)
    steps = np.diff(rewards[0])
    weights = np.linspace(-1, 1, 5)
    any_weights = stepwise_sums(steps, ratios, weights, weights**2)
    monkeypatch.setattr("maxatk.objectives.symmetric.TABLE_BYTES", 3 * 8 * 12 * 5)
    monkeypatch.setattr("maxatk.objectives.symmetric.ROW_BYTES", 2 * 8 * 6)
    np.testing.assert_allclose(joined_sums(rewards, ratios, 5), sums, rtol=1e-14)
    np.testing.assert_allclose(prefix_means(ratios, 5), means, rtol=1e-14)
    again = stepwise_sums(steps, ratios, weights, weights**2)
    np.testing.assert_allclose(again, any_weights, rtol=1e-13)


RANKS = {1: 0.5, 512: -2.0, 1000: 1.0}  # of the samples of a subset, from the lowest


@pytest.fixture(scope="module")
def integer_weights():
    """C(n, k) W_j of the weights in `RANKS`, doubled, as integers."""
    whole = [0] * N
    for rank, weight in RANKS.items():
        below = binomials(N, rank - 1)
        above = binomials(N, K - rank)
        for j in range(1, N + 1):
            whole[j - 1] += int(2 * weight) * below[j - 1] * above[N - j]
    return whole


def by_rank():
    values = np.zeros(K)
    values[np.array(list(RANKS)) - 1] = list(RANKS.values())
    return OrderWeights(tuple(values))


def test_order_weights_of_thousands_equal_integers(integer_weights):
    total = 2 * math.comb(N, K)
    want = np.array([float(Fraction(value, total)) for value in integer_weights])
    np.testing.assert_allclose(by_rank().of_group(N), want, rtol=1e-11, atol=1e-290)


def test_replace_one_of_any_weights_equals_integers(rewards, integer_weights):
    order = np.argsort(rewards, kind="stable")
    steps = np.diff(rewards[order]).tolist()
    below = list(range(1, N))
    up = [m * integer_weights[m] for m in below]
    down = [(N - m) * integer_weights[m - 1] for m in below]
    value = -sum(d * s for d, s in zip(down, steps, strict=True))
    total = (2 * (N - 1) * math.comb(N, K)) << 20
    want = np.empty(N)
    for place in range(N):
        want[order[place]] = float(Fraction(value, total))
        if place < N - 1:
            value += (up[place] + down[place]) * steps[place]
    row = Method(credit=by_rank(), baseline="replace_one")
    got = advantages(rewards[None] / (1 << 20), row)[0]
    np.testing.assert_allclose(got, want, rtol=1e-11)
    metric = sum(w * int(r) for w, r in zip(integer_weights, np.sort(rewards), strict=True))
    exact = float(Fraction(metric, (2 * math.comb(N, K)) << 20))
    assert order_at_k(rewards / (1 << 20), by_rank()) == pytest.approx(exact, rel=1e-11)


def test_thousands_of_ks_at_once_equal_the_mean_of_their_metrics(rewards):
    few = rewards[:700] / (1 << 20)
    want = max_at_k(few, range(1, 701)).mean()
    assert order_at_k(few, OrderWeights.any_k(700)) == pytest.approx(float(want), rel=1e-12)
    weights = max_at_k(few, range(1, 701)) @ (1 / np.arange(1, 701))
    assert order_at_k(few, OrderWeights.harmonic()) == pytest.approx(float(weights), rel=1e-12)


@pytest.mark.parametrize(("n", "k"), [(300, 100), (64, 64), (90, 2)])
def test_the_two_tables_of_any_weights_agree_with_the_one_of_a_maximum(n, k):
    rng = np.random.default_rng(k)
    rewards = np.sort(rng.random((3, n)))
    ratios = np.exp(rng.normal(size=(3, n)) * 0.3)
    gains = rewards - rewards[:, :1]
    want = joined_sums(gains[None], ratios, k)[0]
    value = np.ones(k)  # of a subset with a member above the step
    charge = -np.append(np.ones(k - 1), 0.0)
    got = stepwise_sums(np.diff(gains), ratios, value, charge)
    np.testing.assert_allclose(got, want, rtol=1e-10)


def test_shares_below_a_step_equal_integers():
    n = 1000
    k = 300
    shares = shares_below(n, k)
    for low in (0, 1, 299, 300, 500, 700, 701, 999, 1000):
        counts = [math.comb(low, q) * math.comb(n - low, k - q) for q in range(k + 1)]
        want = [float(Fraction(count, math.comb(n, k))) for count in counts]
        np.testing.assert_allclose(shares[low], want, rtol=1e-11, atol=1e-290)
