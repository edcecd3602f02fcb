import itertools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from maxatk.errors import InvalidValueError
from maxatk.statistics.intervals import (
    check_ks,
    default_ks,
    mean_interval,
    metric_values,
    student_mean,
    t_quantile,
)
from maxatk.statistics.significance import paired_difference, t_test


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


def brute_bootstrap(values, resamples):
    generator = np.random.default_rng(0)
    means = []
    for start in range(0, resamples, 500):
        block = generator.integers(len(values), size=(min(500, resamples - start), len(values)))
        means.extend(np.nanmean(values[rows], axis=0) for rows in block)
    return np.quantile(means, [0.025, 0.975], axis=0)


def test_from_30_problems_on_the_interval_is_the_bootstrap_of_a_loop():
    values = np.random.default_rng(1).random((40, 3))
    values[4, 1] = np.nan
    interval = mean_interval(values, resamples=700)
    low, high = brute_bootstrap(values, 700)
    np.testing.assert_allclose(interval.low, low)
    np.testing.assert_allclose(interval.high, high)
    np.testing.assert_allclose(interval.mean, np.nanmean(values, axis=0))
    assert interval.problems.tolist() == [40, 39, 40]


def test_interval_of_a_normal_sample_is_the_known_one():
    values = np.random.default_rng(0).normal(2.0, 3.0, (400, 1))
    interval = mean_interval(values)
    half = 1.96 * values.std() / 20
    assert interval.low[0] == pytest.approx(interval.mean[0] - half, abs=0.02)
    assert interval.high[0] == pytest.approx(interval.mean[0] + half, abs=0.02)


@pytest.mark.parametrize("count", [2, 5, 40])
def test_equal_values_have_no_interval_as_equal_differences_have_none(count):
    values = np.full((count, 2), 0.1)
    values[:, 1] += np.arange(count) % 2 / 10
    interval = mean_interval(values)
    paired = paired_difference(values, np.zeros_like(values))
    for ends in (interval.low, interval.high, paired.low, paired.high):
        assert np.isnan(ends).tolist() == [True, False]
    assert interval.mean[0] == pytest.approx(0.1)


def test_a_column_without_values_is_nan():
    values = np.array([[1.0, np.nan], [0.0, np.nan]] * 20)
    interval = mean_interval(values, resamples=100)
    assert np.isnan([interval.mean[1], interval.low[1], interval.high[1]]).all()
    assert interval.problems.tolist() == [40, 0]
    assert interval.mean[0] == 0.5


def test_students_interval_is_that_of_scipy():
    values = np.random.default_rng(3).random((7, 2))
    values[0, 1] = np.nan
    interval = student_mean(values)
    for column in range(2):
        kept = values[~np.isnan(values[:, column]), column]
        ends = stats.t.interval(0.95, len(kept) - 1, kept.mean(), stats.sem(kept))
        assert (interval.low[column], interval.high[column]) == pytest.approx(ends)
        assert interval.mean[column] == pytest.approx(kept.mean())
    assert interval.problems.tolist() == [7, 6]


def test_few_values_get_students_interval_in_a_column_of_its_own():
    values = np.random.default_rng(4).random((30, 2))
    values[0, 1] = np.nan
    interval = mean_interval(values, resamples=200)
    student = student_mean(values)
    assert interval.low[0] != student.low[0]
    assert (interval.low[1], interval.high[1]) == (student.low[1], student.high[1])
    assert mean_interval(values[:29]).low[0] == student_mean(values[:29]).low[0]


@pytest.mark.parametrize("problems", [5, 60])
def test_the_interval_covers_the_truth_about_as_often_as_it_says(problems):
    generator = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        interval = mean_interval(generator.beta(0.5, 1.5, (problems, 1)), resamples=300)
        covered += interval.low[0] <= 0.25 <= interval.high[0]
    assert 0.88 < covered / 400 < 0.98


def test_one_problem_has_a_mean_and_no_interval():
    interval = mean_interval(np.array([[0.5]]))
    assert interval.mean[0] == 0.5
    assert np.isnan([interval.low[0], interval.high[0]]).all()


def test_no_problems_are_refused():
    for interval in (student_mean, mean_interval):
        with pytest.raises(InvalidValueError, match="P > 0"):
            interval(np.zeros((0, 1)))


@pytest.mark.parametrize("t", [0.3, 2.776445, 12.0])
def test_tails_and_quantiles_are_those_of_students_distribution(t):
    one = np.ones(1)
    no = np.zeros(1)
    assert t_test(-t * one, one, 4, signs=no)[2] == pytest.approx(2 * stats.t.sf(t, 4))
    (p,) = t_test(t * one, one, 4.5, signs=no)[2]
    assert t_quantile(1 - p / 2, 4.5) == pytest.approx(t)


def test_many_problems_need_no_scipy():
    code = (
        "import sys; import numpy as np; from maxatk.statistics.intervals import mean_interval; "
        "values = np.linspace(0, 1, 60).reshape(30, 2); mean_interval(values, resamples=50); "
        "before = 'scipy' in sys.modules; mean_interval(values[:29]); "
        "print(before, 'scipy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
