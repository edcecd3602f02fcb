"""Samples of advantage 0 left out of the update: the same weights from fewer tokens."""

import pytest
import torch

from maxatk.errors import InvalidValueError
from maxatk.train.batch import of_most_signal
from train.conftest import GROUP, config, reward_with_gaps


def coarse_reward(completions, **_):
    """A reward that most groups have in common, 1 for every text with many letters, and gaps."""
    gaps = reward_with_gaps(completions)
    return [g and float(len(set(t)) > 5) for t, g in zip(completions, gaps, strict=True)]


def no_reward(completions, **_):
    return [0.0 for _ in completions]


def rows_seen(trainer):
    """Count the rows of the model's forward passes that have a gradient."""
    counts = []

    def hook(_module, _args, inputs):
        if torch.is_grad_enabled():
            counts.append(len(inputs["input_ids"]))

    trainer.model.register_forward_pre_hook(hook, with_kwargs=True)
    return counts


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "bon_loo1", "num_iterations": 2, "max_steps": 6},
        {"method": "grpo", "loss_type": "cispo", "epsilon_high": 5.0},
        {"method": "grpo", "share_prompts": True, "gradient_accumulation_steps": 2},
        {"method": "bon_off_policy_exact", "num_iterations": 2, "max_steps": 6},
        {
            "method": "bon_off_policy_exact",
            "num_iterations": 2,
            "per_device_train_batch_size": 2,
            "gradient_accumulation_steps": 4,
        },
    ],
    ids=["reused", "cispo", "shared", "whole groups", "split groups"],
)
def test_training_ends_with_the_same_weights_from_fewer_rows(make_trainer, changes):
    ends = []
    for skip in (False, True):
        trainer = make_trainer(coarse_reward, skip_zero_advantages=skip, **changes)
        counts = rows_seen(trainer)
        trainer.train()
        ends.append((trainer.model.state_dict(), sum(counts)))
    (plain, all_rows), (skipped, fewer_rows) = ends
    for name, weight in plain.items():
        torch.testing.assert_close(skipped[name], weight, rtol=1e-4, atol=1e-5)
    assert fewer_rows < all_rows


def test_a_rollout_batch_without_signal_moves_nothing(make_trainer):
    trainer = make_trainer(no_reward, skip_zero_advantages=True)
    counts = rows_seen(trainer)
    before = {name: weight.clone() for name, weight in trainer.model.state_dict().items()}
    with pytest.warns(UserWarning, match="train: "):
        trainer.train()
    assert counts == [1, 1, 1]
    for name, weight in trainer.model.state_dict().items():
        torch.testing.assert_close(weight, before[name], rtol=0, atol=0)


def test_rows_that_train_are_filled_up_to_the_least():
    advantages = torch.tensor([0.0, 1.0, 0.0, -1.0, 0.0])
    batch = {"advantages": advantages, "completion_ids": torch.arange(5)}
    assert of_most_signal(batch, 2)["completion_ids"].tolist() == [1, 3]
    assert of_most_signal(batch, 4)["completion_ids"].tolist() == [0, 1, 2, 3]


def test_a_batch_with_more_than_one_row_a_sample_stays_whole():
    batch = {"completion_ids": torch.zeros(2, 3), "pixel_values": torch.zeros(5, 3)}
    assert of_most_signal(batch, 1) is batch


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"loss_type": "grpo"}, "loss_type 'grpo'"),
        ({"beta": 0.1}, "beta 0.1"),
        ({"top_entropy_quantile": 0.2}, "top_entropy_quantile 0.2"),
        ({"entropy_coef": 0.1}, "entropy bonus"),
    ],
)
def test_a_loss_that_reads_all_samples_is_refused(tmp_path, changes, named):
    with pytest.raises(InvalidValueError, match=rf"skip_zero_advantages: True .*{named}.* False"):
        config(tmp_path, skip_zero_advantages=True, num_generations=GROUP, **changes)
