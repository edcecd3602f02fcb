"""Differences over training seeds: by t, crossed with problems, and by flipping signs."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from maxatk.errors import InvalidValueError
from maxatk.statistics.significance import (
    over_seeds,
    over_seeds_and_problems,
    paired_difference,
    sign_flip_p,
    smallest_sign_flip_p,
    variance_of_shared_choices,
)

seeds = st.lists(st.integers(-50, 50).map(lambda i: i / 1000), min_size=3, max_size=8)


def of_means(differences):
    """The test of seeds with one problem each."""
    return over_seeds([np.array([[difference]]) for difference in differences])


@given(seeds.filter(lambda values: np.std(values) > 1e-3))
def test_interval_and_p_are_those_of_a_t_test_over_seeds(differences):
    difference = of_means(differences)
    expected = stats.ttest_1samp(differences, 0.0)
    ends = expected.confidence_interval(0.95)
    assert difference.p[0] == pytest.approx(expected.pvalue, abs=1e-9)
    assert (difference.low[0], difference.high[0]) == pytest.approx((ends.low, ends.high), abs=1e-9)
    assert difference.mean[0] == pytest.approx(np.mean(differences))


@given(seeds.filter(lambda values: np.std(values) > 1e-3), st.sampled_from([1.0, 2.25]))
def test_a_variance_factor_widens_the_interval_by_its_root(differences, factor):
    test = over_seeds(
        [np.array([[difference]]) for difference in differences], variance_factor=factor
    )
    error = np.sqrt(factor) * stats.sem(differences)
    df = len(differences) - 1
    low, high = stats.t.interval(0.95, df, loc=np.mean(differences), scale=error)
    assert (test.low[0], test.high[0]) == pytest.approx((low, high), abs=1e-9)
    expected = 2 * stats.t.sf(abs(np.mean(differences)) / error, df)
    assert test.p[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("count", [3, 4, 8])
@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_intervals_of_seeds_that_choose_for_one_another_hold_the_truth(count, spread):
    draw = np.random.default_rng(count)
    runs = np.arange(2000)
    truth = spread * draw.standard_normal((8, len(runs)))
    values = truth[:, None] + draw.standard_normal((8, count, len(runs)))
    reported = []
    expected = []
    for seed in range(count):
        model = np.delete(values, seed, axis=1).sum(axis=1).argmax(axis=0)
        reported.append(values[model, seed, runs][None])
        expected.append(truth[model, runs])
    shares = {}
    for name, factor in (("seeds", 1.0), ("choosing", variance_of_shared_choices(count))):
        test = over_seeds(reported, variance_factor=factor)
        wrong = np.abs(np.mean(expected, axis=0) - test.mean) > (test.high - test.low) / 2
        shares[name] = wrong.mean()
    assert shares["choosing"] < 0.065 < shares["seeds"]


def test_choices_of_one_seed_have_no_factor():
    with pytest.raises(InvalidValueError, match="seeds: must be at least 2, got 1"):
        variance_of_shared_choices(1)


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
    differences = [-0.007, 0.028, 0.019, 0.051, 0.003]
    difference = of_means(differences)
    assert (difference.low[0], difference.high[0]) == pytest.approx((-0.009, 0.047), abs=5e-4)
    assert difference.p[0] == pytest.approx(0.13, abs=0.01)
    assert sign_flip_p(differences) == 0.1875


def test_every_seed_weighs_the_same_however_many_problems_it_has():
    few = np.array([[0.3], [0.1], [np.nan]])
    many = np.full((50, 1), 0.1)
    difference = over_seeds([few, many, np.array([[0.6]])])
    assert difference.mean[0] == pytest.approx(0.3)
    assert difference.problems[0] == 53


@pytest.mark.parametrize("differences", [[0.5] * 3, [-1.5 / 26] * 3, [0.1 + 0.2, 0.3, 0.3]])
def test_seeds_that_agree_have_no_interval_and_the_p_of_the_sign_flips(differences):
    difference = of_means(differences)
    assert np.isnan([difference.low[0], difference.high[0]]).all()
    assert difference.p[0] == sign_flip_p(differences) == 0.25
    crossed = over_seeds_and_problems(np.full((3, 5, 1), differences[0]))
    assert np.isnan([crossed.low[0], crossed.high[0]]).all()
    assert crossed.p[0] == 0.25


def test_seeds_without_any_difference_have_p_1():
    for same in (of_means([0.0] * 3), over_seeds_and_problems(np.zeros((3, 4, 1)))):
        assert (same.mean[0], same.p[0]) == (0.0, 1.0)
        assert np.isnan([same.low[0], same.high[0]]).all()


def test_a_seed_without_a_value_leaves_no_mean():
    difference = of_means([0.1, np.nan, 0.2])
    assert np.isnan([difference.mean[0], difference.low[0], difference.high[0]]).all()
    assert difference.p[0] == 1.0
    assert sign_flip_p([0.1, float("nan"), 0.2]) is None


@pytest.mark.parametrize("test", [over_seeds, over_seeds_and_problems])
def test_two_seeds_are_no_test(test):
    with pytest.raises(InvalidValueError, match="differences: must be of 3 seeds or more, got 2"):
        test(np.zeros((2, 5, 1)))


def test_many_seeds_have_no_sign_flips():
    assert sign_flip_p([0.1] * 21) is None


def brute_crossed(table):
    """The crossed interval of an (S, P) table, from its mean squares."""
    rows, columns = table.shape
    of_rows = table.mean(axis=1)
    of_columns = table.mean(axis=0)
    mean = table.mean()
    residual = sum(
        (table[i, j] - of_rows[i] - of_columns[j] + mean) ** 2
        for i, j in itertools.product(range(rows), range(columns))
    )
    squares = [
        columns * of_rows.var(ddof=1),
        rows * of_columns.var(ddof=1),
        residual / ((rows - 1) * (columns - 1)),
    ]
    total = max(squares[0] + squares[1] - squares[2], *squares[:2])
    dfs = (rows - 1, columns - 1, (rows - 1) * (columns - 1))
    df = total**2 / sum(square**2 / one for square, one in zip(squares, dfs, strict=True))
    df = max(df, min(dfs))
    half = stats.t.ppf(0.975, df) * np.sqrt(total / (rows * columns))
    p = 2 * stats.t.sf(abs(mean) / np.sqrt(total / (rows * columns)), df)
    return mean - half, mean + half, p


@pytest.mark.parametrize("spreads", [(0.0, 0.1, 0.05), (0.1, 0.0, 0.05), (0.0, 0.0, 0.1)])
@pytest.mark.parametrize("size", [(3, 6), (5, 40), (20, 4)])
def test_the_crossed_interval_is_that_of_the_mean_squares(size, spreads):
    draw = np.random.default_rng(sum(size))
    tables = (
        spreads[0] * draw.normal(size=(size[0], 1, 3))
        + spreads[1] * draw.normal(size=(1, size[1], 3))
        + spreads[2] * draw.normal(size=(*size, 3))
    )
    crossed = over_seeds_and_problems(tables)
    for column in range(3):
        low, high, p = brute_crossed(tables[:, :, column])
        assert (crossed.low[column], crossed.high[column]) == pytest.approx((low, high))
        assert crossed.p[column] == pytest.approx(max(p, 2.0 ** (1 - size[1])))


def test_it_is_never_narrower_than_problems_alone():
    table = np.random.default_rng(0).normal(size=(4, 30, 50))
    crossed = over_seeds_and_problems(table)
    alone = paired_difference(table.mean(axis=0), np.zeros((30, 50)))
    assert (crossed.high >= alone.high - 0.02).all()  # but for the degrees of freedom
    assert crossed.mean == pytest.approx(alone.mean)


def test_a_problem_that_some_seed_lacks_is_left_out():
    table = np.random.default_rng(0).normal(size=(3, 8, 1))
    whole = over_seeds_and_problems(table[:, 1:])
    table[1, 0] = np.nan
    crossed = over_seeds_and_problems(table)
    assert crossed.problems[0] == 7
    assert (crossed.low[0], crossed.p[0]) == pytest.approx((whole.low[0], whole.p[0]))
    for count in (0, 1):
        few = over_seeds_and_problems(
            np.where(np.arange(8)[:, None] < count, table[2:], np.nan)[[0, 0, 0]]
        )
        assert (few.p[0], few.problems[0]) == (1.0, count)
        assert np.isnan(few.low[0])


@pytest.mark.parametrize(("count", "spread"), [(3, 0.0), (3, 0.02), (5, 0.0), (5, 0.02)])
def test_it_covers_other_seeds_and_other_problems_and_t_over_seeds_does_not(count, spread):
    draw = np.random.default_rng(0)
    runs = 2000
    tables = (
        spread * draw.normal(size=(count, 1, runs))
        + 0.11 * draw.normal(size=(1, 40, runs))
        + 0.05 * draw.normal(size=(count, 40, runs))
    )
    crossed = over_seeds_and_problems(tables)
    over = over_seeds(list(tables))
    covered = [((interval.low <= 0) & (interval.high >= 0)).mean() for interval in (crossed, over)]
    assert 0.93 <= covered[0] <= 0.97
    assert covered[1] < 0.9
    assert 0.03 <= (crossed.p < 0.05).mean() <= 0.07


def test_seeds_with_problems_of_their_own_are_covered_by_t():
    draw = np.random.default_rng(0)
    difference = over_seeds(
        0.02 + 0.03 * draw.normal(size=(5, 1, 2000)) + 0.05 * draw.normal(size=(5, 8, 2000))
    )
    assert 0.94 <= ((difference.low <= 0.02) & (difference.high >= 0.02)).mean() <= 0.96
