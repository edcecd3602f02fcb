"""The objective over the training: its k at a moment, and mixtures with max@1."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxatk.objectives import METHODS, advantages
from maxatk.objectives.objective import SCHEDULES, Objective
from oracles import subsets

REWARDS = np.array([[0.0, 0.25, 1.0, 0.25], [0.5, 0.5, 0.0, np.nan]])
LOGS = np.array([[0.1, -0.2, 0.3, 0.0], [0.2, 0.1, -0.1, 0.4]])
BACK = [name for name in SCHEDULES if name.endswith("_back")]
MIXABLE = [name for name, row in METHODS.items() if row.kind.uses_k and row.kind.order]


def objective(method="bon_loo1", k=3, k_final=1, schedule="constant", weight=1.0, form="ppo"):
    return Objective(METHODS[method], k, k_final, schedule, weight, form, 0.5)


@given(
    schedule=st.sampled_from(sorted(SCHEDULES.keys() - BACK)),
    k=st.integers(1, 64),
    final=st.integers(1, 64),
    progress=st.lists(st.floats(0, 1), min_size=2, max_size=5).map(sorted),
)
def test_k_moves_one_way_and_stays_between_its_ends(schedule, k, final, progress):
    moving = objective(k=k, k_final=final, schedule=schedule)
    ks = [moving.k_at(share) for share in progress]
    assert all(min(k, final) <= found <= max(k, final) for found in ks)
    assert ks == sorted(ks, reverse=final < k)
    assert moving.k_at(0.0) == k
    assert moving.k_at(1.0) == (k if schedule == "constant" else final)


@given(
    schedule=st.sampled_from(BACK),
    k=st.integers(1, 64),
    final=st.integers(1, 64),
    progress=st.integers(0, 64).map(lambda part: part / 64),
)
def test_a_way_back_mirrors_the_way_there(schedule, k, final, progress):
    there = objective(k=k, k_final=final, schedule=schedule.removesuffix("_back"))
    moving = objective(k=k, k_final=final, schedule=schedule)
    assert moving.k_at(progress / 2) == moving.k_at(1 - progress / 2) == there.k_at(progress)
    assert (moving.k_at(0.0), moving.k_at(0.5), moving.k_at(1.0)) == (k, final, k)


def test_schedules_at_known_points():
    assert [objective(k=9, schedule="linear").k_at(t) for t in (0.25, 0.5, 0.75)] == [7, 5, 3]
    assert [objective(k=9, schedule="cosine").k_at(t) for t in (0.25, 0.5, 0.75)] == [8, 5, 2]
    back = objective(k=9, schedule="linear_back")
    assert [back.k_at(t) for t in (0.125, 0.25, 0.5, 0.75, 0.875)] == [7, 5, 1, 5, 7]
    back = objective(k=9, schedule="cosine_back")
    assert [back.k_at(t) for t in (0.125, 0.25, 0.5, 0.75, 0.875)] == [8, 5, 1, 5, 8]


@pytest.mark.parametrize("form", ["ppo", "reinforce"])
@pytest.mark.parametrize("method", MIXABLE)
def test_a_mixture_is_the_mixture_of_its_terms(method, form):
    mixed = objective(method, weight=0.75, form=form).advantages(REWARDS, 3, log_ratios=LOGS)
    deltas = np.clip(np.expm1(LOGS), -0.5, 0.5)
    for row, group in enumerate(REWARDS):
        scored = ~np.isnan(group)
        both = [
            subsets.advantages(
                list(group[scored]), list(deltas[row, scored]), k, METHODS[method], form
            )
            if METHODS[method].samples_needed(k) <= scored.sum()
            else np.zeros(scored.sum())
            for k in (3, 1)
        ]
        expected = 0.75 * np.array(both[0]) + 0.25 * np.array(both[1])
        np.testing.assert_allclose(mixed[row, scored], expected, atol=1e-12)


def test_the_ends_of_a_mixture():
    alone = objective(weight=0.0).advantages(REWARDS, 3, log_ratios=None)
    np.testing.assert_allclose(alone, advantages(REWARDS, "bon_loo1", 1))
    assert np.abs(alone).max() > 0
    whole = objective(weight=1.0).advantages(REWARDS, 3, log_ratios=None)
    np.testing.assert_array_equal(whole, advantages(REWARDS, "bon_loo1", 3))


def test_groups_smaller_than_k_are_verified_as_a_whole():
    found = objective(k=8).advantages(REWARDS, 8, log_ratios=None)
    np.testing.assert_array_equal(found, advantages(REWARDS, "bon_loo1", 4))
