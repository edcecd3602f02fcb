"""Advantages of any function of a group, and what a method weighs."""

import math

import numpy as np
import pytest

from maxatk.errors import InvalidValueError
from maxatk.objectives import (
    METHODS,
    Method,
    OrderWeights,
    advantages,
    influence,
    max_at_k,
    weighting,
)

REWARDS = np.random.default_rng(0).random((3, 6))


def test_the_maximum_of_a_group_has_the_advantages_of_its_row():
    want = advantages(REWARDS, "bon_replace", 6)
    np.testing.assert_allclose(influence(max, REWARDS), want, atol=1e-15)
    np.testing.assert_allclose(
        influence(np.mean, REWARDS, "remove_one"), advantages(REWARDS, "rloo") / 6, atol=1e-15
    )


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_all_subsets_give_the_leave_one_out_advantages(k):
    want = advantages(REWARDS, "bon_loo1", k)
    np.testing.assert_allclose(influence(max, REWARDS, k=k), want, atol=1e-14)
    row = Method(credit=OrderWeights.quantile(0.4, of=k), baseline="leave_one_out")
    got = influence(lambda group: np.quantile(group, 0.4), REWARDS, k=k)
    np.testing.assert_allclose(got, advantages(REWARDS, row), atol=1e-14)


def test_drawn_subsets_are_right_on_average_and_repeat():
    exact = influence(max, REWARDS[:1], k=3)
    drawn = [influence(max, REWARDS[:1], k=3, draws=10, seed=seed)[0] for seed in range(300)]
    error = np.abs(np.mean(drawn, axis=0) - exact[0])
    assert (error <= 4 * np.std(drawn, axis=0) / np.sqrt(300) + 1e-15).all()
    np.testing.assert_array_equal(drawn[7], influence(max, REWARDS[:1], k=3, draws=10, seed=7)[0])


def test_samples_may_be_anything():
    groups = [["yes", "no", "yes"], ["no", "no", "no"]]
    got = influence(lambda group: len(set(group)), groups)
    np.testing.assert_allclose(got, [[0, 1, 0], [0, 0, 0]])


def test_influence_refuses():
    with pytest.raises(InvalidValueError, match="groups must have one size, got \\[1, 2\\]"):
        influence(max, [[1.0], [1.0, 2.0]])
    with pytest.raises(InvalidValueError, match="got k=7 with 6 samples"):
        influence(max, REWARDS, k=7)
    with pytest.raises(InvalidValueError, match="baseline: unknown value 'replace'"):
        influence(max, REWARDS, "replace")
    for returned in (None, math.nan, "1", [1.0, 2.0]):
        with pytest.raises(InvalidValueError, match=r"statistic: .* must be a finite number, got"):
            influence(lambda _, returned=returned: returned, REWARDS)


RATES = np.array([0.0, 0.05, 0.2, 0.5, 0.8, 1.0])


@pytest.mark.parametrize("name", [name for name, m in METHODS.items() if m.unbiased_for == "max@k"])
@pytest.mark.parametrize("k", [1, 4, 7])
def test_rows_for_max_at_k_weigh_its_derivative(name, k):
    got = weighting(name, 8, k, RATES)
    np.testing.assert_allclose(got, k * (1 - RATES) ** (k - 1), atol=1e-12)


def test_the_weights_of_other_rows():
    some = RATES[1:5]
    np.testing.assert_allclose(weighting("grpo", 8, 4, some), [18.5, 15.8, 13.9, 15.8], rtol=0.01)
    np.testing.assert_allclose(weighting("bon_mean", 8, 4, some), [18.5, 15.5, 8.9, 1.3], rtol=0.03)
    np.testing.assert_allclose(weighting("rloo", 8, 4, RATES), 8)
    np.testing.assert_allclose(weighting("min_at_k", 8, 4, RATES), 4 * RATES**3, atol=1e-12)
    likely = [sum((1 - p) ** j for j in range(8)) for p in RATES]  # the sum of max@j / j, j to 8
    np.testing.assert_allclose(weighting("max_likelihood", 8, 4, RATES), likely, rtol=1e-12)
    one_less = [8 * sum((1 - p) ** j for j in range(7)) for p in RATES]  # order n - 1, times n
    np.testing.assert_allclose(weighting("max_rl", 8, 4, RATES), one_less, rtol=1e-12)


def test_weighting_is_the_derivative_of_the_metric():
    # Right and wrong answers of one kind each: the plurality is the right one or is not.
    slope = 1e-6

    def majority(p):
        return p**3 + 3 * p**2 * (1 - p)

    for p in (0.1, 0.5, 0.7):
        want = (majority(p + slope) - majority(p - slope)) / (2 * slope)
        assert weighting("majority", 6, 3, p) == pytest.approx(want, rel=1e-6)
    assert max_at_k([1.0, 0.0], 1) == 0.5


def test_weighting_refuses_rates_outside_their_range():
    with pytest.raises(InvalidValueError, match=r"rates: must be from 0 to 1, got 1\.5"):
        weighting("grpo", 4, 2, [0.5, 1.5])
