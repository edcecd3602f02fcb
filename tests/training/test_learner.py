"""The training step that every trainer is made of, with arrays alone."""

import itertools

import numpy as np
import pytest
import torch

from maxatk import METHODS, advantages
from maxatk.errors import InvalidValueError
from maxatk.objectives import method_of
from maxatk.training import Groups, Learner, Objective, TrainingRecord, ratio_values
from maxatk.training.rows import Rows

NAN = float("nan")
REWARDS = np.array([[0.0, 0.25, 1.0, 0.25], [0.5, NAN, 0.75, 0.0], [1.0, 1.0, 1.0, 1.0]])
TEXTS = [["a", "b", "c", "b"], ["d", "e", "c", "g"], ["h", "h", "h", "h"]]
CORRECTED = "bon_off_policy_exact"
ON_REWARDS = [name for name in METHODS if not method_of(name).credit_row.needs_answers]


def subset_max(rewards, k):
    return np.mean([max(chosen) for chosen in itertools.combinations(rewards, k)])


def learner(**settings):
    return Learner(Objective(**{"method": "bon_loo1", "k": 2, **settings}))


@pytest.mark.parametrize(
    "method", [m for m in METHODS if not method_of(m).credit_row.needs_answers]
)
def test_a_step_has_the_advantages_of_the_package_times_the_scale(method):
    step = learner(method=method).step(Groups(REWARDS, k=2), TEXTS)
    row = method_of(method)
    summed = row.scale == "none" and not row.credit_row.per_sample
    expected = (4 if summed else 1) * advantages(REWARDS, method, 2)
    np.testing.assert_array_equal(step.advantages, expected)


FORMS = {
    "integers": np.array([[0, 1, 1, 0], [1, 1, 0, 1]]),
    "truth values": np.array([[False, True, True, False], [True, True, False, True]]),
    "lists": [[0, 1, 1, 0], [1, 1, 0, 1]],
    "objects": np.array([[0.0, 1, 1, 0], [1, True, np.float32(0), 1]], dtype=object),
    "half precision": np.array([[0, 1, 1, 0], [1, 1, 0, 1]], dtype=np.float16),
    "a tensor": torch.tensor([[0, 1, 1, 0], [1, 1, 0, 1]]),
}


@pytest.mark.parametrize("rewards", FORMS.values(), ids=FORMS)
def test_numbers_of_every_form_are_rewards(rewards):
    texts = [list("abcd"), list("efgh")]
    step = learner().step(Groups(rewards, k=2, masked=rewards), texts)
    floats = np.array([[0.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 1.0]])
    expected = learner().step(Groups(floats, k=2, masked=floats == 1), texts)
    np.testing.assert_array_equal(step.advantages, 4 * advantages(floats, "bon_loo1", 2))
    np.testing.assert_array_equal(step.advantages, expected.advantages)
    assert step.metrics == expected.metrics
    assert step.mean_reward == 0.625


def test_none_is_a_sample_without_a_reward():
    step = learner().step(Groups([[0.0, None, 1.0, 0.5]], k=2), [list("abcd")])
    assert step.metrics["frac_without_reward"] == 0.25
    np.testing.assert_array_equal(
        step.advantages, 4 * advantages([[0.0, NAN, 1.0, 0.5]], "bon_loo1", 2)
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rewards": [0.0, 1.0]}, r"rewards: must be of shape \(prompts, samples\), got \(2,\)"),
        ({"rewards": [["0", "1"]]}, "rewards: must be an array of numbers"),
        ({"rewards": [[0.0, 1.0], [1.0]]}, r"rewards: .*\(its rows have different lengths\)"),
        ({"selection": [1.0, 2.0]}, r"selection: must be of the shape of the rewards \(1, 2\)"),
        ({"answers": [["a", "b"]]}, "answers: must be an array of numbers"),
        ({"masked": [[True]]}, r"masked: must be of the shape .*got \(1, 1\)"),
        ({"marks": [[0.0, 1.0, 1.0]]}, r"marks: must be of the shape .*got \(1, 3\)"),
        ({"k": 0}, "k: must be an integer >= 1, got 0"),
    ],
)
def test_columns_of_other_shapes_are_refused(fields, message):
    with pytest.raises(InvalidValueError, match=message):
        Groups(**{"rewards": [[0.0, 1.0]], "k": 1, **fields})


@pytest.mark.parametrize("texts", [None, 5, (text for text in "ab"), [5, 5, 5]])
def test_texts_of_another_kind_are_refused(texts):
    with pytest.raises(InvalidValueError, match="texts: must be"):
        learner().step(Groups(REWARDS, k=2), texts)


def test_a_batch_without_groups_is_refused():
    with pytest.raises(InvalidValueError, match="groups: must be one or more"):
        learner().step(Groups(np.zeros((0, 4)), k=2), [])


def test_the_name_of_a_method_is_no_objective():
    with pytest.raises(InvalidValueError, match="objective: must be an Objective, got 'bon_loo1'"):
        Learner("bon_loo1")


def test_texts_that_are_not_those_of_the_groups_are_refused():
    groups = Groups(REWARDS, 2)
    with pytest.raises(InvalidValueError, match="texts: must be a list of 3 groups"):
        learner().step(groups, TEXTS[:2])
    for wrong in ([], list("abcde"), "abc"):
        with pytest.raises(InvalidValueError, match="texts: must be 1 to 4 completions of each"):
            learner().step(groups, [*TEXTS[:2], wrong])


def test_ratios_may_be_lists():
    listed = ratio_values([[0.0, 0.1]], clamp=0.5, k=2)
    assert listed == ratio_values(np.array([[0.0, 0.1]]), clamp=0.5, k=2)
    with pytest.raises(InvalidValueError, match="log_ratios: must have shape"):
        ratio_values([0.0, 0.1], clamp=0.5, k=2)


def test_a_step_logs_what_enumeration_says_of_the_groups():
    metrics = learner().step(Groups(REWARDS, k=2), TEXTS).metrics
    for k in (1, 2):
        values = [subset_max(group[~np.isnan(group)], k) for group in REWARDS]
        assert metrics[f"max@{k}"] == pytest.approx(np.mean(values))
    assert metrics["max@4"] == pytest.approx(1.0)  # the group with a gap has three samples
    assert metrics["objective/k"] == 2
    assert metrics["frac_groups_without_signal"] == pytest.approx(1 / 3)
    assert metrics["completions/distinct"] == pytest.approx((3 / 4 + 1 + 1 / 4) / 3)
    assert metrics["completions/rewarded_elsewhere"] == pytest.approx(2 / 9)  # c, of nine above 0
    assert metrics["frac_without_reward"] == pytest.approx(1 / 12)


TOKENS = [[[ord(text), 1, 2] for text in group] for group in TEXTS]


@pytest.mark.parametrize(
    "told_apart_by",
    [
        TOKENS,
        np.array(TOKENS),
        torch.tensor(TOKENS),
        [[torch.tensor(ids) for ids in group] for group in TOKENS],
        [[{"role": "assistant", "content": text} for text in group] for group in TEXTS],
    ],
)
def test_completions_may_be_told_apart_by_their_tokens_or_messages(told_apart_by):
    groups = Groups(REWARDS, k=2)
    assert learner().step(groups, told_apart_by).metrics == learner().step(groups, TEXTS).metrics


def test_a_group_is_solved_by_a_sample_that_is_right():
    rewards = np.array([[0.0, 0.9, NAN, 0.5], [0.2, 1.0, 0.0, 0.0], [1.1, NAN, 0.0, 0.0]])
    marks = np.array([[0.0, 0.0, NAN, 1.0], [0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
    by_reward = learner().step(Groups(rewards, 2), TEXTS).metrics
    assert by_reward["frac_groups_solved"] == pytest.approx(2 / 3)
    by_marks = learner().step(Groups(rewards, 2, marks=marks), TEXTS).metrics
    assert by_marks["frac_groups_solved"] == pytest.approx(2 / 3)
    assert Groups(rewards, 2, marks=marks).solved().tolist() == [True, False, True]


def test_a_signal_is_an_advantage_in_the_loss_and_with_marks_a_difference_in_them():
    advantages_of_groups = np.array([[0.0, 0.1, 0, 0], [0.3, 0, 0, 0], [0.3, 0.1, 0, 0]])
    masked = np.array([[False, True, False, False], [False] * 4, [False] * 4])
    marks = np.array([[0.0, 1, 0, 0], [0, 0, NAN, 0], [1, 0, 0, 0]])
    rewards = np.zeros((3, 4))

    def signal(**fields):
        return Groups(rewards, 2, **fields).have_signal(advantages_of_groups).tolist()

    assert signal() == [True, True, True]
    assert signal(masked=masked) == [False, True, True]
    assert signal(marks=marks) == [True, False, True]
    assert signal(marks=marks, masked=masked) == [False, False, True]
    assert signal(marks=np.full((3, 4), NAN)) == [False] * 3


def test_masked_samples_need_no_reward_and_lost_ones_are_none():
    masked = np.isnan(REWARDS)
    assert (
        learner().step(Groups(REWARDS, 2, masked=masked), TEXTS).metrics["frac_without_reward"]
        == 0.0
    )
    lost = np.array([[0.0, 1.0, 0.5, NAN]])  # three samples, of which all have a reward
    step = learner().step(Groups(lost, 2), [["a", "b", "c"]])
    assert step.metrics["frac_without_reward"] == 0.0
    assert step.mean_reward == pytest.approx(0.5)


def test_a_batch_without_any_reward_has_no_mean_and_no_signal():
    step = learner().step(Groups(np.full((1, 4), NAN), 2), [list("abcd")])
    assert np.isnan(step.mean_reward)
    assert step.metrics["frac_groups_without_signal"] == 1
    assert not step.advantages.any()


def test_later_advantages_are_those_of_the_ratios_with_the_scale_of_the_batch(tmp_path):
    ours = learner(method=CORRECTED, advantage_scale="batch")
    groups = Groups(REWARDS, k=2)
    first = ours.step(groups, TEXTS)
    log_ratios = np.random.default_rng(0).normal(0, 0.2, REWARDS.shape)
    later = ours.advantages(groups, log_ratios)
    scale = first.advantages[0, 2] / advantages(REWARDS, CORRECTED, 2)[0, 2]
    np.testing.assert_allclose(
        later, scale * advantages(REWARDS, CORRECTED, 2, log_ratios=log_ratios)
    )
    ours.save(str(tmp_path))
    resumed = learner(method=CORRECTED, advantage_scale="batch")
    resumed.load(str(tmp_path))
    np.testing.assert_array_equal(resumed.advantages(groups, log_ratios), later)
    with pytest.raises(InvalidValueError, match="advantage_scale"):
        resumed.load(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"advantage_scale": "btach"}, "advantage_scale: unknown value 'btach'.*mean 'batch'"),
        ({"max_weight": 7}, "max_weight: must be from 0 to 1, got 7"),
        ({"k_schedule": "lienar"}, "k_schedule: unknown value 'lienar'.*mean 'linear'"),
        ({"k": 2.0}, "k: must be a whole number from 1 to the group size, got 2.0"),
        ({"method": "bon_loo"}, "method: unknown value 'bon_loo'"),
    ],
)
def test_settings_that_are_never_allowed_are_refused_before_any_group(settings, message):
    with pytest.raises(InvalidValueError, match=message):
        learner(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"k": 32}, r"k: must be a whole number from 1 to the group size \(4\), got 32"),
        ({"k_schedule": "linear", "k_final": 99}, r"k_final: must be .*\(4\), got 99"),
        ({"method": "bon_mean", "k": 4}, "k: 4 is the group size.*nothing would be trained"),
    ],
)
def test_what_groups_are_too_small_for_is_refused_by_step_and_record(tmp_path, settings, message):
    ours = learner(**settings)
    groups = Groups(REWARDS, k=1)
    with pytest.raises(InvalidValueError, match=message):
        ours.step(groups, TEXTS)
    with pytest.raises(InvalidValueError, match=message):
        TrainingRecord(tmp_path / "out", ours.objective, group_size=4, steps=3)
    assert not (tmp_path / "out").exists()
    ours.step(groups, TEXTS, held_out=True)  # of an evaluation, which may have fewer samples


def test_held_out_groups_of_one_sample_are_no_reason_to_warn(recwarn):
    groups = Groups([[1.0], [0.0]], k=2)
    step = learner().step(groups, [["a"], ["b"]], held_out=True)
    np.testing.assert_array_equal(step.advantages, [[0.0], [0.0]])
    assert step.metrics["max@1"] == 0.5
    level = learner(method={"credit": "max_at_k", "baseline": "none"}).step(
        groups, [["a"], ["b"]], held_out=True
    )
    assert level.advantages.any()  # of a method whose advantages are not of a comparison
    assert not recwarn.list


def test_a_k_of_the_groups_beyond_their_size_is_refused():
    with pytest.raises(InvalidValueError, match="k: must be at most the number of samples"):
        learner().step(Groups(REWARDS, k=32), TEXTS)
    step = learner().step(Groups(REWARDS, k=32), TEXTS, held_out=True)
    np.testing.assert_array_equal(step.advantages, 4 * advantages(REWARDS, "bon_loo1", 4))


def test_answers_in_the_groups_need_no_name_of_a_function():
    answers = [[0, 1, 1, 0], [0, 1, 2, 0], [0, 0, 0, 0]]
    step = learner(method="majority").step(Groups(REWARDS, 2, answers=answers), TEXTS)
    expected = advantages(REWARDS, "majority", 2, answers=answers)
    np.testing.assert_array_equal(step.advantages, 4 * expected)


def test_held_out_groups_do_not_move_the_scale():
    ours = learner(advantage_scale="batch")
    ours.step(Groups(REWARDS, 2), TEXTS)
    before = ours.factor(4)
    ours.step(Groups(3 * REWARDS, 2), TEXTS, held_out=True)
    assert ours.factor(4) == before
    ours.step(Groups(3 * REWARDS, 2), TEXTS)
    assert ours.factor(4) != before


def test_some_of_the_groups_are_chosen_by_their_samples():
    groups = Groups(REWARDS, 2, selection=-REWARDS)
    chosen = groups.at(np.array([8, 9, 10, 11, 0, 1, 2, 3]))
    np.testing.assert_array_equal(chosen.rewards, REWARDS[[2, 0]])
    np.testing.assert_array_equal(chosen.selection, -REWARDS[[2, 0]])
    assert chosen.k == 2


def test_rows_in_any_order_are_groups_and_back():
    ids = ["y", "x", "y", "x", "x"]
    rewards = np.array([0.0, 1.0, 0.5, 0.25, 0.75])
    rows = Rows(ids, group_size=3)
    assert rows.members == [[[0], [2]], [[1], [3], [4]]]
    groups = rows.groups(rewards, k=2)
    np.testing.assert_array_equal(groups.rewards, [[0.0, 0.5, NAN], [1.0, 0.25, 0.75]])
    np.testing.assert_array_equal(rows.of_rows(groups.rewards), rewards)


def test_ids_in_tensors_name_the_same_samples_as_numbers():
    ids = [1, 0, 1, 1]
    rollouts = [0, 0, 0, 1]
    of_tensors = Rows(torch.tensor(ids), 2, torch.tensor(rollouts))
    assert of_tensors.members == Rows(ids, 2, rollouts).members == [[[0, 2], [3]], [[1]]]


def test_a_group_with_more_samples_than_its_size_is_refused():
    more = "group_size: must be at least the samples of every group, of which 'x' has 2, got 1"
    rewards = np.array([0.0, 1.0, 0.5])
    with pytest.raises(InvalidValueError, match=more):
        Rows(["x", "y", "x"], 1).groups(rewards, k=1)
    with pytest.raises(InvalidValueError, match=more):
        Rows(["y", "x", "x"], 1, ["a", "a", "b"]).groups(rewards, k=1)
    of_one_rollout = Rows(["x", "x", "x"], 1, ["a", "a", "a"], "sum").groups(rewards, k=1)
    np.testing.assert_array_equal(of_one_rollout.rewards, [[1.5]])
    with pytest.raises(InvalidValueError, match="group_size: must be an integer >= 1, got 0"):
        Rows(["x"], 0).groups(rewards[:1], k=1)


def split_at_random(seed):
    """Rows of 1 to 4 parts a sample in any order, each with its part of the log ratio."""
    generator = np.random.default_rng(seed)
    places = [
        (group, sample)
        for group in range(len(REWARDS))
        for sample in range(REWARDS.shape[1])
        for _ in range(generator.integers(1, 5))
    ]
    generator.shuffle(places)
    ids = [f"g{group}" for group, _ in places]
    return ids, [sample for _, sample in places], generator.normal(0, 0.2, len(places)), places


@pytest.mark.parametrize("method", [*ON_REWARDS])
def test_splitting_samples_into_rows_changes_no_advantage_and_no_value_of_the_log(method):
    """Learner and log, on groups of any order, against the same samples as one row each."""
    for seed in range(5):
        ids, samples, parts, places = split_at_random(seed)
        rows = Rows(ids, 4, samples)
        rewards = np.array([REWARDS[int(group), int(sample)] for group, sample in places])
        log_ratios = rows.log_ratios(parts) if method_of(method).correction != "none" else None
        step = learner(method=method).step(
            rows.groups(rewards, k=2),
            [[str(rows.ids[part[0]]) + str(samples[part[0]]) for part in g] for g in rows.members],
            log_ratios=log_ratios,
        )
        sums = np.zeros_like(REWARDS)
        for (group, sample), part in zip(places, parts, strict=True):
            sums[int(group), int(sample)] += part
        whole = learner(method=method).step(
            Groups(REWARDS, k=2),
            [[f"g{group}{sample}" for sample in range(4)] for group in range(len(REWARDS))],
            log_ratios=None if log_ratios is None else sums,
        )
        of_rows = rows.of_rows(step.advantages)
        expected = [whole.advantages[int(group), int(sample)] for group, sample in places]
        np.testing.assert_allclose(of_rows, expected, atol=1e-9)
        assert step.metrics.keys() == whole.metrics.keys()
        for name, value in whole.metrics.items():
            assert step.metrics[name] == pytest.approx(value, nan_ok=True), name


def test_a_sample_whose_rows_have_different_rewards_is_refused():
    rows = Rows(["x", "x", "x"], 2, ["a", "b", "a"])
    with pytest.raises(InvalidValueError, match="rewards: the rows of one rollout of group 'x'"):
        rows.groups(np.array([0.0, 1.0, 0.5]), k=1)
    last = Rows(["x", "x", "x"], 2, ["a", "b", "a"], "last")
    np.testing.assert_array_equal(last.groups(np.array([0.0, 1.0, 0.5]), k=1).rewards, [[0.5, 1.0]])


def test_ratios_are_logged_in_their_own_words():
    log_ratios = np.log([[1.0, 1.5, 0.25, 1.0]])
    values = ratio_values(log_ratios, clamp=0.5, k=1)
    assert values["ratio/mean_abs_delta"] == pytest.approx(1.25 / 4)
    assert values["ratio/max_abs_delta"] == pytest.approx(0.75)
    assert values["ratio/clamped"] == pytest.approx(0.25)
    clipped = np.array([1.0, 1.5, 0.5, 1.0])
    assert values["ratio/effective_samples"] == pytest.approx(
        clipped.sum() ** 2 / (4 * (clipped**2).sum())
    )
    assert "ratio/effective_samples" not in ratio_values(log_ratios, clamp=None)


def test_a_sample_without_a_ratio_counts_in_no_logged_value():
    nan = np.nan
    log_ratios = np.log([[1.0, nan, 1.5, 0.25], [nan, nan, nan, nan], [nan, 0.9, nan, nan]])
    values = ratio_values(log_ratios, clamp=0.5, k=2)
    assert values["ratio/mean_abs_delta"] == pytest.approx((0.5 + 0.75 + 0.1) / 4)
    assert values["ratio/max_abs_delta"] == pytest.approx(0.75)
    assert values["ratio/clamped"] == pytest.approx(1 / 4)
    first = ratio_values(np.log([[1.0, 1.5, 0.25]]), clamp=0.5, k=2)
    expected = (first["ratio/effective_samples"] + 1) / 2
    assert values["ratio/effective_samples"] == pytest.approx(expected)
    of_nothing = ratio_values(log_ratios[1:2], clamp=0.5, k=2)
    assert all(np.isnan(value) for value in of_nothing.values())
