"""Statistics of answers against enumeration, and the size that enumeration cannot reach."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from maxatk.objectives import Method, advantages, distinct_at_k, majority_at_k
from maxatk.objectives.answers import _majority_chances as majority_chances
from oracles import subsets

STATISTICS = {"majority": majority_at_k, "distinct": distinct_at_k}


@pytest.mark.parametrize("credit", STATISTICS)
@pytest.mark.parametrize("n", range(1, 8))
def test_metric_and_baselines_equal_enumeration(credit, n):
    rng = np.random.default_rng(n)
    rewards = np.stack([rng.normal(size=n), rng.integers(0, 2, n)])
    answers = rng.choice(np.array(["a", "b", "c", None]), size=(2, n))
    codes = [[str(answer) for answer in row] for row in answers]
    for k in range(1, n + 1):
        row = Method(credit=credit, baseline="replace_one")
        samples = [subsets.samples_of(r, r, c) for r, c in zip(rewards, codes, strict=True)]
        want = [subsets.value(group, row, k) for group in samples]
        np.testing.assert_allclose(STATISTICS[credit](rewards, answers, k), want, atol=1e-13)
        replaced = [subsets.replace_one(group, row, k) for group in samples]
        got = advantages(rewards, row, k, answers=answers)
        np.testing.assert_allclose(got, replaced, atol=1e-13)
        if k < n:
            removed = [subsets.remove_one(group, row, k) for group in samples]
            row = Method(credit=credit, baseline="remove_one")
            got = advantages(rewards, row, k, answers=answers)
            np.testing.assert_allclose(got, removed, atol=1e-13)


def exact_majority(counts, right, k):
    """The chance that class `right` wins, in integers: subsets by votes so far and ties."""
    total = Fraction(0)
    for won in range(1, min(counts[right], k) + 1):
        ways = Counter({(won, 1): math.comb(counts[right], won)})
        for rival in (count for place, count in enumerate(counts) if place != right):
            more = Counter()
            for (votes, tied), subsets_so_far in ways.items():
                for taken in range(min(rival, won, k - votes) + 1):
                    subset_count = subsets_so_far * math.comb(rival, taken)
                    more[votes + taken, tied + (taken == won)] += subset_count
            ways = more
        total += sum(Fraction(count, tied) for (votes, tied), count in ways.items() if votes == k)
    return float(total / math.comb(sum(counts), k))


@pytest.mark.parametrize(
    ("counts", "k"),
    [
        ((30, 20, 14), 16),
        ((500, 300, 200), 9),
        ((9, 9), 18),
        (tuple(range(1, 20)), 120),  # two sweeps over the classes
        (tuple(2**d for d in range(12)), 33),
    ],
)
def test_large_groups_equal_integers(counts, k):
    answers = np.repeat(np.arange(len(counts)), counts)
    for right in {0, 1, len(counts) // 2, len(counts) - 1}:
        got = majority_at_k((answers == right).astype(float), answers, k)
        assert got == pytest.approx(exact_majority(counts, right, k), rel=1e-12, abs=1e-15)


def test_one_sample_is_the_mean_and_equal_answers_are_one():
    rewards = np.random.default_rng(0).random((3, 6))
    answers = [["x"] * 6, list("abcdef"), list("aabbcc")]
    for metric in STATISTICS.values():
        np.testing.assert_allclose(metric(rewards, answers, 1), rewards.mean(axis=1))
        assert metric(rewards, answers, [1, 6]).shape == (3, 2)
    np.testing.assert_allclose(majority_at_k(rewards, answers, 4)[0], rewards[0].mean())
    np.testing.assert_allclose(distinct_at_k(rewards, answers, 6)[1], rewards[1].sum())


def test_answers_of_other_groups_cost_nothing():
    rewards = np.random.default_rng(0).random((500, 4))
    answers = np.arange(2000).reshape(500, 4) // 2  # two of each, 1000 different ones
    majority_chances.cache_clear()
    whole = advantages(rewards, "majority", 3, answers=answers)
    last = advantages(rewards[-1:], "majority", 3, answers=answers[-1:])
    np.testing.assert_array_equal(whole[-1:], last)
    assert majority_chances.cache_info().currsize < 50


def test_unscorable_samples_do_not_vote():
    nan = np.nan
    got = majority_at_k([[1.0, nan, nan, 0, 0]], [["a", "a", "a", "b", "b"]], [3, 4])
    np.testing.assert_allclose(got, [[0.0, nan]])
    got = advantages([[1.0, nan, nan, 0, 0]], "majority", 3, answers=[["a", "a", "a", "b", "b"]])
    assert not got[0, 1:3].any()
