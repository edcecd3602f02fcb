"""The chance of a sample to be the best of k, against the enumeration of subsets and of ties."""

import itertools
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxatk import chance_of_best, max_at_k
from maxatk.errors import InvalidValueError


def enumerated(rewards, k):
    """Over all subsets of the scored samples; tied best ones share a subset."""
    chances = [Fraction(0)] * len(rewards)
    scored = [i for i, reward in enumerate(rewards) if reward is not None]
    subsets = list(itertools.combinations(scored, k))
    for subset in subsets:
        best = [i for i in subset if rewards[i] == max(rewards[j] for j in subset)]
        for i in best:
            chances[i] += Fraction(1, len(subsets) * len(best))
    return [float(chance) for chance in chances]


groups = st.lists(st.none() | st.sampled_from([-1.0, 0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=8)


@given(groups, st.integers(1, 8))
def test_it_is_the_share_of_the_subsets_that_keep_the_sample(rewards, k):
    if k > len(rewards):
        with pytest.raises(InvalidValueError, match="k: "):
            chance_of_best(rewards, k)
        return
    chances = chance_of_best(np.array(rewards, float), k)
    np.testing.assert_allclose(chances, enumerated(rewards, k), atol=1e-14)


def test_a_series_of_one_group_keeps_its_index():
    rewards = pd.Series([0.0, 1.0, 0.5], index=[7, 8, 9])
    chances = chance_of_best(rewards, 2)
    assert dict(chances) == pytest.approx({7: 0.0, 8: 2 / 3, 9: 1 / 3})


def test_the_rewards_times_their_chances_are_max_at_k_in_every_shape():
    rewards = np.random.default_rng(0).integers(0, 4, (3, 5, 16)) / 3
    chances = chance_of_best(rewards, 4)
    np.testing.assert_allclose(chances.sum(-1), 1)
    np.testing.assert_allclose((chances * rewards).sum(-1), max_at_k(rewards, 4))


def test_flat_rewards_with_groups_and_ragged_lists_keep_their_form():
    ids = ["a", "b", "a", "b", "b"]
    flat = chance_of_best([0.0, 1.0, 1.0, 0.0, 1.0], 2, groups=ids)
    np.testing.assert_allclose(flat, [0, 1 / 2, 1, 0, 1 / 2])
    ragged = chance_of_best([[0.0, 1.0], [1.0, 0.0, 1.0]], 2)
    np.testing.assert_allclose(np.concatenate(ragged), [0, 1, 1 / 2, 0, 1 / 2])


def test_a_group_with_too_few_samples_keeps_none_and_is_said():
    with pytest.warns(UserWarning, match="1 of 2 groups with fewer than 2 samples"):
        chances = chance_of_best([[1.0], [0.0, 1.0]], 2)
    np.testing.assert_allclose(np.concatenate(chances), [0, 0, 1])
