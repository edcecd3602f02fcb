import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from maxatk.errors import InvalidValueError
from maxatk.statistics.significance import adjusted_p_values, wilcoxon


def brute_p(differences):
    """Two-sided p-value by going through all signs of the ranks."""
    moved = [d for d in differences if d != 0]
    if not moved:
        return 1.0
    sizes = [abs(d) for d in moved]
    ranks = [
        sum(other < size for other in sizes) + (sum(other == size for other in sizes) + 1) / 2
        for size in sizes
    ]
    rank_sum = sum(rank for rank, d in zip(ranks, moved, strict=True) if d > 0)
    sums = [
        sum(rank for rank, sign in zip(ranks, signs, strict=True) if sign)
        for signs in itertools.product([False, True], repeat=len(ranks))
    ]
    below = sum(s <= rank_sum for s in sums)
    above = sum(s >= rank_sum for s in sums)
    return min(1.0, 2 * min(below, above) / len(sums))


quarters = st.lists(st.integers(-4, 4).map(lambda i: i / 4), min_size=1, max_size=9)


@given(quarters)
def test_small_samples_equal_the_enumeration_of_all_signs(differences):
    p = wilcoxon(np.array(differences), np.zeros(len(differences)))
    assert p == pytest.approx(brute_p(differences), abs=1e-12)


@given(quarters, st.randoms(use_true_random=False))
def test_the_order_of_models_and_problems_does_not_matter(differences, order):
    values = np.array(differences)
    shuffled = list(differences)
    order.shuffle(shuffled)
    expected = wilcoxon(values, 0 * values)
    assert wilcoxon(0 * values, values) == pytest.approx(expected)
    assert wilcoxon(np.array(shuffled), 0 * values) == pytest.approx(expected)


@pytest.mark.parametrize("size", [20, 90, 400])
def test_agrees_with_scipy_without_ties(size):
    values = np.random.default_rng(size).normal(0.1, 1.0, size)
    expected = stats.wilcoxon(values, method="exact" if size <= 100 else "approx").pvalue
    assert wilcoxon(values, 0 * values) == pytest.approx(expected, abs=1e-6)


def test_ties_are_recognised_in_spite_of_rounding():
    # 0.3 - 0.1 is not 0.2 in floating point, but the same difference.
    values = np.array([0.3, 0.0, 0.7])
    baseline = np.array([0.1, 0.2, 0.5])
    assert wilcoxon(values, baseline) == brute_p([2, -2, 2])
    assert wilcoxon(np.array([0.1 + 0.2]), np.array([0.3])) == 1.0


def test_problems_without_a_value_on_one_side_are_left_out():
    values = np.array([1.0, np.nan, 0.5, 0.2])
    baseline = np.array([0.5, 0.1, np.nan, 0.1])
    assert wilcoxon(values, baseline) == brute_p([0.5, 0.1])
    assert wilcoxon(values[:0], baseline[:0]) == 1.0


def test_different_shapes_are_refused():
    with pytest.raises(InvalidValueError, match=r"of shape \(3,\), got \(2,\)"):
        wilcoxon(np.zeros(2), np.zeros(3))


def brute_discoveries(p_values, level):
    """The step-up procedure as Benjamini and Hochberg wrote it."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    most = 0
    for rank, i in enumerate(order, start=1):
        if p_values[i] <= rank / len(p_values) * level:
            most = rank
    return set(order[:most])


@given(
    st.lists(st.integers(0, 997).map(lambda i: i / 997), min_size=1, max_size=12),
    st.sampled_from([0.0311, 0.0507, 0.2003]),
)
def test_discoveries_are_those_of_the_step_up_procedure(p_values, level):
    adjusted = adjusted_p_values(p_values)
    assert {i for i, p in enumerate(adjusted) if p <= level} == brute_discoveries(p_values, level)
    assert all(p <= q for p, q in zip(p_values, adjusted, strict=True))


def test_one_test_needs_no_correction_and_none_is_fine():
    assert adjusted_p_values([0.03]) == [0.03]
    assert adjusted_p_values([]) == []


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_what_is_no_p_value_is_refused(p):
    with pytest.raises(ValueError, match="between 0 and 1"):
        adjusted_p_values([0.5, p])
