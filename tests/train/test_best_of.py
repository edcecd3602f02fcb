"""TRL's own GRPOTrainer with a reward of `best_of` takes the steps of MaxAtKTrainer."""

import copy

import numpy as np
import pytest
import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from maxatk import best_of
from maxatk.errors import InvalidValueError
from maxatk.objectives import METHODS
from maxatk.train import MaxAtKTrainer
from oracles import subsets

from .conftest import GROUP, PROMPTS, SpyTrainer, config, reward_with_gaps, text_reward


def plain_config(folder, **changes):
    """The settings of `config` for TRL's trainer."""
    args = {
        key: value
        for key, value in config(folder).to_dict().items()
        if key in ("output_dir", "num_generations", "per_device_train_batch_size")
        or key in ("max_completion_length", "max_steps", "learning_rate", "optim", "loss_type")
        or key in ("lr_scheduler_type", "use_cpu", "report_to", "save_strategy", "disable_tqdm")
        or key in ("seed", "logging_steps", "gradient_checkpointing", "beta", "temperature")
    }
    return GRPOConfig(**{**args, "scale_rewards": "none", "bf16": False, **changes})


def make(kind, args, reward, model_folder, prompts):
    return kind(model=str(model_folder), reward_funcs=reward, args=args, train_dataset=prompts)


def trained(trainer):
    before = copy.deepcopy(trainer.model.state_dict())
    trainer.train()
    after = trainer.model.state_dict()
    moved = max((after[name] - before[name]).abs().max() for name in after)
    assert moved > 1e-4
    return after


async def async_reward(completions, **columns):
    return text_reward(completions, **columns)


@pytest.mark.parametrize("reward", [text_reward, reward_with_gaps, async_reward])
def test_an_unmodified_trainer_takes_the_same_steps(tmp_path, model_folder, prompts, reward):
    args = plain_config(tmp_path / "plain")
    plain = make(GRPOTrainer, args, best_of(reward, k=2), model_folder, prompts)
    found = trained(plain)
    args = config(tmp_path / "ours", method="bon_centred", rollouts="trl")
    ours = make(MaxAtKTrainer, args, reward, model_folder, prompts)  # seeds the sampling again
    expected = trained(ours)
    for name, weights in expected.items():
        torch.testing.assert_close(found[name], weights, atol=2e-6, rtol=0)
    logged = [line for line in plain.state.log_history if "best_of/reward" in line]
    theirs = [line for line in ours.state.log_history if "max@2" in line]
    assert [line["best_of/max@2"] for line in logged] == pytest.approx(
        [line["max@2"] for line in theirs], nan_ok=True
    )


def first_letters(completions, wanted, **_):
    """A reward by another column than the prompt: the share of letters that the row wants."""
    values = []
    for text, letters in zip(completions, wanted, strict=True):
        values.append(sum(letter in letters for letter in text) / max(1, len(text)))
    return values


def test_rows_of_one_prompt_with_other_tests_are_groups_of_their_own(tmp_path, model_folder):
    """The prompt is there twice with other columns: groups of one text meet in a batch."""
    rows = Dataset.from_list(
        [{"prompt": PROMPTS[0], "wanted": letters} for letters in ("abcdefgh", "mnopqrstuvw")]
    )
    args = plain_config(tmp_path / "plain")
    plain = make(GRPOTrainer, args, best_of(first_letters, k=2), model_folder, rows)
    by_best_of = trained(plain)
    args = config(tmp_path / "ours", method="bon_centred", rollouts="trl")
    ours = make(SpyTrainer, args, first_letters, model_folder, rows)
    by_trainer = trained(ours)
    for name, weights in by_trainer.items():
        torch.testing.assert_close(by_best_of[name], weights, atol=2e-6, rtol=0)
    _, batch, rewards = ours.generations[0]
    in_groups = rewards.numpy().reshape(-1, GROUP)
    assert (in_groups.max(axis=1) > in_groups.min(axis=1)).all(), "a group has no signal"
    method = METHODS["bon_centred"]
    on_policy = np.zeros(GROUP)
    enumerated = [
        GROUP * np.array(subsets.advantages(list(group), on_policy, 2, method))
        for group in in_groups
    ]
    logged = batch["advantages"].reshape(-1, GROUP).numpy()
    np.testing.assert_allclose(logged, enumerated, atol=1e-6)


def test_a_trainer_that_divides_by_the_deviation_is_refused_before_a_step(
    tmp_path, model_folder, prompts
):
    args = plain_config(tmp_path, scale_rewards="group")
    trainer = make(GRPOTrainer, args, best_of(text_reward, k=2), model_folder, prompts)
    with pytest.raises(InvalidValueError, match="scale_rewards"):
        trainer.train()
    assert trainer.state.global_step == 0


def test_k_of_a_whole_group_is_refused_before_a_step(tmp_path, model_folder, prompts):
    args = plain_config(tmp_path)
    trainer = make(GRPOTrainer, args, best_of(text_reward, k=GROUP), model_folder, prompts)
    with pytest.raises(InvalidValueError, match="k: must be below the samples of a prompt"):
        trainer.train()
    assert trainer.state.global_step == 0
