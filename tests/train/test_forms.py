"""A sample's own ratio: of tokens in the form ppo, as TRL has it, or of the sequence (eq. 10)."""

import numpy as np

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
    gradient = -7 * trainer.gradients[1]
    want = gradient_of_max_at_k(tmp_path / "model", trainer.policies[1], length=2, k=2)
    return np.linalg.norm(gradient - want) / np.linalg.norm(want), trainer


def test_the_form_reinforce_has_the_expected_gradient_of_eq_10(tmp_path):
    error, trainer = relative_error(tmp_path, form="reinforce")
    logged = trainer.state.log_history[1]["ratio/mean_abs_delta"]
    assert logged > 0.05, "the policy hardly moved: token ratios would do"
    assert error < 1e-4


def test_the_form_ppo_with_its_ratios_of_tokens_has_not(tmp_path):
    error, _ = relative_error(tmp_path, form="ppo")
    assert error > 1e-2
