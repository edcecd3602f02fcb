"""max@k and pass@k against enumeration and exact integers."""

import math
from fractions import Fraction

import numpy as np
import pytest

from maxatk.objectives import majority_at_k, max_at_k, pass_at_k
from oracles import subsets


@pytest.mark.parametrize("n", range(1, 10))
def test_max_at_k_equals_enumeration(n):
    rng = np.random.default_rng(n)
    for rewards in (rng.random(n), rng.normal(size=n), rng.integers(0, 3, n)):
        for k in range(1, n + 1):
            want = subsets.max_at_k(list(rewards), k)
            assert max_at_k(rewards, k) == pytest.approx(want, rel=1e-14, abs=1e-15)


def test_shapes_follow_the_rewards_and_k():
    rewards = np.random.default_rng(0).random((2, 3, 8))
    assert max_at_k(rewards, 4).shape == (2, 3)
    assert max_at_k(rewards, [4]).shape == (2, 3, 1)
    assert max_at_k(rewards, (1, 2, 8)).shape == (2, 3, 3)
    assert max_at_k(rewards, np.array([1, 8])).shape == (2, 3, 2)
    assert max_at_k(rewards[0, 0], 2).shape == ()
    np.testing.assert_array_equal(max_at_k(rewards, [2, 4])[..., 1], max_at_k(rewards, 4))
    assert max_at_k(np.zeros((0, 8)), [1, 2]).shape == (0, 2)


def test_unscorable_samples_leave_the_group():
    nan = np.nan
    rewards = [[1, nan, 0, 0], [nan, nan, 0.5, nan], [nan] * 4, [0, 0, 0, 1]]
    np.testing.assert_allclose(
        max_at_k(rewards, [1, 2, 4]),
        [[1 / 3, 2 / 3, nan], [0.5, nan, nan], [nan] * 3, [0.25, 0.5, 1]],
    )


def test_equal_rewards_are_returned_exactly():
    for n, k in [(7, 3), (256, 128), (5000, 1000)]:
        assert max_at_k(np.full(n, 0.1), k) == 0.1
        assert max_at_k(np.full(n, -3.3), k) == -3.3
    chosen_by = np.random.default_rng(0).integers(0, 5, (50, 16))
    for k in (1, 2, 8):
        for reward in (0.1, 1.0):
            rewards = np.full((50, 16), reward)
            assert (max_at_k(rewards, k, selection=chosen_by) == reward).all()
            assert (majority_at_k(rewards, chosen_by, k) == reward).all()


def test_min_at_k_is_the_negated_metric():
    rewards = np.array([0.2, 0.9, 0.4])
    assert -max_at_k(-rewards, 2) == pytest.approx((0.2 + 0.2 + 0.4) / 3)


@pytest.mark.parametrize(("n", "k"), [(256, 128), (4096, 1024), (5000, 4999), (20000, 3)])
def test_many_samples_equal_exact_integers(n, k):
    numerators = np.sort(np.random.default_rng(k).integers(0, 1 << 20, n))
    total = 0
    subsets_below = 1  # C(j, k-1), from j = k-1 on
    for j in range(k - 1, n):
        total += subsets_below * int(numerators[j])
        subsets_below = subsets_below * (j + 1) // (j + 2 - k)
    want = float(Fraction(total, math.comb(n, k) << 20))
    assert max_at_k(numerators / (1 << 20), k) == pytest.approx(want, rel=1e-13)


@pytest.mark.parametrize("n", [1, 5, 200, 3000])
def test_pass_at_k_equals_exact_integers(n):
    for k in sorted({1, min(n, 4), n // 2 + 1, n}):
        correct = np.unique(np.linspace(0, n, 9).astype(int))
        want = [float(1 - Fraction(math.comb(n - int(c), k), math.comb(n, k))) for c in correct]
        np.testing.assert_allclose(pass_at_k(n, correct, k), want, rtol=1e-12)


def test_pass_at_k_broadcasts():
    got = pass_at_k([[10], [20]], [0, 3, 10], 5)
    assert got.shape == (2, 3)
    assert got[0].tolist() == [0.0, pytest.approx(1 - 21 / 252), 1.0]
    assert pass_at_k(10, 3, [1, 10]).tolist() == [pytest.approx(0.3), 1.0]
    assert pass_at_k(4, 2, 2).shape == ()
    assert pass_at_k([], [], 1).shape == (0,)
