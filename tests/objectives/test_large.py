"""Thousands of samples: finite, and equal to exact integer arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest

from maxatk.objectives import Method, advantages, effective_sample_size
from maxatk.objectives.symmetric import joined_sums, prefix_means

N, K = 4096, 1024
ON_POLICY = Method(credit="max_at_k")
EXACT = Method(credit="max_at_k", correction="exact")
FIRST = Method(credit="max_at_k", correction="first_order")


@pytest.fixture(scope="module")
def rewards():
    return np.random.default_rng(0).integers(0, 1 << 20, N)


def binomials(top, size):
    """C(j, size) for j = 0..top as Python integers."""
    values, current = [0] * size, 1
    for j in range(size, top + 1):
        values.append(current)
        current = current * (j + 1) // (j + 1 - size)
    return values


def exact_credits(numerators):
    """Eq. (9) in integers, in the order of the samples."""
    order = np.argsort(numerators, kind="stable")
    ascending = [int(x) for x in numerators[order]]
    diagonal, pairs = binomials(N, K - 1), binomials(N, K - 2)
    total, result = math.comb(N, K) << 20, np.empty(N)
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
    total, result, value = math.comb(N, K) << 20, np.empty(N), 0
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
    n, unit = 40, 1 << 8
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
    rewards, ratios = np.sort(rng.random((2, 7, 12)), axis=-1), np.exp(rng.normal(size=(7, 12)))
    whole = joined_sums(rewards, ratios, 5), prefix_means(ratios, 5)
    monkeypatch.setattr("maxatk.objectives.symmetric.TABLE_BYTES", 3 * 8 * 12 * 5)
    monkeypatch.setattr("maxatk.objectives.symmetric.ROW_BYTES", 2 * 8 * 6)
    blocks = joined_sums(rewards, ratios, 5), prefix_means(ratios, 5)
    np.testing.assert_allclose(blocks[0], whole[0], rtol=1e-14)
    np.testing.assert_allclose(blocks[1], whole[1], rtol=1e-14)
