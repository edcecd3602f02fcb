"""Rollouts of several rows: splitting one changes no advantage and no metric."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import maxatk
from maxatk import METHODS, OrderWeights, advantages, best_of, max_at_k, order_at_k
from maxatk.errors import InvalidValueError
from maxatk.objectives import method_of

NAN = float("nan")
ON_REWARDS = [name for name in METHODS if not method_of(name).credit_row.needs_answers]


@st.composite
def split_groups(draw):
    """Groups of rollouts, and rows into which each is split, in any order."""
    groups = draw(st.lists(st.integers(5, 8), min_size=1, max_size=3))
    value = st.sampled_from([0.0, 0.25, 0.5, 1.0, NAN])
    rewards = [draw(st.lists(value, min_size=n, max_size=n)) for n in groups]
    rows = []
    for group, n in enumerate(groups):
        for rollout in range(n):
            pieces = draw(st.integers(1, 4))
            rows += [
                (f"g{group}", rollout, rewards[group][rollout], piece) for piece in range(pieces)
            ]
    order = draw(st.permutations(range(len(rows))))
    return rewards, [rows[place] for place in order]


def columns(rows):
    """The ids of group and rollout and the reward of each row."""
    ids, rollouts, rewards, _ = zip(*rows, strict=True)
    return list(ids), list(rollouts), np.array(rewards)


def of_rollouts(rows, tables):
    """The value of each row's rollout, from values by group and rollout."""
    return np.array([tables[int(group[1:])][rollout] for group, rollout, *_ in rows])


@settings(max_examples=40, deadline=None)
@given(split_groups(), st.sampled_from(ON_REWARDS))
@pytest.mark.filterwarnings("ignore:rewards. .* of .* groups have fewer")
def test_splitting_a_rollout_changes_no_advantage(data, method):
    whole, rows = data
    ids, rollouts, rewards = columns(rows)
    row_advantages = advantages(rewards, method, 2, groups=ids, rollouts=rollouts)
    expected = of_rollouts(rows, [advantages([group], method, 2)[0] for group in whole])
    np.testing.assert_allclose(row_advantages, expected, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(split_groups(), st.integers(0, 1000))
@pytest.mark.filterwarnings("ignore:rewards. .* of .* groups have fewer")
def test_the_ratio_of_a_rollout_is_the_product_over_its_rows(data, seed):
    whole, rows = data
    ids, rollouts, rewards = columns(rows)
    of_rows = np.random.default_rng(seed).normal(0, 0.2, len(rows))
    sums = [np.zeros(len(group)) for group in whole]
    for (group, rollout, *_), log_ratio in zip(rows, of_rows, strict=True):
        sums[int(group[1:])][rollout] += log_ratio
    row_advantages = advantages(
        rewards, "bon_off_policy_exact", 2, groups=ids, rollouts=rollouts, log_ratios=of_rows
    )
    tables = [
        advantages([group], "bon_off_policy_exact", 2, log_ratios=[log_ratios])[0]
        for group, log_ratios in zip(whole, sums, strict=True)
    ]
    np.testing.assert_allclose(row_advantages, of_rollouts(rows, tables), atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(split_groups())
@pytest.mark.filterwarnings("ignore:rewards. .* of .* groups have fewer")
def test_splitting_a_rollout_changes_no_metric(data):
    whole, rows = data
    ids, rollouts, rewards = columns(rows)
    order = list(dict.fromkeys(int(group[1:]) for group in ids))
    metrics = max_at_k(rewards, [1, 2, 4], groups=ids, rollouts=rollouts)
    np.testing.assert_allclose(metrics, [max_at_k(whole[g], [1, 2, 4]) for g in order])
    weights = OrderWeights.cvar(0.5, of=4)
    metrics = order_at_k(rewards, weights, groups=ids, rollouts=rollouts)
    np.testing.assert_allclose(metrics, [order_at_k(whole[g], weights) for g in order])


def test_a_lone_success_among_eight_that_was_split_counts_once():
    rewards = [1.0] * 4 + [0.0] * 7
    ids = ["p"] * 11
    rollouts = [0] * 4 + list(range(1, 8))
    assert max_at_k(rewards, 4, groups=ids, rollouts=rollouts) == pytest.approx([0.5])
    assert max_at_k(rewards, 4, groups=ids)[0] == pytest.approx(
        1 - math.comb(7, 4) / math.comb(11, 4)
    )
    values = advantages(rewards, "bon_loo1", 4, groups=ids, rollouts=rollouts)
    expected = advantages([[1.0, *[0.0] * 7]], "bon_loo1", 4)[0]
    np.testing.assert_allclose(values, expected[[0, 0, 0, 0, *range(1, 8)]])


def test_ids_are_unique_within_their_group_alone_and_every_form_has_them():
    table = np.array([[1.0, 1.0, 0.0, 0.5, 0.25], [0.0, 0.5, 0.5, 0.5, 1.0]])
    rollouts = [["a", "a", "b", "c", "d"], ["a", "b", "b", "b", "c"]]
    row_advantages = advantages(table, "bon_loo1", 2, rollouts=rollouts)
    first = advantages([[1.0, 0.0, 0.5, 0.25]], "bon_loo1", 2)[0][[0, 0, 1, 2, 3]]
    second = advantages([[0.0, 0.5, 1.0]], "bon_loo1", 2)[0][[0, 1, 1, 1, 2]]
    np.testing.assert_allclose(row_advantages, [first, second])
    ragged = advantages(
        [list(table[0]), list(table[1, 1:])], "bon_loo1", 2, rollouts=[rollouts[0], rollouts[1][1:]]
    )
    np.testing.assert_allclose(ragged[0], first)
    assert max_at_k(table[0], 2, rollouts=rollouts[0]) == pytest.approx(
        max_at_k([1.0, 0.0, 0.5, 0.25], 2)
    )


def test_rollout_reward_says_which_reward_of_unequal_ones_counts():
    rewards = [0.0, 0.25, 1.0, 0.5, 0.0]
    rollouts = ["a", "a", "b", "c", "c"]
    ids = ["p"] * 5
    with pytest.raises(
        InvalidValueError, match=r"rewards: the rows of one rollout of group 'p' have different"
    ):
        advantages(rewards, "bon_loo1", 2, groups=ids, rollouts=rollouts)
    for how, whole in (("last", [0.25, 1.0, 0.0]), ("sum", [0.25, 1.0, 0.5])):
        row_advantages = advantages(
            rewards, "bon_loo1", 2, groups=ids, rollouts=rollouts, rollout_reward=how
        )
        expected = advantages([whole], "bon_loo1", 2)[0][[0, 0, 1, 2, 2]]
        np.testing.assert_allclose(row_advantages, expected)
        value = max_at_k(rewards, 2, groups=ids, rollouts=rollouts, rollout_reward=how)
        np.testing.assert_allclose(value, [max_at_k(whole, 2)])


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"rollout_reward": "mean", "rollouts": [0, 1, 2]}, "rollout_reward: unknown value 'mean'"),
        ({"rollout_reward": "sum"}, "rollout_reward: must be None without rollouts"),
        ({"rollouts": [0, 1]}, "rollouts: must have the shape of the rewards"),
        ({"rollouts": [0, None, 1]}, "rollouts: must name"),
        ({"rollouts": [[], [], []]}, "rollouts: must be hashable"),
    ],
)
def test_what_is_no_rollout_is_refused(arguments, message):
    with pytest.raises(InvalidValueError, match=message):
        max_at_k([0.0, 1.0, 0.5], 2, **arguments)


def test_unequal_selections_and_answers_of_one_rollout_are_refused():
    rewards = [[0.0, 0.0, 1.0, 0.5]]
    rollouts = [["a", "a", "b", "c"]]
    with pytest.raises(InvalidValueError, match="selection: the rows of one rollout of group 0"):
        advantages(rewards, "bon_loo1", 2, rollouts=rollouts, selection=[[0.1, 0.2, 0.3, 0.4]])
    with pytest.raises(InvalidValueError, match="answers: the rows of one rollout of group 0"):
        advantages(rewards, "majority", 2, rollouts=rollouts, answers=[["x", "y", "z", "z"]])


@pytest.mark.parametrize("rule", [None, "last", "sum"])
@pytest.mark.parametrize("first", [[1.0, np.nan], [np.nan, 1.0]])
def test_a_row_without_reward_and_score_has_no_say_in_either(rule, first):
    rewards = [[*first, 0.0, 0.5]]
    scores = [[*(0.5 * np.array(first)), 0.1, 0.9]]
    of_rollouts = {"rollouts": [["a", "a", "b", "c"]], "rollout_reward": rule}
    got = advantages(rewards, "bon_loo1", 2, selection=scores, **of_rollouts)
    whole = {"rewards": [[1.0, 0.0, 0.5]], "selection": [[0.5, 0.1, 0.9]]}
    expected = advantages(**whole, method="bon_loo1", k=2)
    np.testing.assert_allclose(got, expected[:, [0, 0, 1, 2]])
    value = max_at_k(rewards, 2, selection=scores, **of_rollouts)
    np.testing.assert_allclose(value, max_at_k(**whole, k=2))


def test_a_group_of_few_rollouts_has_no_advantages_however_many_rows_it_has():
    ids = ["p"] * 6 + ["q"] * 6
    rollouts = [0, 0, 0, 0, 1, 1, *range(6)]
    rewards = [1.0] * 4 + [0.0] * 2 + [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    with pytest.warns(UserWarning, match="1 of 2 groups with fewer than 4 rollouts"):
        values = advantages(rewards, "bon_loo1", 4, groups=ids, rollouts=rollouts)
    assert not values[:6].any()
    assert values[6] > 0


@settings(max_examples=40, deadline=None)
@given(split_groups(), st.integers(0, 1000))
def test_with_their_weights_a_mean_over_rows_is_one_over_rollouts(data, seed):
    _, rows = data
    ids, rollouts, _ = columns(rows)
    random = np.random.default_rng(seed)
    tokens = random.integers(1, 6, len(rows))
    weights = maxatk.rollout_weights(rollouts, tokens, groups=ids)
    losses = [random.random(count).tolist() for count in tokens]
    of_rows = np.mean([w * np.mean(row) for w, row in zip(weights, losses, strict=True)])
    by_rollout = {}
    for group, rollout, row in zip(ids, rollouts, losses, strict=True):
        by_rollout.setdefault((group, rollout), []).extend(row)
    assert of_rows == pytest.approx(np.mean([np.mean(row) for row in by_rollout.values()]))
    assert np.mean(weights) == pytest.approx(1.0)


@pytest.mark.parametrize("tokens", [[], [3.0, 0.0], [3.0, np.inf], [3.0, np.nan], [[3.0, 1.0]]])
def test_weights_of_rows_without_a_number_of_tokens_are_refused(tokens):
    with pytest.raises(InvalidValueError, match=r"tokens: must be \(N,\) finite numbers above 0"):
        maxatk.rollout_weights(["a", "b"][: len(tokens)], tokens)


def test_best_of_gives_every_row_what_its_rollout_has():
    def reward(completions, **_):
        return [float(text) for text in completions]

    function = best_of(reward, k=2, groups="task", rollouts="rollout", rollout_reward="last")
    values = function(
        prompts=["x"] * 9,
        completions=["0", "1", "0.5", "0", "0.25", "1", "0", "0.5", "0.5"],
        task=["p"] * 5 + ["q"] * 4,
        rollout=["a", "a", "b", "c", "d", "a", "b", "c", "d"],
    )
    first = 4 * advantages([[1.0, 0.5, 0.0, 0.25]], "bon_centred", 2)[0][[0, 0, 1, 2, 3]]
    second = 4 * advantages([[1.0, 0.0, 0.5, 0.5]], "bon_centred", 2)[0]
    np.testing.assert_allclose(values, [*first, *second])


def test_best_of_refuses_groups_of_different_numbers_of_rollouts():
    function = best_of(lambda completions, **_: [0.0] * len(completions), k=2, rollouts="rollout")
    with pytest.raises(InvalidValueError, match="groups of one size"):
        function(
            prompts=["x"] * 4 + ["y"] * 4,
            completions=[""] * 8,
            rollout=["a", "b", "c", "d", "a", "b", "c", "c"],
        )
    with pytest.raises(InvalidValueError, match="rollouts: no column 'rollout'"):
        function(prompts=["x"] * 4, completions=[""] * 4)


def of_lengths(completions, **_):
    return [float(len(text)) for text in completions]


def test_two_groups_of_one_prompt_are_told_apart_by_a_column_or_refused():
    """Ids are unique within a group: those of the next group of the same prompt begin anew."""
    call = {"prompts": ["p"] * 8, "completions": ["a", "bb", "ccc", "dddd"] * 2}
    for rollouts in ([0, 0, 1, 2] * 2, np.array([0, 0, 1, 2] * 2), [0, 1, 0, 2, 3, 4, 5, 6]):
        with pytest.raises(InvalidValueError, match=r"best_of: rollouts: 0 comes back .*groups="):
            best_of(of_lengths, k=1, rollouts="r", rollout_reward="sum")(**call, r=rollouts)
    apart = best_of(of_lengths, k=1, rollouts="r", rollout_reward="sum", groups="g")
    values = apart(**call, r=[0, 0, 1, 2] * 2, g=[0] * 4 + [1] * 4)
    # The rollouts of each group are worth 3, 3 and 4: three times A_i = (r_i - mean of others) / 3.
    np.testing.assert_allclose(values, [-0.5, -0.5, -0.5, 1.0] * 2)


@pytest.mark.parametrize("rollouts", [[[1], [1], [2], [2]], [([1],)] * 4, "abcd", None])
def test_rollouts_that_cannot_be_told_apart_are_refused(rollouts):
    function = best_of(of_lengths, k=1, rollouts="r")
    with pytest.raises(InvalidValueError, match="best_of: rollouts: must be a list of hashable"):
        function(prompts=["p"] * 4, completions=list("abcd"), r=rollouts)
