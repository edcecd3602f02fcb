import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from maxatk.errors import InvalidValueError
from maxatk.evaluation.statistics.seeds import seed_difference, sign_flip_p, smallest_sign_flip_p

seeds = st.lists(st.integers(-50, 50).map(lambda i: i / 1000), min_size=3, max_size=8)


@given(seeds.filter(lambda values: np.std(values) > 1e-3))
def test_interval_and_p_are_those_of_a_t_test_over_seeds(differences):
    found = seed_difference(differences)
    expected = stats.ttest_1samp(differences, 0.0)
    ends = expected.confidence_interval(0.95)
    assert found.p == pytest.approx(expected.pvalue, abs=1e-9)
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high), abs=1e-9)
    assert found.mean == pytest.approx(np.mean(differences))


@given(seeds)
def test_sign_flips_equal_the_enumeration_of_all_signs(differences):
    sums = [
        sum(sign * d for sign, d in zip(signs, differences, strict=True))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    expected = np.mean([abs(s) >= abs(sum(differences)) - 1e-12 for s in sums])
    assert sign_flip_p(differences) == pytest.approx(expected)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_no_sign_flip_is_below_that_of_seeds_that_agree(count):
    assert sign_flip_p([0.01 * (i + 1) for i in range(count)]) == smallest_sign_flip_p(count)


def test_the_published_difference_of_five_seeds_is_not_one():
    found = seed_difference([-0.007, 0.028, 0.019, 0.051, 0.003])
    assert (found.low, found.high) == pytest.approx((-0.009, 0.047), abs=5e-4)
    assert found.p == pytest.approx(0.13, abs=0.01)
    assert found.sign_flip_p == 0.1875
    assert found.above == 4


def test_the_interval_covers_the_truth_as_often_as_it_says():
    draw = np.random.default_rng(0)
    drawn = (seed_difference(draw.normal(0.02, 0.03, 5)) for _ in range(1000))
    covered = sum(d.low <= 0.02 <= d.high for d in drawn)
    assert 0.93 <= covered / 1000 <= 0.97


def test_two_seeds_are_no_test():
    found = seed_difference([0.01, 0.02])
    assert (found.mean, found.low, found.high, found.p) == (0.015, None, None, None)
    assert found.sign_flip_p == 0.5


@pytest.mark.parametrize("differences", [[0.5] * 3, [-1.5 / 26] * 3, [0.1 + 0.2, 0.3, 0.3]])
def test_seeds_that_agree_to_the_last_bit_have_no_interval_and_the_p_of_the_sign_flips(differences):
    found = seed_difference(differences)
    assert (found.low, found.high) == (None, None)  # few problems and rewards, and no spread at all
    assert found.p == found.sign_flip_p == smallest_sign_flip_p(3)


def test_seeds_without_any_difference_have_p_1():
    same = seed_difference([0.0] * 3)
    assert (same.p, same.low, same.high, same.sign_flip_p) == (1.0, None, None, 1.0)


def test_many_seeds_have_no_sign_flips():
    assert sign_flip_p([0.1] * 21) is None
    assert seed_difference([0.1, *([0.2] * 20)]).p < 0.001


@pytest.mark.parametrize("differences", [[], [0.1, float("nan"), 0.2]])
def test_a_seed_without_a_difference_is_refused(differences):
    with pytest.raises(InvalidValueError, match="by_seed: must hold a finite difference"):
        seed_difference(differences)
