"""The parts of TRL that are overridden, the model card, and what is logged."""

import numpy as np
import pytest
from trl import GRPOTrainer

from maxatk.errors import MissingDependencyError
from maxatk.train import MaxAtKTrainer
from maxatk.train.surface import check_surface

from .conftest import GROUP


def test_the_installed_trl_fits():
    check_surface()


def test_a_trl_without_what_is_needed_is_named(monkeypatch, make_trainer):
    monkeypatch.delattr(GRPOTrainer, "_calculate_rewards")
    monkeypatch.setattr(GRPOTrainer, "_compute_loss", lambda self, model: None)
    with pytest.raises(
        MissingDependencyError, match=r"trl \d.*_calculate_rewards, _compute_loss.*1\.8"
    ):
        make_trainer(cls=MaxAtKTrainer)


def test_a_loss_that_reads_advantages_before_its_pass_is_refused(monkeypatch):
    def early(self, model, inputs):
        advantages = inputs["advantages"]
        return advantages * self._get_per_token_logps_and_entropies(model, inputs)

    monkeypatch.setattr(GRPOTrainer, "_compute_loss", early)
    with pytest.raises(MissingDependencyError, match="reads advantages after log-probabilities"):
        check_surface()


def test_the_model_card_tells_method_k_and_results(make_trainer, tmp_path):
    trainer = make_trainer(k=4, k_schedule="cosine", max_steps=2, save_strategy="steps")
    trainer.train()
    trainer.create_model_card(model_name="mine")
    trainer.create_model_card(model_name="mine")
    card = (tmp_path / "README.md").read_text()
    assert card.count("Trained for best-of-N") == 1
    assert "k = 4 to 1 (cosine)" in card
    assert "`bon_loo1`" in card
    last = [row for row in trainer.state.log_history if "max@1" in row][-1]
    assert f"| max@4 | {trainer.state.log_history[0]['max@4']:.3f} | {last['max@4']:.3f} |" in card


@pytest.mark.parametrize("rows", [2, 8], ids=["extra forward", "whole groups"])
def test_ratios_and_seconds_are_logged(make_trainer, rows):
    trainer = make_trainer(
        method="bon_off_policy_exact",
        per_device_train_batch_size=rows,
        gradient_accumulation_steps=8 // rows,
        num_iterations=2,
        max_steps=2,
    )
    trainer.train()
    first, second = [row for row in trainer.state.log_history if "loss" in row]
    assert "ratio/mean_abs_delta" not in first
    assert 0 < second["ratio/mean_abs_delta"] <= second["ratio/max_abs_delta"]
    assert 0 < second["ratio/effective_samples"] < 1
    assert 0 <= second["ratio/clamped"] <= 1
    assert ("seconds/refresh" in second) == (rows == 2)
    assert first["seconds/rollout"] > 0
    assert first["seconds/verification"] > 0
    assert second["seconds/update"] > 0


def test_distinct_completions_are_counted_within_groups(make_trainer):
    trainer = make_trainer(max_steps=1)
    trainer.train()
    texts = list(trainer._logs["completion"])
    groups = [texts[i : i + GROUP] for i in range(0, len(texts), GROUP)]
    expected = np.mean([len(set(group)) / GROUP for group in groups])
    assert trainer.state.log_history[0]["completions/distinct"] == pytest.approx(expected)


def test_outcomes_of_the_verifier_are_logged(make_trainer):
    class Verification:
        __name__ = "verification"

        def __call__(self, completions, **_):
            self.outcomes = {"time_limit": 1, "infra_error": 2, "passed": 5}
            return [0.5 * (i % 2) for i in range(len(completions))]

    trainer = make_trainer(Verification(), max_steps=1)
    trainer.train()
    assert trainer.state.log_history[0]["verifier/time_limit"] == pytest.approx(1 / 8)
    assert trainer.state.log_history[0]["verifier/infra_error"] == pytest.approx(2 / 8)
