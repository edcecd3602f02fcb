import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from maxatk.errors import InvalidValueError
from maxatk.evaluation.statistics.intervals import (
    bootstrap_mean,
    check_ks,
    default_ks,
    histogram,
    mean_interval,
    metric_values,
    student_mean,
)
from maxatk.evaluation.statistics.paired import paired_difference


def test_default_ks():
    assert default_ks(1) == [1]
    assert default_ks(8) == [1, 2, 4, 8]
    assert default_ks(100) == [1, 2, 4, 8, 16, 32, 64, 100]


@pytest.mark.parametrize("k", [0, -1, 9, 2.0, True])
def test_a_k_outside_the_samples_is_refused(k):
    with pytest.raises(InvalidValueError, match="from 1 to the 8 samples"):
        check_ks([1, k], 8)


def test_ks_are_sorted_and_unique():
    assert check_ks([8, 2, 2], 8) == [2, 8]


rewards_of_a_problem = st.lists(
    st.sampled_from([0.0, 0.25, 0.5, 1.0, np.nan]), min_size=6, max_size=6
)


@given(st.lists(rewards_of_a_problem, min_size=1, max_size=3))
def test_metrics_equal_the_mean_over_all_subsets(rewards):
    values = metric_values(np.array(rewards), [1, 3, 5])
    for row, column in itertools.product(range(len(rewards)), range(3)):
        k = [1, 3, 5][column]
        scored = [r for r in rewards[row] if not np.isnan(r)]
        subsets = list(itertools.combinations(scored, k))
        best = np.mean([max(s) for s in subsets]) if subsets else np.nan
        passed = np.mean([any(r >= 1 for r in s) for s in subsets]) if subsets else np.nan
        np.testing.assert_allclose(values["max@k"][row, column], best)
        np.testing.assert_allclose(values["pass@k"][row, column], passed)


def brute_bootstrap(values, resamples, seed):
    generator = np.random.default_rng(seed)
    means = []
    for start in range(0, resamples, 500):
        block = generator.integers(len(values), size=(min(500, resamples - start), len(values)))
        means.extend(np.nanmean(values[rows], axis=0) for rows in block)
    return np.quantile(means, [0.025, 0.975], axis=0)


def test_bootstrap_equals_a_loop():
    values = np.random.default_rng(1).random((20, 3))
    values[4, 1] = np.nan
    found = bootstrap_mean(values, resamples=700, seed=5)
    low, high = brute_bootstrap(values, 700, 5)
    np.testing.assert_allclose(found.low, low)
    np.testing.assert_allclose(found.high, high)
    np.testing.assert_allclose(found.mean, np.nanmean(values, axis=0))
    assert found.problems.tolist() == [20, 19, 20]


def test_interval_of_a_normal_sample_is_the_known_one():
    values = np.random.default_rng(0).normal(2.0, 3.0, (400, 1))
    found = bootstrap_mean(values)
    half = 1.96 * values.std() / 20
    assert found.low[0] == pytest.approx(found.mean[0] - half, abs=0.02)
    assert found.high[0] == pytest.approx(found.mean[0] + half, abs=0.02)


def test_interval_covers_the_truth_about_as_often_as_it_says():
    generator = np.random.default_rng(0)
    truth, covered = 0.3, 0
    for _ in range(200):
        found = bootstrap_mean((generator.random((60, 1)) < truth) * 1.0, resamples=500)
        covered += found.low[0] <= truth <= found.high[0]
    assert 0.88 <= covered / 200 <= 0.99


def test_interval_of_equal_values_is_a_point():
    found = bootstrap_mean(np.full((5, 2), 0.25))
    assert found.low.tolist() == found.high.tolist() == found.mean.tolist() == [0.25, 0.25]


def test_a_column_without_values_is_nan():
    values = np.array([[1.0, np.nan], [0.0, np.nan]])
    found = bootstrap_mean(values, resamples=100)
    assert np.isnan([found.mean[1], found.low[1], found.high[1]]).all()
    assert found.problems.tolist() == [2, 0]
    assert found.mean[0] == 0.5


def test_bootstrap_is_seeded():
    values = np.random.default_rng(0).random((10, 1))
    assert bootstrap_mean(values).low == bootstrap_mean(values).low
    assert bootstrap_mean(values).low != bootstrap_mean(values, seed=1).low


def test_students_interval_is_that_of_scipy():
    values = np.random.default_rng(3).random((7, 2))
    values[0, 1] = np.nan
    found = student_mean(values, level=0.9)
    for column in range(2):
        kept = values[~np.isnan(values[:, column]), column]
        ends = stats.t.interval(0.9, len(kept) - 1, kept.mean(), stats.sem(kept))
        assert (found.low[column], found.high[column]) == pytest.approx(ends)
        assert found.mean[column] == pytest.approx(kept.mean())
    assert found.problems.tolist() == [7, 6]


def test_few_problems_get_students_interval_and_many_the_bootstrap():
    values = np.random.default_rng(4).random((30, 2))
    values[0, 1] = np.nan
    found = mean_interval(values, resamples=200)
    resampled, student = bootstrap_mean(values, resamples=200), student_mean(values)
    assert (found.low[0], found.high[0]) == (resampled.low[0], resampled.high[0])
    assert (found.low[1], found.high[1]) == (student.low[1], student.high[1])
    assert mean_interval(values[:29]).low[0] == student_mean(values[:29]).low[0]


def test_over_few_problems_students_interval_covers_the_truth_and_the_bootstrap_does_not():
    generator = np.random.default_rng(0)
    covered = dict.fromkeys((mean_interval, bootstrap_mean), 0)
    for _ in range(400):
        values = generator.beta(0.5, 1.5, (5, 1))
        for interval in covered:
            found = interval(values, resamples=300)
            covered[interval] += found.low[0] <= 0.25 <= found.high[0]
    assert covered[mean_interval] / 400 > 0.88
    assert covered[bootstrap_mean] / 400 < 0.85


def test_one_problem_has_a_mean_and_no_interval():
    found = mean_interval(np.array([[0.5]]))
    assert found.mean[0] == 0.5
    assert np.isnan([found.low[0], found.high[0]]).all()


def test_pairing_finds_a_small_gain_between_very_different_problems():
    generator = np.random.default_rng(0)
    hard_to_easy = generator.random((100, 1))
    better = hard_to_easy + 0.02 + generator.normal(0, 0.02, (100, 1))
    difference = paired_difference(better, hard_to_easy)
    assert 0 < difference.low[0] < 0.02 < difference.high[0] < 0.04
    assert bootstrap_mean(better).low[0] < bootstrap_mean(hard_to_easy).high[0]


def test_paired_difference_leaves_unscored_problems_out():
    a = np.array([[1.0], [np.nan], [0.5]])
    b = np.array([[0.5], [0.0], [np.nan]])
    found = paired_difference(a, b, resamples=100)
    assert (found.mean[0], found.problems[0]) == (0.5, 1)


def test_shapes_are_checked():
    with pytest.raises(InvalidValueError, match="shapes differ"):
        paired_difference(np.zeros((2, 1)), np.zeros((3, 1)))
    for interval in (bootstrap_mean, student_mean, mean_interval):
        with pytest.raises(InvalidValueError, match="P > 0"):
            interval(np.zeros((0, 1)))


@given(st.lists(st.floats(0, 1e4), max_size=50))
def test_histogram_counts_every_value_in_its_bin(values):
    found = histogram(values)
    width, counts = found["width"], found["counts"]
    assert np.log2(width) == int(np.log2(width))
    assert sum(counts) == len(values)
    assert len(counts) <= 129
    for value in values:
        assert counts[int(value / width)] > 0
