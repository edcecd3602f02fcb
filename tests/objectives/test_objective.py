"""The objective over the training: its k at a moment, and mixtures with max@1."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxatk.errors import InvalidValueError
from maxatk.objectives import METHODS, advantages
from maxatk.objectives.objective import SCHEDULES, Objective
from oracles import subsets

REWARDS = np.array([[0.0, 0.25, 1.0, 0.25], [0.5, 0.5, 0.0, np.nan]])
LOGS = np.array([[0.1, -0.2, 0.3, 0.0], [0.2, 0.1, -0.1, 0.4]])
MIXABLE = [name for name, row in METHODS.items() if row.credit_row.uses_k and row.credit_row.order]


def objective(method="bon_loo1", k=3, **settings):
    return Objective(method=method, k=k, **settings)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "majority"])
def test_a_group_of_one_is_refused_where_it_would_train_nothing(method):
    """Every method either says so, or has an advantage for a sample alone."""
    of_one = Objective(method=method, k=1)
    trains = False
    if METHODS[method].samples_needed(1) == 1:
        answers = np.zeros((1, 1)) if METHODS[method].credit_row.needs_answers else None
        trains = bool(advantages([[0.7]], method, 1, answers=answers).any())
    if trains:
        of_one.check_group_size(1)
    else:
        with pytest.raises(InvalidValueError, match=r"the group size: 1 |at least 2 samples"):
            of_one.check_group_size(1)


@given(
    schedule=st.sampled_from(sorted(SCHEDULES)),
    k=st.integers(1, 64),
    final=st.integers(1, 64),
    progress=st.lists(st.floats(0, 1), min_size=2, max_size=5).map(sorted),
)
def test_k_moves_one_way_and_stays_between_its_ends(schedule, k, final, progress):
    k_final = None if final == 1 or schedule == "constant" else final
    moving = objective(k=k, k_final=k_final, k_schedule=schedule)
    ks = [moving.k_at(share) for share in progress]
    assert all(min(k, final) <= k_now <= max(k, final) for k_now in ks)
    assert ks == sorted(ks, reverse=final < k)
    assert moving.k_at(0.0) == k
    assert moving.k_at(1.0) == (k if schedule == "constant" else final)


def test_schedules_at_known_points():
    assert [objective(k=9, k_schedule="linear").k_at(t) for t in (0.25, 0.5, 0.75)] == [7, 5, 3]
    assert [objective(k=9, k_schedule="linear").k_at(np.float32(t)) for t in (-1, 2)] == [9, 1]
    assert [objective(k=9, k_schedule="cosine").k_at(t) for t in (0.25, 0.5, 0.75)] == [8, 5, 2]


@pytest.mark.parametrize("progress", [float("nan"), "0.5", None])
def test_a_share_of_the_training_that_is_no_number_is_refused(progress):
    with pytest.raises(InvalidValueError, match="progress: must be a number from 0 to 1, got"):
        objective(k_schedule="linear").k_at(progress)


@pytest.mark.parametrize("form", ["ppo", "reinforce"])
@pytest.mark.parametrize("method", MIXABLE)
def test_a_mixture_is_the_mixture_of_its_terms(method, form):
    mixed = objective(method, max_weight=0.75, form=form).advantages(REWARDS, 3, log_ratios=LOGS)
    deltas = np.clip(np.expm1(LOGS), -0.5, 0.5)
    for row, group in enumerate(REWARDS):
        scored = ~np.isnan(group)
        terms = [
            subsets.advantages(
                list(group[scored]), list(deltas[row, scored]), k, METHODS[method], form
            )
            if METHODS[method].samples_needed(k) <= scored.sum()
            else np.zeros(scored.sum())
            for k in (3, 1)
        ]
        expected = 0.75 * np.array(terms[0]) + 0.25 * np.array(terms[1])
        np.testing.assert_allclose(mixed[row, scored], expected, atol=1e-12)


def test_the_ends_of_a_mixture():
    alone = objective(max_weight=0.0).advantages(REWARDS, 3, log_ratios=None)
    np.testing.assert_allclose(alone, advantages(REWARDS, "bon_loo1", 1))
    assert np.abs(alone).max() > 0
    whole = objective(max_weight=1.0).advantages(REWARDS, 3, log_ratios=None)
    np.testing.assert_array_equal(whole, advantages(REWARDS, "bon_loo1", 3))


def test_held_out_groups_smaller_than_k_have_the_largest_k_they_can():
    whole = objective(k=8).advantages(REWARDS, 8, held_out=True)
    np.testing.assert_array_equal(whole, advantages(REWARDS, "bon_loo1", 4))
    below = objective("bon_centred", k=8).advantages(REWARDS, 8, held_out=True)
    np.testing.assert_array_equal(below, advantages(REWARDS, "bon_centred", 3))
    with pytest.raises(
        InvalidValueError, match="k: must be at most the number of samples, got k=8"
    ):
        objective(k=8).advantages(REWARDS, 8)


def test_a_selection_by_name_needs_scores():
    selecting = objective(selection="judge")
    with pytest.raises(InvalidValueError, match="selection: 'judge' needs scores"):
        selecting.advantages(REWARDS, 3)
    scored = selecting.advantages(REWARDS, 3, selection=-REWARDS)
    np.testing.assert_array_equal(scored, advantages(REWARDS, "bon_loo1", 3, selection=-REWARDS))


def problems(**settings):
    """What is refused at once, or else in groups of four."""
    try:
        made = objective(**settings)
    except InvalidValueError as error:
        return str(error).split("\n")
    return made.problems(4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "bon_loo"}, r"method: unknown value 'bon_loo'.*did you mean 'bon_loo1'"),
        ({"method": {"credit": {"cvr": 1}}}, r"method: the key 'baseline' is required"),
        ({"method": {"credit": {"cvar": 2, "of": 3}, "baseline": "mean"}}, "method: cvar: must be"),
        ({"method": {"credit": "reward", "baseline": ["mean"]}}, "Method.baseline: unknown value"),
        (
            {"method": {"credit": {"cvar": 0.5, "of": 10**400}, "baseline": "mean"}},
            "method: of: must be at most 1,000,000",
        ),
        (
            {"method": {"credit": {"l_moment": 2000}, "baseline": "mean"}},
            "method: r: must be at most 1,000",
        ),
        (
            {"method": {"credit": {"min": 9}, "baseline": "mean"}},
            r"method: OrderWeights.* with the baseline 'mean' needs at least 9 samples, got 4",
        ),
        ({"form": "pp0"}, r"form: unknown value 'pp0'.*ppo, reinforce"),
        ({"form": ["ppo"]}, r"form: unknown value .*ppo, reinforce"),
        ({"k_schedule": ["linear"]}, r"k_schedule: unknown value"),
        ({"k": 5}, r"k: must be a whole number from 1 to the group size \(4\), got 5"),
        ({"k": 0}, r"k: .*got 0"),
        ({"k": 2.5}, r"k: .*got 2.5"),
        ({"k": True}, r"k: .*got True"),
        ({"method": "bon_centred", "k": 4}, r"'remove_one' and k=4 needs at least 5 samples"),
        ({"method": "bon_mean", "k": 4}, r"k: 4 is the group size.*'mean'.*allowed .* 1 to 3"),
        (
            {"method": "bon_off_policy", "k": 4, "k_schedule": "linear"},
            r"k: 4 is the group size.*'constant' of the method 'bon_off_policy'",
        ),
        (
            {"method": "bon_mean", "k": 1, "k_schedule": "cosine", "k_final": 4},
            r"k_final: 4 is the group size.*'mean'.*allowed .* 1 to 3",
        ),
        (
            {"method": "bon_centred", "k": 1, "k_schedule": "linear", "k_final": 4},
            r"'remove_one' and k=4 needs at least 5 samples",
        ),
        (
            {"method": {"credit": {"cvar": 0.5, "of": 4}, "baseline": "mean"}},
            r"method: in groups of the group size \(4\) every sample .*allowed .*another baseline",
        ),
        ({"k_schedule": "cosin"}, r"k_schedule: unknown value 'cosin'.*did you mean 'cosine'"),
        ({"k_final": 1}, r"k_final: 1 needs a k_schedule; allowed: linear, cosine"),
        ({"k_schedule": "linear", "k_final": 9}, r"k_final: .*\(4\), got 9"),
        (
            {"method": "grpo", "k_schedule": "linear"},
            r"k_schedule: 'linear' has no effect on the method 'grpo', .*'constant', .*bon_loo1",
        ),
        (
            {
                "method": {"credit": {"cvar": 0.5, "of": 3}, "baseline": "replace_one"},
                "k_schedule": "linear",
            },
            r"k_schedule: 'linear' has no effect",
        ),
        ({"method": "grpo", "max_weight": 0.5}, r"max_weight: 0.5 .*a method of: bon_loo1"),
        ({"max_weight": 1.5}, r"max_weight: must be from 0 to 1, got 1.5"),
        ({"max_weight": float("nan")}, r"max_weight: must be from 0 to 1, got nan"),
        ({"delta_clamp": 0.0}, r"delta_clamp: must be a positive number or None, got 0.0"),
        ({"delta_clamp": "half"}, r"delta_clamp: must be a positive number or None, got 'half'"),
        ({"advantage_scale": "none"}, r"advantage_scale: unknown value 'none'.*batch, mean, sum"),
        ({"method": "grpo", "selection": "judge"}, r"selection: 'judge' has no effect"),
        ({"method": "majority"}, r"answers: must be a function module:name .*'majority', got None"),
        ({"answers": "builtins:str"}, r"answers: must be None with the method 'bon_loo1'"),
    ],
)
def test_what_is_not_allowed_is_one_problem(settings, message):
    (problem,) = problems(**settings)
    assert re.search(message, problem)


def test_the_group_size_has_the_name_of_its_setting():
    (problem,) = objective(k=5).problems(4, called="num_generations")
    assert "from 1 to num_generations (4)" in problem


def test_all_problems_are_found_at_once():
    settings = {"k": 0, "form": "x", "k_schedule": "linear", "max_weight": 2, "delta_clamp": -1}
    fields = {problem.partition(":")[0] for problem in problems(method="grpo", **settings)}
    assert fields == {"k", "form", "k_schedule", "max_weight", "delta_clamp"}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_no_problem_below_the_group_size(method):
    answers = "builtins:len" if METHODS[method].credit_row.needs_answers else None
    assert objective(method, answers=answers).problems(4) == []
