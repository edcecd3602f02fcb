"""The sample's own ratio in the form ppo: of tokens, as TRL has it, or of the sequence (eq. 10)."""

import numpy as np
import pytest
import torch

from maxatk.train.ratios import ratios_of_the_rest

from .conftest import config
from .enumerated import EveryGroup, gradient_of_max_at_k, write_model


def train(tmp_path, **changes):
    """A run on every group of two sequences of two tokens, two steps on each."""
    settings = {
        "method": "bon_off_policy_exact",
        "delta_clamp": None,
        "k": 2,
        "num_generations": 2,
        "per_device_train_batch_size": 512,
        "num_iterations": 2,
        "max_steps": 2,
        "max_completion_length": 7,
        "loss_type": "dr_grpo",
        "epsilon": 1e9,  # no clipping
        "max_grad_norm": 0.0,
        "learning_rate": 3.0,
        **changes,
    }
    folder = write_model(tmp_path / "model")
    trainer = EveryGroup(folder, config(tmp_path / "out", **settings), length=2)
    trainer.train()
    return trainer


def relative_error(tmp_path, **changes):
    """How far the expected gradient of the second step on a rollout batch is from max@k's."""
    trainer = train(tmp_path, **changes)
    found = -7 * trainer.gradients[1]
    want = gradient_of_max_at_k(tmp_path / "model", trainer.policies[1], length=2, k=2)
    return np.linalg.norm(found - want) / np.linalg.norm(want), trainer


def test_with_the_ratio_of_the_sequence_the_expected_gradient_is_that_of_eq_10(tmp_path):
    error, trainer = relative_error(tmp_path, own_ratio="sequence")
    logged = trainer.state.log_history[1]["ratio/mean_abs_delta"]
    assert logged > 0.05, "the policy hardly moved: token ratios would do"
    assert error < 1e-4


def test_with_the_ratios_of_tokens_it_is_not(tmp_path):
    error, _ = relative_error(tmp_path, own_ratio="token")
    assert error > 1e-2


def test_the_form_reinforce_has_the_ratio_of_the_sequence_without_help(tmp_path):
    error, _ = relative_error(tmp_path, form="reinforce")
    assert error < 1e-4


def test_the_first_step_on_a_rollout_batch_has_no_ratios_to_complete(tmp_path):
    plain, whole = (
        train(tmp_path / name, own_ratio=name, num_iterations=1, max_steps=1)
        for name in ("token", "sequence")
    )
    np.testing.assert_array_equal(plain.gradients[0], whole.gradients[0])


def test_the_ratio_of_the_rest_leaves_out_the_own_token_and_what_was_not_trained():
    now = torch.tensor([[0.1, 0.2, -0.4, 9.0], [0.3, 0.0, 5.0, 0.1]])
    batch = {
        "old_per_token_logps": torch.zeros(2, 4),
        "completion_mask": torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]]),
        "tool_mask": torch.tensor([[1, 1, 1, 1], [1, 1, 0, 1]]),
    }
    found = ratios_of_the_rest(batch, now, clamp=None).log()
    np.testing.assert_allclose(found[0, :3], [-0.2, -0.3, 0.3], atol=1e-6)
    np.testing.assert_allclose(found[1, [0, 1, 3]], [0.1, 0.4, 0.3], atol=1e-6)
    clamped = ratios_of_the_rest(batch, now, clamp=0.25)
    assert clamped.min() >= 0.75
    assert clamped.max() <= 1.25
    del batch["old_per_token_logps"]
    assert (ratios_of_the_rest(batch, now, clamp=None) == 1).all()


@pytest.mark.parametrize("rows", [8, 2], ids=["whole groups", "split groups"])
@pytest.mark.parametrize("method", ["bon_off_policy_exact", "grpo"])
def test_the_buffer_keeps_one_advantage_a_sample(make_trainer, method, rows):
    trainer = make_trainer(
        method=method,
        own_ratio="sequence",
        num_iterations=3,
        max_steps=3,
        per_device_train_batch_size=rows,
        gradient_accumulation_steps=8 // rows,
    )
    trainer.train()
    assert all(part["advantages"].ndim == 1 for part in trainer._buffered_inputs)
    assert trainer.state.global_step == 3
