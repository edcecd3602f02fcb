"""Rewards in any form give the same numbers, in the form in which they came."""

import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st

from maxatk.errors import InvalidValueError
from maxatk.objectives import Method, advantages, distinct_at_k, majority_at_k, max_at_k
from maxatk.objectives.layout import layout_of_ids

REWARDS = np.array([[0.0, 0.25, 1.0, 0.5], [0.5, 0.5, 0.0, 0.75]])
SCORES = np.array([[0.1, 0.3, 0.2, 0.0], [1.0, 0.0, 0.0, 1.0]])
LOGS = np.array([[0.1, -0.2, 0.3, 0.0], [0.2, 0.1, -0.1, 0.4]])
ANSWERS = [["a", "b", "a", "b"], ["c", "c", "d", "a"]]
WANT = advantages(REWARDS, "bon_off_policy_exact", 2, log_ratios=LOGS, selection=SCORES)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("grad", [False, True])
def test_tensors_come_back_as_tensors(dtype, grad):
    rewards = torch.tensor(REWARDS, dtype=dtype, requires_grad=grad)
    logs = torch.tensor(LOGS, requires_grad=grad)
    got = advantages(
        rewards, "bon_off_policy_exact", 2, log_ratios=logs, selection=torch.tensor(SCORES)
    )
    assert (got.dtype, got.device, got.requires_grad) == (torch.float32, rewards.device, False)
    np.testing.assert_allclose(got.numpy(), WANT, atol=1e-7)
    metric = max_at_k(rewards, [1, 2])
    assert metric.dtype == torch.float32
    np.testing.assert_allclose(metric.numpy(), max_at_k(REWARDS, [1, 2]), atol=1e-7)


def test_tensors_of_integers_and_tensors_of_answers():
    passed = torch.tensor([[0, 1, 1], [1, 0, 0]])
    answers = torch.tensor([[0, 1, 1], [1, 2, 3]])
    got = advantages(passed, "majority", 2, answers=answers)
    want = advantages(passed.tolist(), "majority", 2, answers=answers.tolist())
    np.testing.assert_allclose(got.numpy(), want, atol=1e-7)


@given(st.permutations(range(8)))
def test_flat_rewards_with_groups_in_any_order(order):
    ids = np.array([("p", 1)] * 4 + [("q", 2)] * 4, dtype=object)
    groups = [tuple(ids[place]) for place in order]
    rewards = REWARDS.ravel()[list(order)]
    scores = SCORES.ravel()[list(order)]
    logs = LOGS.ravel()[list(order)]
    answers = np.array(ANSWERS).ravel()[list(order)]
    got = advantages(
        rewards, "bon_off_policy_exact", 2, log_ratios=logs, selection=scores, groups=groups
    )
    # Ties of the scores count in the order of the samples, which the permutation changes.
    untied = [place for place, where in enumerate(order) if where < 4]
    np.testing.assert_allclose(got[untied], WANT.ravel()[list(order)][untied], atol=1e-14)
    first = 0 if groups[0][0] == "p" else 1
    metric = max_at_k(rewards, 2, selection=scores, groups=groups)
    want = max_at_k(REWARDS, 2, selection=SCORES)
    np.testing.assert_allclose(metric, want[[first, 1 - first]], atol=1e-14)
    metric = majority_at_k(rewards, answers, 3, groups=groups)
    want = majority_at_k(REWARDS, ANSWERS, 3)
    np.testing.assert_allclose(metric, want[[first, 1 - first]], atol=1e-14)


def test_series_come_back_with_their_index():
    frame = pd.DataFrame(
        {"reward": REWARDS.ravel(), "task": ["p"] * 4 + ["q"] * 4}, index=range(10, 18)
    )
    got = advantages(frame["reward"], k=2, groups=frame["task"])
    assert isinstance(got, pd.Series)
    assert list(got.index) == list(range(10, 18))
    np.testing.assert_allclose(got.to_numpy(), advantages(REWARDS, k=2).ravel())
    metric = max_at_k(frame["reward"], 2, groups=frame["task"])
    assert dict(metric) == dict(zip("pq", max_at_k(REWARDS, 2), strict=True))


@pytest.mark.parametrize("sizes", [(4, 4), (4, 3)], ids=["equal groups", "ragged groups"])
def test_a_column_of_lists_has_the_groups(sizes):
    groups = [REWARDS[row, :size].tolist() for row, size in enumerate(sizes)]
    samples = [(task, reward) for task, group in zip("pq", groups, strict=True) for reward in group]
    frame = pd.DataFrame(samples, columns=["task", "reward"])
    column = frame.groupby("task").reward.agg(list)
    for rewards in (column, column.to_numpy()):
        np.testing.assert_array_equal(max_at_k(rewards, 2), max_at_k(groups, 2))
        for got, want in zip(advantages(rewards, k=2), advantages(groups, k=2), strict=True):
            np.testing.assert_array_equal(got, want)


def test_a_frame_of_prompts_by_samples_gives_arrays():
    frame = pd.DataFrame(REWARDS, index=["p", "q"])
    for got, want in (
        (max_at_k(frame, 2), max_at_k(REWARDS, 2)),
        (max_at_k(frame, [1, 2]), max_at_k(REWARDS, [1, 2])),
        (advantages(frame, k=2), advantages(REWARDS, k=2)),
    ):
        assert type(got) is np.ndarray
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "rewards",
    [
        pd.DataFrame({"r0": pd.array([1, 0], "Int64"), "r1": pd.array([pd.NA, 1], "Int64")}),
        pd.DataFrame({"r0": pd.array([True, False], "boolean"), "r1": [pd.NA, True]}),
        [[1, pd.NA], [0, 1]],
        [[1], [0, 1, pd.NA]],
    ],
    ids=["integers", "truth values", "lists", "ragged lists"],
)
def test_na_of_pandas_is_a_sample_without_a_reward(rewards):
    np.testing.assert_array_equal(max_at_k(rewards, 1), [1.0, 0.5])


def test_na_of_pandas_is_no_group_and_a_text_beside_it_is_named():
    with pytest.raises(InvalidValueError, match=r"groups: must name the group .* got <NA>"):
        max_at_k([1.0, 0.0], 1, groups=["p", pd.NA])
    with pytest.raises(InvalidValueError, match=r"rewards: .*got '1' of type str"):
        max_at_k([[0.5, pd.NA, "1"]], 1)


@given(
    ids=st.lists(st.sampled_from(["a", "b", "c", 7]), min_size=1, max_size=30),
    least=st.integers(1, 9),
)
def test_rows_of_ids_hold_every_sample_once_beside_those_of_its_group(ids, least):
    values = np.arange(len(ids), dtype=float)
    layout = layout_of_ids(ids, least=least)
    rows = layout.rows("values", values)
    np.testing.assert_array_equal(layout.of_samples(rows), values)
    assert np.isfinite(rows).sum() == len(ids)
    assert rows.shape[1] == layout.width == max(least, max(map(ids.count, ids)))
    for row in rows:
        members = row[np.isfinite(row)].astype(int)
        assert len({ids[member] for member in members}) == 1
        assert list(members) == sorted(members)  # in the order of the samples


RAGGED = [[0.0, 1.0, 0.5], [0.25], [0.5, 0.0]]


def test_ragged_lists_give_a_list_of_arrays_and_one_warning():
    with pytest.warns(UserWarning, match="1 of 3 groups with fewer than 2 samples") as caught:
        got = advantages(RAGGED, k=2)
    assert [warning.filename for warning in caught] == [__file__]
    assert [list(row) for row in got][1] == [0.0]
    np.testing.assert_allclose(got[0], advantages(RAGGED[:1], k=2)[0])
    np.testing.assert_allclose(got[2], advantages(RAGGED[2:], k=2)[0])
    with pytest.warns(UserWarning, match="1 of 3 groups") as caught:
        metric = max_at_k(RAGGED, 2)
    assert [warning.filename for warning in caught] == [__file__]
    np.testing.assert_allclose(metric, [5 / 6, np.nan, 0.5])
    answers = [["a", "b", "a"], ["a"], ["b", "b"]]
    np.testing.assert_allclose(distinct_at_k(RAGGED, answers, 1), [0.5, 0.25, 0.25])
    column = Dataset.from_dict({"rewards": RAGGED})["rewards"]
    np.testing.assert_allclose(distinct_at_k(column, answers, 1), [0.5, 0.25, 0.25])


def test_groups_that_are_large_enough_give_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        advantages([RAGGED[0], RAGGED[2]], k=1)
        advantages(RAGGED, Method(credit="max_at_k"), k=1)  # without a baseline one is enough
        max_at_k([[1.0, np.nan], [1.0, 0.0]], 2)


@pytest.mark.parametrize("method", ["rloo", "grpo", "bon_loo1", "any_k", "max_rl"])
def test_a_group_of_one_is_named_because_it_has_nothing_to_be_compared_with(method):
    one = "1 of 2 groups with fewer than 2 samples, the first of them group 'b'; their advantages"
    with pytest.warns(UserWarning, match=one) as caught:
        by_sample = advantages([1.0, 0.0, 1.0], method, k=1, groups=["a", "a", "b"])
    assert [warning.filename for warning in caught] == [__file__]
    assert by_sample[2] == 0
    for rewards, count in (([[1.0, 0.0], [1.0]], "1 of 2"), ([[1.0], [0.5]], "2 of 2")):
        with pytest.warns(UserWarning, match=f"{count} groups .* of them group at index [01];"):
            advantages(rewards, method, k=1)


WRONG = {
    "flat without groups": (
        lambda: advantages([1.0, 0.0, 1.0], k=1),
        r"shape \(prompts, samples\), .* or be flat with `groups`, the prompt of each, got \(3,\)",
    ),
    "length": (
        lambda: advantages([1.0, 0.0], groups=["a"], k=1),
        r"groups: must be one id for each of the flat rewards, got 1 id for .* \(2,\)",
    ),
    "unhashable groups": (
        lambda: advantages([1.0, 0.0], groups=[[1], [2]], k=1),
        "groups: must be hashable",
    ),
    "not flat": (lambda: advantages(REWARDS, groups=["a", "b"], k=1), "groups: must be one id"),
    "k": (lambda: max_at_k([1.0, 0.0], 2, groups=["a", "b"]), "got k=2 with 1 sample"),
    "answers": (
        lambda: advantages(REWARDS, "majority", 2, answers=["a"] * 4),
        r"answers: must have the shape of the rewards \(2, 4\)",
    ),
    "unhashable": (
        lambda: majority_at_k([1.0, 0.0], [[], {}], 1),
        r"answers: must be hashable, got \[\]",
    ),
    "answers of groups by another order": (
        lambda: majority_at_k(REWARDS, np.array(ANSWERS).T, 2),
        r"answers: must have the shape of the rewards \(2, 4\)",
    ),
    "answers of other lengths": (
        lambda: majority_at_k(REWARDS, [["a"] * 3, ["a"] * 5], 2),
        r"answers: must have the shape of the rewards \(2, 4\)",
    ),
    "answers in a flat text": (
        lambda: majority_at_k([0.0, 1.0], "ab", 1),
        r"answers: must have the shape of the rewards \(2,\)",
    ),
    "answers in rows of text": (
        lambda: majority_at_k(REWARDS, ["abab", "ccda"], 2),
        r"answers: must have the shape of the rewards \(2, 4\)",
    ),
    "one answer": (lambda: majority_at_k(REWARDS, 3, 2), "answers: must have the shape"),
    "ragged answers": (
        lambda: majority_at_k(RAGGED, [["a"], ["a", "b", "a"], ["b", "b"]], 1),
        "answers: must have the shape of the rewards",
    ),
    "ragged selection": (
        lambda: max_at_k([[0.1, 0.2], [0.3]], 1, selection=[[1.0], [2.0, 3.0]]),
        "selection: must have the shape of the rewards",
    ),
    "ragged log ratios": (
        lambda: advantages(
            [[0.1, 0.2], [0.3]], "bon_off_policy_exact", 1, log_ratios=[[1.0], [2.0, 3.0]]
        ),
        "log_ratios: must have the shape of the rewards",
    ),
    "flat beside ragged": (
        lambda: max_at_k(RAGGED, 1, selection=np.zeros(6)),
        "selection: must have the shape of the rewards",
    ),
    "groups in a text": (
        lambda: advantages([1.0, 0.0], groups="ab", k=1),
        "groups: must be one id for each of the flat rewards",
    ),
    "no group": (
        lambda: advantages([1.0, 0.0], groups=["a", float("nan")], k=1),
        "groups: must name the group of every sample, got nan",
    ),
    "group None": (
        lambda: advantages([1.0, 0.0], groups=["a", None], k=1),
        "groups: must name the group of every sample, got None",
    ),
    "ragged rewards with groups": (
        lambda: advantages([[1.0], [1.0, 0.0]], groups=["a", "b"], k=1),
        "rewards: must be an array of numbers",
    ),
    "missing answers": (
        lambda: advantages(REWARDS, "majority", 2),
        "answers: are needed by the credit 'majority'",
    ),
    "answers of no use": (
        lambda: advantages(REWARDS, k=2, answers=ANSWERS),
        "answers: have no use in the credit 'max_at_k'",
    ),
    "selection of no use": (
        lambda: advantages(REWARDS, "grpo", selection=SCORES),
        "selection: the credit 'reward' has no order of samples",
    ),
    "selection shape": (
        lambda: max_at_k(REWARDS, 2, selection=SCORES[0]),
        r"selection: must have the shape of the rewards \(2, 4\), got \(4,\)",
    ),
    "ragged beside": (
        lambda: advantages(RAGGED, k=1, selection=[[1.0], [1.0], [1.0]]),
        r"selection: .* rewards \(6,\), got a list of 1 where they have 3",
    ),
}


@pytest.mark.parametrize(("call", "text"), WRONG.values(), ids=WRONG)
def test_columns_that_do_not_fit_are_refused(call, text):
    with pytest.raises(InvalidValueError, match=text):
        call()


def test_a_mask_is_a_sample_without_a_score():
    masked = np.ma.masked_array([[1.0, 5.0, 3.0]], mask=[[0, 1, 0]])
    np.testing.assert_allclose(max_at_k(masked, 1), [2.0])
    rows = [masked[0], np.array([0.0, 1.0, 2.0])]
    np.testing.assert_allclose(max_at_k(rows, 1), [2.0, 1.0])
    ragged = [masked[0], [0.0, 1.0]]
    np.testing.assert_allclose(max_at_k(ragged, 1), [2.0, 0.5])
    np.testing.assert_allclose(
        advantages(masked, k=2), advantages([[1.0, np.nan, 3.0]], k=2), atol=1e-15
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("sizes", [(2, 2), (2, 3)])
@pytest.mark.parametrize("grad", [False, True])
def test_lists_of_tensors_are_taken_whatever_their_lengths(dtype, sizes, grad):
    rows = [torch.arange(float(n)).to(dtype).requires_grad_(grad) for n in sizes]
    want = advantages([row.tolist() for row in rows], k=1)
    for advantage_row, row in zip(advantages(rows, k=1), want, strict=True):
        np.testing.assert_allclose(advantage_row, row)
    nested = [list(row) for row in rows]
    for advantage_row, row in zip(advantages(nested, k=1), want, strict=True):
        np.testing.assert_allclose(advantage_row, row)


@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_tensor_anywhere_in_a_list_is_taken(place):
    rewards = [[0.0, 0.25], [0.5, 1.0]]
    want = max_at_k(rewards, 1)
    row, column = divmod(place, 2)
    number = rewards[row][column]
    rewards[row][column] = torch.tensor(number, dtype=torch.bfloat16, requires_grad=True)
    np.testing.assert_allclose(max_at_k(rewards, 1), want)


def test_samples_without_an_answer_share_one():
    rewards = [[1.0, 0.0, 0.0]]
    nan = float("nan")
    alike = [[[nan, nan, 1.0]], np.array([[nan, nan, 1.0]]), [[None, nan, 1.0]], [[None, None, 1]]]
    for answers in alike:
        np.testing.assert_allclose(majority_at_k(rewards, answers, 3), [0.5])
    assert majority_at_k(rewards, [["x", "y", 1.0]], 3)[0] == pytest.approx(1 / 3)


@pytest.mark.parametrize("size", [1e300, 1e-60])
def test_results_that_float32_cannot_hold_are_refused(size):
    rewards = torch.tensor([[0.0, size]], dtype=torch.float64)
    for call in (advantages, max_at_k):
        with pytest.raises(
            InvalidValueError, match="rewards: the results for a tensor are float32"
        ):
            call(rewards, k=1)
    assert np.abs(advantages(rewards.numpy(), k=1)).max() > 0


def test_nothing_heavy_is_imported_for_arrays():
    import subprocess

    probe = (
        "import sys; from maxatk import advantages; advantages([[0.0, 1.0]], k=1); "
        "print([n for n in ('torch', 'pandas') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_ids_from_a_loop_over_a_tensor_are_the_numbers_that_they_hold():
    """Equal tensors have different hashes: each sample was a group, a rollout, an answer alone."""
    rewards = [1.0, 0.0, 1.0, 0.0]
    ids = [0, 0, 1, 1]
    looped = list(torch.tensor(ids))
    expected = max_at_k(rewards, 1, groups=ids)
    np.testing.assert_array_equal(max_at_k(rewards, 1, groups=looped), expected)
    by_rollout = {"groups": ["a"] * 4, "rollout_reward": "sum"}
    expected = max_at_k(rewards, 1, rollouts=ids, **by_rollout)
    np.testing.assert_array_equal(max_at_k(rewards, 1, rollouts=looped, **by_rollout), expected)
    expected = advantages([rewards], "majority", 3, answers=[[0, 0, 0, 1]])
    answers = [list(torch.tensor([0, 0, 0, 1]))]
    np.testing.assert_array_equal(advantages([rewards], "majority", 3, answers=answers), expected)
    with pytest.raises(InvalidValueError, match="groups: must be hashable, got a tensor of 2"):
        max_at_k(rewards, 1, groups=list(torch.zeros(4, 2)))
