"""Advantages against enumeration, for every row of the table and every legal combination."""

import itertools
import math

import numpy as np
import pytest

from maxatk.errors import InvalidValueError
from maxatk.objectives import METHODS, Method, OrderWeights, advantages, as_method
from maxatk.objectives.baselines import BASELINES
from maxatk.objectives.credits import CREDITS
from oracles import answers_of, subsets

FORMS = ("ppo", "reinforce")
WEIGHTS = {
    "mean": OrderWeights.mean(3),
    "top": OrderWeights.top(2, of=4),
    "median": OrderWeights.quantile(0.5, of=4),
    "quantile": OrderWeights.quantile(0.8, of=3),
    "cvar": OrderWeights.cvar(0.4, of=4),
    "lower": OrderWeights.cvar(0.5, of=3, tail="lower"),
    "mixture": OrderWeights.mixture({1: 0.25, 3: 0.5, 4: -0.5}),
    "to 3": OrderWeights.harmonic(3),
    "signed": OrderWeights((0.3, -1.2, 0.7)),
    "single": OrderWeights((2.0,)),
    "by rank": OrderWeights.harmonic(),
}


def legal_methods():
    names = itertools.product(
        [*CREDITS, *WEIGHTS.values()],
        ("none", "first_order", "exact"),
        BASELINES,
        ("none", "std", "mean", "subset_std"),
    )
    for credit, correction, baseline, scale in names:
        try:
            yield Method(credit=credit, correction=correction, baseline=baseline, scale=scale)
        except InvalidValueError:
            continue


def name_of(method):
    names = {weights: name for name, weights in WEIGHTS.items()}
    credit = names.get(method.credit, method.credit)
    return f"{credit}-{method.correction}-{method.baseline}-{method.scale}"


LEGAL = list(legal_methods())
ROWS = [pytest.param(m, id=name) for name, m in METHODS.items()] + [
    pytest.param(m, id=name_of(m)) for m in LEGAL
]


def advantages_of(rewards, method, k=4, **columns):
    """The advantages, with answers where the method needs them."""
    row = as_method(method)
    return advantages(rewards, row, k, answers=answers_of(row, rewards), **columns)


def enumerated(rewards, deltas, k, method, form):
    """The advantages of every group by enumeration."""
    of_groups = zip(rewards.tolist(), deltas, strict=True)
    return [subsets.advantages(group, changes, k, method, form) for group, changes in of_groups]


def ks_of(method, n):
    """Every k that the method has advantages for in groups of n; one where k plays no part."""
    ks = range(1, n + 1) if method.credit_row.uses_k else [1]
    return [k for k in ks if method.samples_needed(k) <= n]


def groups(n, seed=0):
    """Rewards with and without ties and signs, and log ratios, some beyond the clamp."""
    rng = np.random.default_rng([n, seed])
    rewards = np.stack(
        [
            rng.random(n),
            rng.normal(size=n) * 3 - 1,
            rng.integers(0, 3, size=n) / 2,
            np.full(n, 0.7),
            rng.integers(0, 2, size=n).astype(float),
        ]
    )
    return rewards, rng.normal(size=rewards.shape) * 0.3


def test_the_combinations_are_those_meant():
    plain = 3 * 3 + 2 * 3  # reward with three scales, best with two
    max_at_k = 3 * (6 + 4 + 5)  # without a correction, first order, exact
    fixed_size = 2 * (6 + 4) * (2 + len(WEIGHTS) - 1)  # two named credits and weights of a k
    by_rank = 2 * 2 * (5 + 4)  # the name and the weights, without remove_one
    others = 3 * 2  # majority, distinct and entropic
    assert len(LEGAL) == plain + max_at_k + fixed_size + by_rank + others


@pytest.mark.parametrize("method", ROWS)
@pytest.mark.parametrize("form", FORMS)
def test_equals_enumeration_for_every_k(method, form):
    for n in (1, 2, 3, 5):
        rewards, logs = groups(n)
        deltas = np.clip(np.expm1(logs), -0.5, 0.5)
        for k in ks_of(method, n):
            got = advantages_of(rewards, method, k, log_ratios=logs, form=form)
            want = enumerated(rewards, deltas, k, method, form)
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_rows_equal_enumeration_in_larger_groups(method):
    n = 8
    rewards, logs = (rows[:3:2] for rows in groups(n))
    deltas = np.expm1(logs)
    for k, form in itertools.product(ks_of(method, n), FORMS):
        got = advantages_of(rewards, method, k, log_ratios=logs, form=form, clamp=None)
        want = enumerated(rewards, deltas, k, method, form)
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("method", [row for row in ROWS if row.values[0].correction != "none"])
def test_on_policy_equals_enumeration(method):
    for n in (1, 4, 6):
        rewards, _ = groups(n, seed=1)
        for k, form in itertools.product(ks_of(method, n), FORMS):
            got = advantages_of(rewards, method, k, form=form)
            want = enumerated(rewards, np.zeros_like(rewards), k, method, form)
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("method", ROWS)
@pytest.mark.parametrize("form", FORMS)
def test_ratios_of_one_are_on_policy(method, form):
    rewards, _ = groups(7)
    for k in set(ks_of(method, 7)) & {1, 2, 4, 7}:
        with_ratios = advantages_of(
            rewards, method, k, log_ratios=np.zeros_like(rewards), form=form
        )
        np.testing.assert_allclose(
            with_ratios, advantages_of(rewards, method, k), rtol=1e-9, atol=1e-11
        )


@pytest.mark.parametrize("correction", ["first_order", "exact"])
def test_corrections_reduce_to_their_on_policy_rows(correction):
    rewards, _ = groups(6)
    for baseline, plain in [("leave_one_out", "leave_one_out"), ("constant", "mean")]:
        corrected = Method(credit="max_at_k", correction=correction, baseline=baseline)
        on_policy = Method(credit="max_at_k", baseline=plain)
        logs = np.zeros_like(rewards)
        got = advantages(rewards, corrected, 3, log_ratios=logs)
        np.testing.assert_allclose(got, advantages(rewards, on_policy, 3), atol=1e-14)


@pytest.mark.parametrize("baseline", ["none", "mean", "leave_one_out", "constant"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("k", [2, 4, 7])
def test_first_order_misses_only_the_second_order(baseline, form, k):
    rewards, logs = (rows[:3] for rows in groups(7))

    def gap(size):
        first, exact = (
            advantages(
                rewards,
                Method(credit="max_at_k", correction=correction, baseline=baseline),
                k,
                log_ratios=size * logs,
                form=form,
            )
            for correction in ("first_order", "exact")
        )
        return np.abs(first - exact).max()

    if k == 2 and form == "ppo" and baseline in ("none", "mean", "leave_one_out"):
        assert gap(1.0) < 1e-14  # one other sample: its product is its first order
    elif k == 7 and baseline == "constant":
        assert gap(1.0) < 1e-12  # one subset only: its maximum is the constant
    else:
        assert gap(1e-3) / gap(5e-4) == pytest.approx(4, rel=0.02)
        assert gap(1e-3) < 1e-5


@pytest.mark.parametrize("method", ROWS)
def test_the_forms_differ_by_the_own_ratio(method):
    rewards, logs = groups(6)
    ppo, reinforce = (
        advantages_of(rewards, method, 3, log_ratios=logs, form=form) for form in FORMS
    )
    if method.correction == "first_order":
        small = 1e-4 * logs
        ppo, reinforce = (
            advantages_of(rewards, method, 3, log_ratios=small, form=form) for form in FORMS
        )
        np.testing.assert_allclose(np.exp(small) * ppo, reinforce, atol=1e-6)
    else:
        ratios = 1 + np.clip(np.expm1(logs), -0.5, 0.5)
        np.testing.assert_allclose(ratios * ppo, reinforce, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "method",
    [m for m in LEGAL if m.correction == "none"],
    ids=name_of,
)
def test_uncorrected_methods_ignore_the_ratios_in_the_ppo_form(method):
    rewards, logs = groups(6)
    np.testing.assert_array_equal(
        advantages_of(rewards, method, 3, log_ratios=logs), advantages_of(rewards, method, 3)
    )


def test_the_own_ratio_is_not_in_the_ppo_form():
    rewards, logs = (rows[:1] for rows in groups(6))
    changed = logs.copy()
    changed[0, 2] += 0.4
    for correction in ("first_order", "exact"):
        method = Method(credit="max_at_k", correction=correction, baseline="leave_one_out")
        before = advantages_of(rewards, method, 3, log_ratios=logs)
        after = advantages_of(rewards, method, 3, log_ratios=changed)
        assert before[0, 2] == pytest.approx(after[0, 2], rel=1e-14)
        assert np.abs(before - after).max() > 1e-4


def test_clamp_bounds_the_ratios():
    rewards, logs = groups(6)
    for method, form in itertools.product(METHODS, FORMS):
        inside = np.log1p(np.clip(np.expm1(logs), -0.1, 0.1))
        np.testing.assert_allclose(
            advantages_of(rewards, method, 3, log_ratios=logs, form=form, clamp=0.1),
            advantages_of(rewards, method, 3, log_ratios=inside, form=form, clamp=None),
            atol=1e-12,
        )
        np.testing.assert_allclose(
            advantages_of(rewards, method, 3, log_ratios=logs, form=form, clamp=0),
            advantages_of(rewards, method, 3),
            atol=1e-9,
        )


def test_grpo_is_the_formula_of_trl():
    rewards = np.random.default_rng(0).random((5, 8)).astype(np.float32)
    mean = rewards.mean(axis=1, keepdims=True)
    want = (rewards - mean) / (rewards.std(axis=1, ddof=1, keepdims=True) + 1e-4)
    np.testing.assert_allclose(advantages(rewards, "grpo", 99), want, rtol=1e-4, atol=1e-6)
    plain = Method(credit="reward", baseline="mean")
    np.testing.assert_allclose(advantages(rewards, plain), rewards - mean, atol=1e-6)


def test_small_groups_by_hand():
    rewards = [[0.0, 1.0, 0.5, 1.0]]
    np.testing.assert_allclose(advantages(rewards, "bon_max_mean"), [[0, 0.375, 0, 0.375]])
    np.testing.assert_allclose(advantages(rewards, "bon_max_second"), [[0, 0.5, 0, 0.5]])
    # Pairs with 0: gains 1, 0.5, 1; pairs with 0.5: 0.5 twice; six pairs in all.
    want = np.array([[0, 1.5, 0.5, 1.5]]) / 6
    np.testing.assert_allclose(advantages(rewards, "bon_loo1", 2), want, rtol=1e-14)
    np.testing.assert_allclose(advantages(rewards, "bon_loo1", 4), [[0, 0, 0, 0]], atol=1e-15)


def test_constant_baseline_falls_back_where_the_expansion_turns_negative():
    rewards = np.array([[0.1, 0.9, 0.4, 0.3, 0.2, 0.8]])
    logs = np.full_like(rewards, -1.0)
    method = Method(credit="max_at_k", correction="first_order", baseline="constant")
    plain = advantages(rewards, Method(credit="max_at_k", baseline="mean"), 5)
    np.testing.assert_allclose(advantages_of(rewards, method, 5, log_ratios=logs), plain)
    together = advantages(
        np.repeat(rewards, 2, 0), method, 5, log_ratios=np.stack([logs[0], 0 * logs[0]])
    )
    np.testing.assert_allclose(together, np.repeat(plain, 2, 0), atol=1e-14)


def test_the_constant_baseline_sums_to_zero_with_the_own_ratios():
    rewards, logs = (rows[:3] for rows in groups(8))
    for correction in ("first_order", "exact"):
        method = Method(credit="max_at_k", correction=correction, baseline="constant")
        got = advantages_of(rewards, method, 3, log_ratios=0.3 * logs, form="reinforce")
        np.testing.assert_allclose(got.sum(axis=1), 0, atol=1e-13)


def test_a_group_without_on_policy_signal_is_skipped_under_a_correction():
    rewards = 1 + np.array([[0, 1, 2, 3, 4, 5]]) * 1e-9
    logs = groups(6)[1][:1]
    assert not advantages(rewards, "bon_off_policy", 3, log_ratios=logs).any()


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_unscorable_samples_leave_their_group(method):
    rewards, logs = groups(5)
    padded, padded_logs = (np.insert(rows, [0, 3], np.nan, axis=1) for rows in (rewards, logs))
    for form in FORMS:
        got = advantages_of(padded, method, 3, log_ratios=padded_logs, form=form)
        want = advantages_of(rewards, method, 3, log_ratios=logs, form=form)
        # Not to the last bit: a matrix product rounds by its shape on some processors.
        np.testing.assert_allclose(np.delete(got, [0, 4], axis=1), want, rtol=1e-12, atol=1e-14)
        assert not got[:, [0, 4]].any()


def test_groups_with_too_few_scores_get_nothing():
    nan = np.nan
    rewards = [[1, nan, nan, 0], [nan] * 4, [1, 0, nan, 0.5]]
    got = advantages(rewards, "bon_loo1", 3)
    assert not got[:2].any()
    assert got[2, 0] > 0
    assert advantages(rewards, "grpo", 3)[0, 0] > 0  # has no use for k


@pytest.mark.parametrize("name", METHODS)
def test_degenerate_groups(name):
    method = METHODS[name]
    if not method.keeps_level:
        assert not advantages_of(np.full((2, 5), -1.7), name, 3, log_ratios=groups(5)[1][:2]).any()
        lonely = [[0.3] + [np.nan] * 2]
        assert advantages_of(lonely, name, 1).tolist() == [[0.0] * 3]
        assert advantages_of(lonely, name, 1, log_ratios=[[0.2] * 3]).tolist() == [[0.0] * 3]
    assert advantages_of(np.zeros((0, 4)), name, 2).shape == (0, 4)
    assert advantages_of([[True, False]], name, 1).dtype == np.float64
    if method.samples_needed(1) == 1:
        assert advantages_of([[0.3]], name, 1).shape == (1, 1)


def test_the_published_sloo_gives_equal_rewards_a_penalty():
    got = advantages(np.ones((1, 8)), "pkpo_sloo", 4)
    np.testing.assert_allclose(got, -4 / (8 * 7))


@pytest.mark.parametrize("k", [1, 3, 6])
def test_weights_of_a_maximum_are_the_named_credit(k):
    rewards, _ = groups(6)
    for baseline in ("none", "mean", "leave_one_out", "replace_one"):
        vector = OrderWeights((0.0,) * (k - 1) + (1.0,))
        for weights in (OrderWeights.max(k), vector, OrderWeights.mixture({k: 1.0})):
            got = advantages(rewards, Method(credit=weights, baseline=baseline))
            want = advantages(rewards, Method(credit="max_at_k", baseline=baseline), k)
            np.testing.assert_array_equal(got, want)


def test_replace_one_is_rloo_at_one_and_loo1_at_n():
    rewards, _ = groups(6)
    np.testing.assert_allclose(
        6 * advantages(rewards, "bon_replace", 1), advantages(rewards, "rloo"), atol=1e-14
    )
    np.testing.assert_allclose(
        advantages(rewards, "bon_replace", 6), advantages(rewards, "bon_loo1", 6), atol=1e-15
    )


def test_replace_one_lies_between_loo1_and_the_centred_credits():
    rewards, _ = groups(7)
    for k in range(1, 8):
        centred = advantages(rewards, Method(credit="max_at_k", baseline="mean"), k)
        want = ((k - 1) * advantages(rewards, "bon_loo1", k) + 7 * centred) / 6
        np.testing.assert_allclose(advantages(rewards, "bon_replace", k), want, atol=1e-13)


def test_remove_one_is_the_mean_baseline_without_its_factor():
    rewards, _ = groups(7)
    for k in range(1, 7):
        centred = advantages(rewards, Method(credit="max_at_k", baseline="mean"), k)
        got = advantages(rewards, "bon_centred", k)
        np.testing.assert_allclose(got, centred * 7 / (7 - k), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("correct", range(1, 7))
def test_max_likelihood_weighs_a_success_by_one_over_their_number(correct):
    passed = (np.arange(7) < correct).astype(float)
    right = (7 - correct) / (6 * correct)
    wrong = -correct / (6 * (correct + 1))
    want = np.where(passed == 1, right, wrong)
    np.testing.assert_allclose(advantages([passed], "max_likelihood")[0], want, rtol=1e-13)


def test_pass_at_k_training_is_the_published_formula_for_zeros_and_ones():
    n = 8
    k = 3
    for correct in range(1, n - k + 1):
        passed = (np.arange(n) < correct).astype(float)[None]
        wrong = math.comb(n - correct, k) / math.comb(n, k)
        spread = math.sqrt((1 - wrong) * wrong)
        still_wrong = math.comb(n - correct - 1, k - 1) / math.comb(n - 1, k - 1)
        want = np.where(passed == 1, wrong / spread, (wrong - still_wrong) / spread)
        np.testing.assert_allclose(advantages(passed, "pass_at_k_training", k), want, rtol=1e-12)


def test_max_rl_is_the_published_formula():
    rewards = np.array([[1.0, 0, 0, 1], [0, 0, 0, 0]])
    np.testing.assert_allclose(advantages(rewards, "max_rl"), [[1, -1, -1, 1], [0, 0, 0, 0]])


@pytest.mark.parametrize("rewards", [np.zeros((2, 4)), [[1.0, np.nan, np.nan, np.nan]]])
def test_remove_one_needs_a_sample_more_than_k(rewards):
    with pytest.raises(InvalidValueError, match="'remove_one' and k=4 needs at least 5 samples"):
        advantages(rewards, "bon_centred", 4)
    assert not advantages(rewards, "bon_centred", 3).any()


def test_a_custom_row_works_like_a_named_one():
    rewards, _ = groups(6)
    row = Method(credit="max_at_k", baseline="leave_one_out")
    np.testing.assert_array_equal(advantages(rewards, row), advantages(rewards))


@pytest.mark.parametrize("method", ["bon_mean", "bon_off_policy", "pass_at_k_training"])
@pytest.mark.parametrize("unit", [1.0, 1e20, 1e300])
def test_a_scale_does_not_blow_up_the_rounding_of_credits_that_are_all_equal(method, unit):
    rewards = unit * np.array([[-1.0] + 6 * [0.25]])  # every 3-subset has the largest reward
    for columns in ({}, {"log_ratios": np.zeros((1, 7))}):
        assert np.abs(advantages(rewards, method, 3, **columns)).max() < 1e-11
