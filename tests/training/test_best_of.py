"""`best_of` by TRL's protocol: its values, its groups, what it refuses and what it logs."""

import asyncio
import fractions
import types

import numpy as np
import pytest
import torch

import maxatk
from maxatk import advantages, best_of, max_at_k
from maxatk.errors import InvalidValueError

REWARDS = [0.0, 0.2, 0.5, 1.0, 0.3, 0.3, 0.0, 0.9]
PROMPTS = ["a"] * 4 + ["b"] * 4


def of(values):
    """A reward function that returns these values."""

    def own(prompts, completions, **columns):
        return values

    return own


def call(reward, prompts=PROMPTS, **columns):
    return reward(prompts=prompts, completions=["text"] * len(prompts), **columns)


def trainer(training=True, **args):
    """What TRL's bound methods show of a trainer, and the metrics it was given."""

    class Trainer:
        def __init__(self):
            self.args = types.SimpleNamespace(**args)
            self.model = types.SimpleNamespace(training=training)
            self.metrics = {}
            self.extra = {}

        def log_metric(self, name, value):
            self.metrics[name] = value

        def log_extra(self, column, values):
            self.extra[column] = values

    return Trainer()


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("method", ["bon_centred", "bon_mean", "rloo"])
def test_the_values_are_n_times_the_centred_advantages(method, k):
    values = np.reshape(call(best_of(of(REWARDS), k=k, method=method)), (2, 4))
    expected = 4 * advantages(np.reshape(REWARDS, (2, 4)), method, k)
    np.testing.assert_allclose(values, expected, atol=1e-15)
    np.testing.assert_allclose(values.sum(axis=1), 0, atol=1e-12)


def test_methods_are_taken_by_whether_their_advantages_sum_to_0():
    rng = np.random.default_rng(1)
    for name, method in maxatk.METHODS.items():
        if method.credit_row.needs_answers:
            continue
        values = advantages(rng.random((20, 6)), method, 3)
        if np.abs(values.sum(axis=1)).max() < 1e-9:
            best_of(of(REWARDS), k=3, method=name)
        else:
            with pytest.raises(InvalidValueError, match="do not sum to 0"):
                best_of(of(REWARDS), k=3, method=name)


def test_one_method_of_ones_own_is_taken():
    top_two = maxatk.Method(credit=maxatk.OrderWeights.top(2, of=3), baseline="remove_one")
    values = call(best_of(of(REWARDS), k=1, method=top_two))
    expected = 4 * advantages(np.reshape(REWARDS, (2, 4)), top_two)
    np.testing.assert_allclose(np.reshape(values, (2, 4)), expected)


def test_conversations_and_a_named_column_are_groups():
    expected = call(best_of(of(REWARDS), k=2))
    talks = [[{"role": "user", "content": p}] for p in PROMPTS]
    assert call(best_of(of(REWARDS), k=2), prompts=talks) == expected
    by_id = call(best_of(of(REWARDS), k=2, groups="id"), prompts=["same"] * 8, id=PROMPTS)
    assert by_id == expected


def test_ids_of_tensors_and_arrays_are_compared_by_what_they_hold():
    expected = call(best_of(of(REWARDS), k=2))
    ids = torch.tensor([0] * 4 + [1] * 4)
    by_id = best_of(of(REWARDS), k=2, groups="id")
    for column in (ids, list(ids), ids.numpy(), list(np.eye(2)[ids])):
        assert call(by_id, prompts=["same"] * 8, id=column) == expected
    prompts = [np.array([7, group]) for group in ids]
    assert call(best_of(of(REWARDS), k=2), prompts=prompts) == expected
    twice = [0.5, 0.5, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0]
    rollouts = torch.tensor([0, 0, 1, 1, 0, 0, 1, 1])
    of_rollouts = best_of(of(twice), k=1, rollouts="rollout")
    listed = call(of_rollouts, rollout=rollouts.tolist())
    assert listed == [1.0 * value for value in (0.5, 0.5, -0.5, -0.5, 1.0, 1.0, -1.0, -1.0)]
    for column in (rollouts, list(rollouts)):
        assert call(of_rollouts, rollout=column) == listed


def test_the_number_of_samples_tells_two_equal_prompts_in_a_row_apart():
    expected = call(best_of(of(REWARDS), k=2))
    shown = trainer(num_generations=4, scale_rewards="none")
    values = call(best_of(of(REWARDS), k=2), prompts=["same"] * 8, log_metric=shown.log_metric)
    assert values == expected


def test_an_evaluation_has_its_own_number_of_samples():
    args = {"num_generations": 8, "num_generations_eval": 4, "scale_rewards": "none"}
    shown = trainer(training=False, **args)
    assert call(best_of(of(REWARDS), k=2), log_metric=shown.log_metric)


@pytest.mark.parametrize("samples", [1, 2, 3])
def test_an_evaluation_may_have_as_few_samples_as_one(samples):
    """A training that evaluates with fewer samples than k would end at its first evaluation."""
    rewards = REWARDS[: 2 * samples]
    args = {"num_generations": 8, "num_generations_eval": samples, "scale_rewards": "none"}
    shown = trainer(training=False, **args)
    reward = best_of(of(rewards), k=4)
    prompts = ["a"] * samples + ["b"] * samples
    values = np.reshape(call(reward, prompts, log_metric=shown.log_metric), (2, samples))
    rows = np.reshape(rewards, (2, samples))
    largest = max(samples - 1, 1)  # the baseline leaves one out
    expected = np.zeros((2, samples))
    if samples > 1:
        expected = samples * advantages(rows, "bon_centred", largest)
    np.testing.assert_allclose(values, expected, atol=1e-15)
    assert shown.metrics["best_of/reward"] == pytest.approx(rows.mean())
    assert shown.metrics[f"best_of/max@{largest}"] == pytest.approx(max_at_k(rows, largest).mean())


def test_an_evaluation_of_rollouts_may_have_fewer_than_k():
    args = {"num_generations": 8, "num_generations_eval": 1, "scale_rewards": "none"}
    shown = trainer(training=False, **args)
    reward = best_of(of([0.5] * 4), k=2, rollouts="rollout")
    columns = {"rollout": [0, 0, 1, 1], "log_metric": shown.log_metric}
    assert call(reward, ["a"] * 2 + ["b"] * 2, **columns) == [0.0] * 4
    assert shown.metrics["best_of/max@1"] == 0.5


@pytest.mark.parametrize("column", [None, "rollout"])
def test_a_call_without_completions_is_refused(column):
    with pytest.raises(InvalidValueError, match="groups of one size, got"):
        call(best_of(of([]), k=2, rollouts=column), [], rollout=[])


def test_a_sample_without_a_reward_has_none_and_the_others_sum_to_0():
    values = call(best_of(of([0.0, None, 0.5, float("nan"), 0.3, 0.3, 0.0, 0.9]), k=1))
    assert values[1] is None
    assert values[3] is None
    assert values[0] + values[2] == pytest.approx(0)
    assert values[2] == pytest.approx(4 * 0.25)


@pytest.mark.parametrize("rule", ["last", "sum", None])
def test_a_turn_without_a_reward_has_the_value_of_its_rollout(rule):
    """A reward function that scores a rollout at one of its turns alone trains on all its turns."""
    rewards = [None, None, 1.0, 0.25, None, 0.5, None]
    rollouts = [0, 0, 0, 1, 1, 2, 3]
    shown = trainer(scale_rewards="none")
    reward = best_of(of(rewards), k=1, rollouts="rollout", rollout_reward=rule)
    values = call(reward, ["a"] * 7, rollout=rollouts, log_metric=shown.log_metric)
    of_rollouts = 4 * advantages([[1.0, 0.25, 0.5, np.nan]], "bon_centred", 1)[0]
    expected = [*of_rollouts[[0, 0, 0, 1, 1, 2]].tolist(), None]  # the last has no reward at all
    assert values == pytest.approx(expected)
    assert shown.metrics["best_of/reward"] == pytest.approx((1 + 0.25 + 0.5) / 3)
    assert call(best_of(of([1.0, 0.25, 0.5, None]), k=1), ["a"] * 4)[:3] == pytest.approx(
        of_rollouts[:3].tolist()
    )


@pytest.mark.parametrize(("rule", "mean"), [(None, 0.5), ("last", 0.5), ("sum", 3.5 / 3)])
def test_the_logged_reward_counts_a_rollout_of_several_rows_once(rule, mean):
    rewards = [1.0, 1.0, 1.0, 0.0, 0.0, 0.5]
    shown = trainer(scale_rewards="none")
    reward = best_of(of(rewards), k=1, rollouts="rollout", rollout_reward=rule)
    columns = {"log_metric": shown.log_metric, "log_extra": shown.log_extra}
    call(reward, ["a"] * 6, rollout=[0, 0, 0, 1, 1, 2], **columns)
    assert shown.metrics["best_of/reward"] == pytest.approx(mean)
    assert shown.metrics["best_of/max@1"] == pytest.approx(mean)
    assert shown.extra == {"reward before best_of": rewards}


@pytest.mark.parametrize("value", [{"weights": 1.0}, {"groups": 3}, {"rollouts": 3}, {"folder": 3}])
def test_an_argument_of_another_kind_is_refused_by_its_name(value):
    (name,) = value
    with pytest.raises(InvalidValueError, match=f"best_of: {name}: must be"):
        best_of(of(REWARDS), k=2, **value)


def test_several_rewards_are_summed_with_their_weights():
    second = [1.0, None, 0.0, 0.0, 0.0, 0.0, None, 1.0]
    first = [None, None, 0.5, 1.0, 0.3, 0.3, 0.0, 0.9]
    total = [2.0, None, 0.5, 1.0, 0.3, 0.3, 0.0, 2.9]
    values = call(best_of([of(first), of(second)], k=2, weights=[1, 2]))
    assert values == call(best_of(of(total), k=2))


def test_an_async_reward_gives_an_async_function():
    async def later(prompts, completions, **columns):
        await asyncio.sleep(0)
        return REWARDS

    class Later:
        async def __call__(self, prompts, completions, **columns):
            return REWARDS

    expected = call(best_of(of(REWARDS), k=2))
    for function in (later, Later()):
        assert asyncio.run(call(best_of(function, k=2))) == expected
    twice = best_of([later, of(REWARDS)], k=2, weights=[0.5, 0.5])
    assert asyncio.run(call(twice)) == expected


def test_the_log_gets_what_the_training_is_about():
    shown = trainer(num_generations=4, scale_rewards="none")
    rewards = [*REWARDS[:4], 0.5, 0.5, 0.5, 0.5]
    loggers = {"log_metric": shown.log_metric, "log_extra": shown.log_extra}
    call(best_of(of(rewards), k=2), **loggers)
    rows = np.reshape(rewards, (2, 4))
    assert shown.metrics == {
        "best_of/reward": pytest.approx(rows.mean()),
        "best_of/max@2": pytest.approx(max_at_k(rows, 2).mean()),
        "best_of/frac_groups_without_signal": 0.5,
    }
    assert shown.extra == {"reward before best_of": rewards}


def test_nothing_is_logged_of_samples_that_have_no_reward():
    shown = trainer(num_generations=4)
    assert call(best_of(of([None] * 8), k=2), log_metric=shown.log_metric) == [None] * 8
    assert shown.metrics == {"best_of/frac_groups_without_signal": 1.0}


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"k": 0}, "k: must be"),
        ({"k": 2, "method": "bon_loo1"}, "do not sum to 0"),
        ({"k": 2, "method": "majority"}, "needs answers"),
        ({"k": 2, "method": "bon_centered"}, "bon_centred"),
        ({"k": 2, "weights": [1, 2]}, "must be 1 finite number"),
        ({"k": 2, "weights": [float("nan")]}, "must be 1 finite number"),
        ({"k": 2, "rollout_reward": "sum"}, "rollout_reward: must be None without rollouts"),
        ({"k": 2, "folder": __file__}, "folder: must be a folder, got"),
    ],
)
def test_arguments_that_cannot_work_are_refused_at_once(arguments, message):
    with pytest.raises(InvalidValueError, match=message):
        best_of(of(REWARDS), **arguments)


def test_what_is_no_function_is_refused():
    with pytest.raises(InvalidValueError, match="must be a function, got 'accuracy'"):
        best_of(["accuracy"], k=2)
    with pytest.raises(InvalidValueError, match="must be a function, got 'org/reward-model'"):
        best_of("org/reward-model", k=2)
    with pytest.raises(InvalidValueError, match="at least one function"):
        best_of([], k=2)


def test_a_reward_that_makes_advantages_already_is_refused():
    made = best_of(of(REWARDS), k=2)
    for reward in (made, [of(REWARDS), made]):
        with pytest.raises(InvalidValueError, match=r"best_of_2_.* was made by best_of"):
            best_of(reward, k=2)


@pytest.mark.parametrize(
    "prompts, message",
    [
        (["a"] * 3 + ["b"] * 5, r"groups of one size, got runs of \[3, 5\]"),
        (["a"] * 4 + ["b"] * 2 + ["c"] * 2, "groups='column' names a column"),
        (["a", "b"] * 4, "got k=2 with 1 sample one after the other"),
        (["a"] * 7, "must return a list of 7 values"),
    ],
)
def test_groups_that_are_not_whole_are_refused(prompts, message):
    with pytest.raises(InvalidValueError, match=message):
        call(best_of(of(REWARDS), k=2), prompts=prompts)


def test_k_of_the_whole_group_is_refused():
    with pytest.raises(InvalidValueError, match="k: must be below the samples of a prompt"):
        call(best_of(of(REWARDS), k=4))


@pytest.mark.parametrize(
    "values", [REWARDS[:7], [*REWARDS, 1.0], 0.5, None, ["1"] * 8, [float("inf")] * 8, [1j] * 8]
)
def test_values_that_are_not_one_number_a_completion_are_refused(values):
    with pytest.raises(InvalidValueError, match="best_of: own must return"):
        call(best_of(of(values), k=2))


def test_a_missing_column_of_groups_is_refused():
    with pytest.raises(InvalidValueError, match="no column 'id'; there are task"):
        call(best_of(of(REWARDS), k=2, groups="id"), task=["x"] * 8)
    with pytest.raises(InvalidValueError, match="there are none beside prompts and completions"):
        call(best_of(of(REWARDS), k=2, groups="id"))


@pytest.mark.parametrize(
    "args, message",
    [
        ({"scale_rewards": "group"}, "scale_rewards: must be 'none', got 'group'"),
        ({"scale_rewards": True}, "scale_rewards: must be 'none', got True"),
        ({"multi_objective_aggregation": "normalize_then_sum"}, "multi_objective_aggregation"),
        ({"num_generations": 8}, r"whole groups of 8, got runs of \[4, 4\]"),
    ],
)
def test_a_configuration_that_changes_the_values_is_refused(args, message):
    with pytest.raises(InvalidValueError, match=message):
        call(best_of(of(REWARDS), k=2), log_metric=trainer(**args).log_metric)


def test_arrays_are_taken_and_the_name_says_what_it_is():
    reward = best_of(of(np.array(REWARDS)), k=2)
    assert call(reward) == call(best_of(of(REWARDS), k=2))
    assert reward.__name__ == "best_of_2_own"


@pytest.mark.parametrize(
    "values",
    [
        [value > 0.4 for value in REWARDS],
        [np.bool_(value > 0.4) for value in REWARDS],
        [np.float32(value > 0.4) for value in REWARDS],
        [np.array(value > 0.4) for value in REWARDS],
        np.array(REWARDS) > 0.4,
        tuple(fractions.Fraction(value > 0.4) for value in REWARDS),
        [torch.tensor(value > 0.4) for value in REWARDS],
        [torch.tensor([float(value > 0.4)], dtype=torch.bfloat16) for value in REWARDS],
        torch.tensor(REWARDS) > 0.4,
    ],
    ids=lambda values: type(values).__name__ + type(values[0]).__name__,
)
def test_numbers_of_every_kind_that_trl_takes_are_rewards(values):
    expected = call(best_of(of([float(value > 0.4) for value in REWARDS]), k=2))
    assert call(best_of(of(values), k=2)) == expected


@pytest.mark.parametrize(
    "value",
    ["1", 1j, np.complex128(1), np.array([1, 2]), 10**400, -(10**5000), float("inf"), 1e101],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_finite_number_is_refused_by_name(value):
    with pytest.raises(InvalidValueError, match=r"best_of: own must .* a finite .* or None; got"):
        call(best_of(of([value, *REWARDS[1:]]), k=2))
