import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from maxatk.errors import InvalidValueError
from maxatk.objectives import pass_at_k
from maxatk.statistics.power import pairs_needed, problems_needed
from maxatk.statistics.significance import paired_difference

CHANCES = np.random.default_rng(0).beta(0.4, 1.6, 1000)  # of the table in the documents
PAGE = Path(__file__).parents[2] / "docs" / "choose.md"


def chance_to_find(pairs, difference, deviation, level=0.05):
    """Exact power of the two-sided paired t-test: the non-central t distribution."""
    center = difference / deviation * np.sqrt(pairs)
    edge = stats.t.ppf(1 - level / 2, pairs - 1)
    return stats.nct.sf(edge, pairs - 1, center) + stats.nct.cdf(-edge, pairs - 1, center)


@pytest.mark.parametrize(
    ("difference", "deviation"), [(0.01, 0.1), (-0.02, 0.2), (0.05, 0.2), (0.05, 0.05)]
)
def test_so_many_pairs_have_the_power_and_fewer_have_less(difference, deviation):
    pairs = pairs_needed(difference, deviation)
    assert chance_to_find(pairs, abs(difference), deviation) >= 0.79
    assert chance_to_find(pairs - 2, abs(difference), deviation) < 0.8


def needed_one_by_one(difference, deviation):
    """The fewest pairs whose own quantiles of t ask for no more."""
    pairs = 2
    while True:
        quantiles = stats.t.ppf([0.975, 0.8], pairs - 1).sum()
        if (quantiles * deviation / difference) ** 2 <= pairs:
            return pairs
        pairs += 1


@settings(deadline=None)
@given(st.floats(0.1, 8), st.floats(0.01, 1))
def test_no_smaller_number_of_pairs_would_do(ratio, deviation):
    difference = ratio * deviation
    assert pairs_needed(difference, deviation) == needed_one_by_one(difference, deviation)


def test_without_spread_two_pairs_are_enough():
    assert pairs_needed(0.01, 0.0) == 2


def simulated_power(problems, difference, k, samples, scatter, runs=150):
    """Simulate: the share of comparisons in which a t-test sees the difference."""
    draw = np.random.default_rng(1)
    shift = 0.0
    everyone = draw.beta(0.4, 1.6, 20_000)
    odds = np.log(everyone / (1 - everyone)) + scatter * draw.standard_normal(len(everyone))
    low = -5.0
    high = 5.0
    for _ in range(50):
        shift = (low + high) / 2
        moved = 1 / (1 + np.exp(-odds - shift))
        gained = np.mean((1 - everyone) ** k - (1 - moved) ** k)
        if gained > difference:
            high = shift
        else:
            low = shift
    significant = 0
    for _ in range(runs):
        rows = draw.integers(len(everyone), size=problems)
        values = [
            pass_at_k(samples, draw.binomial(samples, chances[rows]), k)
            for chances in (everyone, moved)
        ]
        significant += stats.ttest_rel(values[1], values[0]).pvalue < 0.05
    return significant / runs


@pytest.mark.parametrize(("k", "samples"), [(1, 16), (8, 16), (8, 64)])
def test_a_simulation_finds_the_difference_as_often_as_promised(k, samples):
    problems = problems_needed(0.05, k=k, samples=samples, chances=CHANCES)
    assert simulated_power(problems, 0.05, k, samples, 0.8) == pytest.approx(0.8, abs=0.12)


def test_more_samples_and_larger_differences_need_fewer_problems():
    needed = [
        [problems_needed(d, k=8, samples=n, chances=CHANCES) for n in (16, 64, 256)]
        for d in (0.02, 0.05)
    ]
    for row in needed:
        assert row == sorted(row, reverse=True)
    assert all(small > large for small, large in zip(*needed, strict=True))


@pytest.mark.parametrize("difference", [0.3, 0.5, 0.8])
def test_no_fewer_problems_are_asked_for_than_the_test_needs(difference):
    needed = problems_needed(difference, k=1, samples=64, chances=[0.05, 0.1, 0.2])
    for problems, holds in ((needed, True), (needed - 1, needed > 6)):
        better = np.linspace(difference, difference + 0.01, problems)[:, None]
        assert (paired_difference(better, np.zeros_like(better)).p[0] <= 0.05) == holds


def test_problems_nobody_solves_and_problems_everybody_solves_are_fine():
    assert problems_needed(0.05, k=8, samples=16, chances=[0.0, 1.0, 0.5, 0.1]) > 2


@pytest.mark.long
def test_the_table_of_the_documents_is_what_the_function_gives():
    rows = re.findall(r"^\| (0\.0\d) \| (\d+) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert [(float(d), int(k)) for d, k, _ in rows] == list(
        itertools.product((0.01, 0.02, 0.05), (1, 8, 128))
    )
    for difference, k, cells in rows:
        for samples, cell in zip((16, 64, 256, 1024), cells.split(" | "), strict=True):
            if int(k) > samples:
                assert cell == "–"
                continue
            needed = problems_needed(float(difference), k=int(k), samples=samples, chances=CHANCES)
            assert cell == f"{needed:,}"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"k": 17}, "k: must be from 1 to the 16 samples, got 17"),
        ({"chances": [0.5, 1.1]}, "chances: must be one number or more from 0 to 1"),
        ({"k": None}, "k: must be from 1 to the 16 samples, got None"),
        ({"k": 1.0}, r"k: must be from 1 to the 16 samples, got 1\.0"),
        ({"samples": "16"}, "samples: must be an integer of 1 or more, got '16'"),
        ({"chances": []}, "chances: must be one number or more"),
        ({"chances": ["a"]}, "chances: must be an array of numbers"),
        ({"difference": "0.1"}, "difference: must be finite and not 0, got '0.1'"),
        ({"difference": 0.0}, "difference: must be finite and not 0, got 0.0"),
        ({"difference": 0.9}, r"difference: pass@1 of these problems is 0\.300 and can be moved"),
    ],
)
def test_what_no_plan_can_be_made_of_is_refused(changes, message):
    plan = {"difference": 0.05, "k": 1, "samples": 16, "chances": [0.1, 0.5], **changes}
    with pytest.raises(InvalidValueError, match=message):
        problems_needed(plan.pop("difference"), **plan)


@pytest.mark.parametrize(
    ("difference", "deviation", "message"),
    [
        (0.1, -0.1, r"deviation: must be at least 0, got -0\.1"),
        (None, 0.1, "difference: must be finite and not 0, got None"),
        (0.1, None, "deviation: must be finite, got None"),
        (0.1, "0.1", "deviation: must be at least 0, got '0.1'"),
        (0.1, np.inf, "deviation: must be finite, got inf"),
        (0.1, np.nan, "deviation: must be at least 0, got nan"),
        (1e-12, 0.3, r"difference: must be 8\.4e-07 or more in size.*got 1e-12"),
        (-1e-200, 0.3, "difference: must be .*got -1e-200"),
        (5e-324, 1e308, "difference: must be .*got 5e-324"),
    ],
)
def test_numbers_that_no_count_of_pairs_goes_with_are_refused(difference, deviation, message):
    with pytest.raises(InvalidValueError, match=message):
        pairs_needed(difference, deviation)


def test_the_smallest_difference_that_is_taken_needs_a_trillion_pairs():
    assert pairs_needed(8.41e-7, 0.3) == pytest.approx(1e12, rel=0.01)
