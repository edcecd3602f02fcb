"""The test of one model against another: an interval, and a p-value that goes with it."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from maxatk.errors import InvalidValueError
from maxatk.objectives import pass_at_k
from maxatk.statistics.intervals import mean_interval
from maxatk.statistics.significance import paired_difference


def compared(differences):
    values = np.array(differences, dtype=np.float64)[:, None]
    return paired_difference(values, 0 * values)


@pytest.mark.parametrize("count", [2, 29, 30, 80])
def test_interval_and_p_value_are_those_of_a_t_test(count):
    differences = np.random.default_rng(count).normal(0.3, 1, count)
    difference = compared(differences)
    expected = stats.ttest_1samp(differences, 0)
    ends = expected.confidence_interval(0.95)
    assert (difference.low[0], difference.high[0]) == pytest.approx((ends.low, ends.high))
    assert difference.p[0] == pytest.approx(max(expected.pvalue, 2.0 ** (1 - count)))


@pytest.mark.parametrize("problems", [30, 40])
def test_equal_models_are_told_apart_no_more_often_than_5_in_100(problems):
    # max@128 of 256 samples: most problems have no difference, and a few a large one. Resampled
    # means rejected 10 in 100 here.
    draw = np.random.default_rng(0)
    chances = np.random.default_rng(1).beta(0.4, 1.6, 100_000)
    odds = np.log(chances / (1 - chances))
    rejected = 0
    for _ in range(600):
        rows = draw.integers(len(chances), size=(problems, 1))
        moved = 1 / (1 + np.exp(-(odds[rows] + 0.8 * draw.standard_normal((2, problems, 1)))))
        one, other = (pass_at_k(256, draw.binomial(256, side), 128) for side in moved)
        rejected += paired_difference(one, other).p[0] < 0.05
    assert rejected / 600 <= 0.06


small = st.lists(st.integers(-3, 3).map(lambda i: i / 4), min_size=2, max_size=6)


@given(small)
def test_it_is_never_below_what_flipping_the_signs_can_give(differences):
    moved = [d for d in differences if d]
    sums = [
        sum(s * d for s, d in zip(signs, moved, strict=True))
        for signs in itertools.product((-1, 1), repeat=len(moved))
    ]
    smallest = min(1.0, 2 * np.mean(np.array(sums) >= sum(map(abs, moved)) - 1e-9))
    difference = compared(differences)
    assert difference.p[0] >= smallest - 1e-12
    assert difference.zeros[0] == len(differences) - len(moved)


@pytest.mark.parametrize("unmoved", [0, 25, 200])
def test_five_problems_that_moved_are_no_difference_however_many_did_not(unmoved):
    assert compared([1.0] * 5 + [0.0] * unmoved).p[0] >= 0.0625
    assert compared([1.0] * 12 + [0.0] * unmoved).p[0] < 0.05


@given(small)
def test_the_order_of_the_two_does_not_matter(differences):
    values = np.array(differences, dtype=np.float64)[:, None]
    one = paired_difference(values, 0 * values)
    other = paired_difference(0 * values, values)
    assert (one.p[0], one.low[0]) == pytest.approx((other.p[0], -other.high[0]), nan_ok=True)


def test_columns_are_tested_as_if_alone():
    draw = np.random.default_rng(3).normal(0.1, 1, (40, 6))
    draw[3, 2] = np.nan
    draw[:15, 4] = np.nan
    together = paired_difference(draw, 0 * draw)
    for at in range(6):
        alone = compared(draw[:, at])
        assert together.p[at] == pytest.approx(alone.p[0])
        ends = (alone.low[0], alone.high[0])
        assert (together.low[at], together.high[at]) == pytest.approx(ends)


@pytest.mark.parametrize(
    ("differences", "mean", "p"),
    [
        ([np.nan, np.nan], np.nan, 1.0),  # no problem in common
        ([0.5, np.nan], 0.5, 1.0),
        ([0.0] * 40, 0.0, 1.0),
        ([0.25] * 4, 0.25, 2.0**-3),
        ([0.1 + 0.2, 0.3, 0.3] * 3, 0.3, 2.0**-8),  # equal but for rounding
    ],
)
def test_without_a_spread_there_is_no_interval_and_p_is_that_of_the_signs(differences, mean, p):
    difference = compared(differences)
    assert difference.mean[0] == pytest.approx(mean, nan_ok=True)
    assert np.isnan([difference.low[0], difference.high[0]]).all()
    assert difference.p[0] == p


def test_pairing_finds_a_small_gain_between_very_different_problems():
    generator = np.random.default_rng(0)
    hard_to_easy = generator.random((100, 1))
    better = hard_to_easy + 0.02 + generator.normal(0, 0.02, (100, 1))
    difference = paired_difference(better, hard_to_easy)
    assert 0 < difference.low[0] < 0.02 < difference.high[0] < 0.04
    assert mean_interval(better).low[0] < mean_interval(hard_to_easy).high[0]


def test_a_problem_without_a_value_on_one_side_is_left_out():
    first = np.array([[1.0], [np.nan], [0.5]])
    second = np.array([[0.5], [0.0], [np.nan]])
    difference = paired_difference(first, second)
    assert (difference.mean[0], difference.problems[0]) == (0.5, 1)


def test_different_shapes_are_refused():
    with pytest.raises(InvalidValueError, match=r"values: must be of shape \(3, 1\), got \(2, 1\)"):
        paired_difference(np.zeros((2, 1)), np.zeros((3, 1)))
