"""The advantages that reach the loss, against enumeration over forward passes of the tests."""

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from transformers import AutoModelForSequenceClassification
from trl import GRPOConfig, GRPOTrainer

from maxatk import best_of
from maxatk.errors import InvalidValueError
from maxatk.models import load_tokenizer
from maxatk.objectives import METHODS
from maxatk.train import MaxAtKTrainer
from maxatk.train.batch import GROUP_ROW

from .conftest import GROUP, SpyTrainer, config, reward_with_gaps, text_reward
from .expected import brute_force, check_every_step

CVAR = {"credit": {"cvar": 0.5, "of": 3}, "baseline": "replace_one"}
CORRECTED = [name for name, method in METHODS.items() if method.correction != "none"]
FORMS = ["ppo", "reinforce"]
SPLIT = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}


class Counting(SpyTrainer):
    """Counts the extra forward passes."""

    extra = 0
    refreshing = False

    def _refresh_advantages(self):
        self.refreshing = True
        super()._refresh_advantages()
        self.refreshing = False

    def _get_per_token_logps_and_entropies(self, *args, **kwargs):
        self.extra += self.refreshing
        return super()._get_per_token_logps_and_entropies(*args, **kwargs)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("method", CORRECTED)
def test_split_groups_take_their_ratios_from_an_extra_pass(
    make_trainer, model_folder, method, form
):
    # 16 rows a generation in 8 micro-batches, 4 micro-batches a step, 2 passes: 4 steps a buffer.
    trainer = make_trainer(
        cls=Counting,
        method=method,
        form=form,
        per_device_train_batch_size=2,
        steps_per_generation=8,
        gradient_accumulation_steps=4,
        num_iterations=2,
        max_steps=4,
    )
    trainer.train()
    assert len(trainer.generations) == 1
    assert len(trainer.seen) == 16
    assert trainer.extra == 3 * 8  # before every step but the first
    groups = [set((batch.inputs[GROUP_ROW] // GROUP).tolist()) for batch in trainer.seen]
    assert any(len(numbers) > 1 for numbers in groups)
    hidden = ["old_per_token_logps" not in batch.inputs for batch in trainer.seen]
    assert all(hidden) if form == "reinforce" else not any(hidden)  # from the surrogate
    moved = check_every_step(trainer, model_folder, method=method, form=form)
    assert moved > 1e-3, "the policy did not move: this test would pass without any correction"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("method", CORRECTED)
def test_whole_groups_take_their_ratios_from_the_loss(make_trainer, model_folder, method, form):
    # 16 rows a generation, 2 micro-batches of 2 groups, one a step, 2 passes: 4 steps a buffer.
    trainer = make_trainer(
        reward_with_gaps,
        cls=Counting,
        method=method,
        form=form,
        steps_per_generation=2,
        gradient_accumulation_steps=1,
        num_iterations=2,
        max_steps=4,
    )
    trainer.train()
    assert trainer.extra == 0
    assert len(trainer.generations) == 1
    rows = [batch.inputs[GROUP_ROW].tolist() for batch in trainer.seen]
    assert sorted(rows[0] + rows[1]) == list(range(16))
    assert all(group[0] % GROUP == 0 for r in rows for group in (r[:GROUP], r[GROUP:]))
    assert trainer.generations[0][2].isnan().any()
    assert check_every_step(trainer, model_folder, method=method, form=form) > 1e-3


# The trainer knows nothing of a method but its name; tests/objectives has them all.
@pytest.mark.parametrize("method", ["grpo", "bon_max_second", "bon_loo1", "pkpo_sloo", CVAR])
def test_methods_without_a_correction_set_their_advantages_once(make_trainer, model_folder, method):
    trainer = make_trainer(
        reward_with_gaps, cls=Counting, method=method, num_iterations=2, max_steps=2
    )
    trainer.train()
    assert trainer.extra == 0
    assert check_every_step(trainer, model_folder, method=method) < 1e-5
    assert np.abs(trainer.generations[0][1]["advantages"].numpy()).max() > 0


def test_a_rollout_batch_that_serves_one_step_needs_no_extra_pass(make_trainer):
    trainer = make_trainer(method="bon_off_policy_exact", cls=Counting, max_steps=2, **SPLIT)
    trainer.train()
    assert trainer.extra == 0
    assert len(trainer.generations) == 2


@pytest.mark.parametrize("loss_type", ["dapo", "grpo"])
def test_method_grpo_gives_the_losses_and_weights_of_trl(
    make_trainer, model_folder, prompts, loss_type
):
    settings = {"num_iterations": 2, "max_steps": 4, "loss_type": loss_type, "optim": "adamw_torch"}
    settings |= {"learning_rate": 1e-3, "rollouts": "trl"}
    ours = make_trainer(method="grpo", cls=MaxAtKTrainer, **settings)
    ours.train()  # before the other is made: making a trainer sets the seed
    shared = {
        name: value
        for name, value in vars(ours.args).items()
        if name in GRPOConfig.__dataclass_fields__
    }
    # Both spell the same batch: TRL refuses the one it derives from the other.
    shared["generation_batch_size"] = None
    theirs = GRPOTrainer(
        model=str(model_folder),
        reward_funcs=text_reward,
        args=GRPOConfig(**shared),
        train_dataset=prompts,
    )
    theirs.train()
    losses = [
        [row["loss"] for row in trainer.state.log_history if "loss" in row]
        for trainer in (ours, theirs)
    ]
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)
    assert any(abs(loss) > 1e-4 for loss in losses[0])
    for name, weight in theirs.model.state_dict().items():
        torch.testing.assert_close(ours.model.state_dict()[name], weight, atol=1e-5, rtol=0)


@pytest.mark.parametrize("method", ["bon_loo1", "bon_off_policy_exact"])
def test_masked_truncated_completions_leave_groups_whose_weights_need_ratios(
    make_trainer, model_folder, method
):
    trainer = make_trainer(
        method=method,
        mask_truncated_completions=True,
        max_completion_length=80,  # an untrained model stops at about one token in 120
        num_iterations=2,
        max_steps=2,
    )
    trainer.train()
    _, rows, rewards = trainer.generations[0]
    masked = rows["completion_mask"].sum(dim=1) == 0
    assert masked.any()
    assert not masked.all()
    assert rewards.isnan().tolist() == (masked & (method == "bon_off_policy_exact")).tolist()
    check_every_step(trainer, model_folder, method=method)


def test_several_rewards_are_added_with_their_weights(make_trainer, model_folder):
    trainer = make_trainer(
        [text_reward, reward_with_gaps],
        reward_weights=[1.0, -0.5],
        method="bon_off_policy_exact",
        num_iterations=2,
        max_steps=2,
    )
    trainer.train()
    texts = trainer._logs["completion"]
    one = text_reward(texts)
    other = reward_with_gaps(texts)
    expected = [a - 0.5 * (b or 0.0) for a, b in zip(one, other, strict=True)]
    np.testing.assert_allclose(trainer.generations[0][2].numpy(), expected, atol=1e-6)
    check_every_step(trainer, model_folder, method="bon_off_policy_exact")


def test_the_advantages_follow_the_schedule_of_k_which_stays_for_a_rollout_batch(make_trainer):
    trainer = make_trainer(k=4, k_schedule="linear", max_steps=4, num_iterations=2)
    trainer.train()
    logged = [row["objective/k"] for row in trainer.state.log_history if "objective/k" in row]
    assert logged == [4.0, 3.0]  # 4 - 3 * step / 4, halves rounded up, at steps 0 and 2
    for batch in trainer.seen:
        rewards = trainer.generations[batch.step // 2][2].numpy().reshape(-1, GROUP)
        k = int(logged[batch.step // 2])
        expected = brute_force("bon_loo1", rewards, np.zeros_like(rewards), k=k, form="ppo")
        expected_rows = expected.reshape(-1)[batch.inputs[GROUP_ROW].numpy()]
        np.testing.assert_allclose(batch.inputs["advantages"].numpy(), expected_rows, atol=1e-5)


def test_fewer_prompts_than_a_rollout_batch_needs_are_refused_before_the_weights(
    broken_weights, prompts, tmp_path
):
    settings = config(tmp_path, per_device_train_batch_size=128)
    model = str(broken_weights)
    with pytest.raises(InvalidValueError, match=r"train_dataset: has 24 prompts, fewer than .* 32"):
        MaxAtKTrainer(model, text_reward, settings, train_dataset=prompts)
    with pytest.raises(InvalidValueError, match=r"train_dataset: has 24 prompts"):
        MaxAtKTrainer(model, text_reward, settings, prompts)
    with pytest.raises(SafetensorError):
        MaxAtKTrainer(model, text_reward, config(tmp_path), prompts)


def test_what_cannot_be_trained_is_refused(make_trainer):
    with pytest.raises(InvalidValueError, match=r"args: must be a MaxAtKConfig, got NoneType"):
        MaxAtKTrainer("no-model", text_reward)
    with pytest.raises(InvalidValueError, match=r"reward_funcs: best_of_2_text_reward is a reward"):
        make_trainer(best_of(text_reward, k=2))


ONE_EACH = "return a list of 8 values, one a completion, each a finite number or None; got"
A_NUMBER = "return for each completion a finite number, of at most 3.4e+38 in size, or None; got"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (0.5, f"{ONE_EACH} 0.5"),
        (None, f"{ONE_EACH} None"),
        ([0.5] * 7, f"{ONE_EACH} 7 values"),
        ("12345678", f"{ONE_EACH} '12345678'"),
        (dict.fromkeys(range(8), 0.5), f"{ONE_EACH} {{0: 0.5, 1: 0.5"),
        (["1"] * 8, f"{A_NUMBER} '1'"),
        ([[0.5, 1.0]] * 8, f"{A_NUMBER} [0.5, 1.0]"),
        ([[0.5]] * 8, f"{A_NUMBER} [0.5]"),
        ([1j] * 8, f"{A_NUMBER} 1j"),
        ([float("inf"), *[0.0] * 7], f"{A_NUMBER} inf"),
        ([*[0.0] * 7, -float("inf")], f"{A_NUMBER} -inf"),
        ([1e39] * 8, f"{A_NUMBER} 1e+39"),
    ],
)
def test_what_is_no_reward_names_its_function(make_trainer, values, message):
    def broken(**_):
        return values

    trainer = make_trainer([text_reward, broken])
    with pytest.raises(InvalidValueError) as refused:
        trainer.train()
    assert str(refused.value).startswith(f"reward_funcs: broken must {message}")


@pytest.mark.parametrize(
    ("values", "message"), [([0.5] * 7, f"{ONE_EACH} 7 values"), (["1"] * 8, f"{A_NUMBER} '1'")]
)
def test_what_is_no_reward_names_its_asynchronous_function(make_trainer, values, message):
    async def broken_later(**_):
        return values

    trainer = make_trainer([text_reward, broken_later])
    with pytest.raises(InvalidValueError) as refused:
        trainer.train()
    assert str(refused.value).startswith(f"reward_funcs: broken_later must {message}")


@pytest.mark.parametrize(
    "kind", [tuple, iter, np.array, torch.tensor, lambda values: (value for value in values)]
)
def test_every_list_of_numbers_is_one_of_rewards(make_trainer, kind):
    returned = []

    def listed(completions, **_):
        returned.extend(text_reward(completions))
        return kind(text_reward(completions))

    trainer = make_trainer(listed, max_steps=1)
    trainer.train()
    _, _, rewards = trainer.generations[0]
    assert rewards.tolist() == returned


def test_a_model_whose_reward_is_infinite_is_named(make_trainer, model_folder):
    judge = AutoModelForSequenceClassification.from_pretrained(model_folder, num_labels=1)
    judge.score.weight.data.zero_()
    judge.score.weight.data[0, 0] = torch.inf
    trainer = make_trainer(judge)
    with pytest.raises(InvalidValueError, match=r"reward_funcs: .* a finite .*; got -?inf"):
        trainer.train()


class Guessing:
    """An environment that owns the reward: every other one is worth 1."""

    made = 0

    def __init__(self):
        Guessing.made += 1
        self.worth = float(Guessing.made % 2)

    def reset(self, **_):
        return None

    def get_reward(self):
        return self.worth


def test_an_environment_may_be_the_only_reward(model_folder, prompts, tmp_path):
    tokenizer = load_tokenizer(str(model_folder))
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{{ m.tool_calls }}{% endfor %}"
    trainer = MaxAtKTrainer(
        model=str(model_folder),
        args=config(tmp_path, max_steps=1),
        train_dataset=prompts,
        processing_class=tokenizer,
        environment_factory=Guessing,
    )
    trainer.train()
    assert trainer.state.log_history[0]["reward"] == 0.5
    assert trainer.state.log_history[0]["max@2"] == pytest.approx(5 / 6)


def test_a_reward_is_not_taken_for_one_of_best_of_by_its_name(make_trainer):
    def best_of_mine(prompts, completions, **columns):
        return text_reward(prompts, completions, **columns)

    assert make_trainer(best_of_mine).reward_func_names == ["best_of_mine"]
    renamed = best_of(text_reward, k=2)
    renamed.__name__ = "mine"
    with pytest.raises(InvalidValueError, match=r"reward_funcs: mine is a reward of maxatk\."):
        make_trainer(renamed)
