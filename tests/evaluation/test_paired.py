"""The test of one model against another: an interval, and a p-value that goes with it."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from maxatk.evaluation.statistics.paired import paired_difference


def compared(differences, **options):
    values = np.array(differences, dtype=np.float64)[:, None]
    return paired_difference(values, 0 * values, **options)


def test_below_30_problems_the_p_value_is_that_of_a_t_test():
    differences = np.random.default_rng(0).normal(0.3, 1, 20)
    expected = stats.ttest_1samp(differences, 0).pvalue
    assert compared(differences).p[0] == pytest.approx(expected)


def test_from_30_problems_on_it_is_twice_the_share_of_resampled_means_beyond_zero():
    differences = np.random.default_rng(1).normal(0.25, 1, 60)
    found = compared(differences)
    draw = np.random.default_rng(9)
    means = draw.choice(differences, size=(20_000, 60)).mean(axis=1)
    assert found.p[0] == pytest.approx(2 * (means <= 0).mean(), abs=0.01)


@pytest.mark.parametrize("count", [12, 29, 30, 80])
@pytest.mark.parametrize("shift", [0.0, 0.1, 0.3, 0.6])
def test_interval_and_p_value_say_the_same(count, shift):
    differences = np.random.default_rng(count).normal(shift, 1, count)
    found = compared(differences)
    assert (found.p[0] < 0.05) == (found.low[0] > 0 or found.high[0] < 0)


small = st.lists(st.integers(-3, 3).map(lambda i: i / 4), min_size=2, max_size=6)


@given(small)
def test_it_is_never_below_what_flipping_the_signs_can_give(differences):
    moved = [d for d in differences if d]
    sums = [
        sum(s * d for s, d in zip(signs, moved, strict=True))
        for signs in itertools.product((-1, 1), repeat=len(moved))
    ]
    smallest = min(1.0, 2 * np.mean(np.array(sums) >= sum(map(abs, moved)) - 1e-9))
    found = compared(differences)
    assert found.p[0] >= smallest - 1e-12
    assert found.zeros[0] == len(differences) - len(moved)


@pytest.mark.parametrize("others", [0, 25, 200])
def test_five_problems_that_moved_are_no_difference_however_many_did_not(others):
    assert compared([1.0] * 5 + [0.0] * others).p[0] >= 0.0625
    assert compared([1.0] * 12 + [0.0] * others).p[0] < 0.05


@given(small)
def test_the_order_of_the_two_does_not_matter(differences):
    values = np.array(differences, dtype=np.float64)[:, None]
    one, other = paired_difference(values, 0 * values), paired_difference(0 * values, values)
    assert (one.p[0], one.low[0]) == pytest.approx((other.p[0], -other.high[0]), nan_ok=True)


def test_columns_are_tested_as_if_alone():
    draw = np.random.default_rng(3).normal(0.1, 1, (40, 6))
    draw[3, 2] = np.nan
    draw[:15, 4] = np.nan
    together = paired_difference(draw, 0 * draw)
    for at in range(6):
        alone = compared(draw[:, at])
        part = together.columns(at, 1)
        assert part.p == pytest.approx(alone.p)
        assert (part.low[0], part.high[0]) == pytest.approx((alone.low[0], alone.high[0]))


def test_without_a_problem_in_common_nothing_is_told_apart():
    assert compared([np.nan, np.nan]).p[0] == 1.0
