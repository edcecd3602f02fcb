"""The arithmetic of a dry run against what a real run counts."""

import pytest

from maxatk.errors import InvalidValueError
from maxatk.train import MaxAtKTrainer
from maxatk.train.plan import plan

from .conftest import config


class Counting(MaxAtKTrainer):
    """Counts generations and micro-batches of every kind of forward pass."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.generations = self.completions = self.passes = self.extra = self.others = 0
        self._in_loss = self._in_refresh = False

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        self.generations += 1
        self.completions += len(output["advantages"])
        return output

    def _forward_log_ratios(self, batch):
        self.extra += 1
        self._in_refresh = True
        found = super()._forward_log_ratios(batch)
        self._in_refresh = False
        return found

    def _compute_loss(self, model, inputs):
        self.passes += 1
        self._in_loss = True
        found = super()._compute_loss(model, inputs)
        self._in_loss = False
        return found

    def _get_per_token_logps_and_entropies(self, model, ids, *args, **kwargs):
        if not (self._in_loss or self._in_refresh):
            self.others += len(ids) // self.args.per_device_train_batch_size
        return super()._get_per_token_logps_and_entropies(model, ids, *args, **kwargs)


GEOMETRIES = {
    "on-policy": {"max_steps": 3},
    "reused, whole groups": {"num_iterations": 2, "max_steps": 3},
    "reused, split groups": {
        "num_iterations": 3,
        "max_steps": 7,
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 4,
        "beta": 0.01,
    },
    "steps that straddle generations, split groups": {
        "per_device_train_batch_size": 2,
        "steps_per_generation": 4,
        "gradient_accumulation_steps": 3,
        "num_iterations": 2,
        "max_steps": 6,
    },
    "several generations a step": {
        "steps_per_generation": 1,
        "gradient_accumulation_steps": 2,
        "max_steps": 2,
    },
    "lag, one use, whole groups": {"rollout_lag": 2, "max_steps": 4},
    "lag, split groups": {
        "rollout_lag": 2,
        "num_iterations": 3,
        "max_steps": 7,
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 4,
    },
    "lag, steps that straddle generations, split groups": {
        "rollout_lag": 1,
        "per_device_train_batch_size": 2,
        "steps_per_generation": 4,
        "gradient_accumulation_steps": 3,
        "num_iterations": 2,
        "max_steps": 6,
    },
    "lag, several generations a step, epochs, split groups": {
        "rollout_lag": 1,
        "per_device_train_batch_size": 2,
        "steps_per_generation": 2,
        "gradient_accumulation_steps": 4,
        "max_steps": -1,
        "num_train_epochs": 1,
    },
    "epochs": {"max_steps": -1, "num_train_epochs": 1.5, "num_iterations": 2},
    "epochs that do not divide": {
        "max_steps": -1,
        "num_train_epochs": 2,
        "per_device_train_batch_size": 4,
        "steps_per_generation": 5,
        "gradient_accumulation_steps": 3,
        "num_iterations": 2,
    },
}


@pytest.mark.parametrize("settings", GEOMETRIES.values(), ids=GEOMETRIES)
def test_counts_are_those_of_a_real_run(make_trainer, settings):
    trainer = make_trainer(
        cls=Counting, method="bon_off_policy_exact", max_completion_length=2, **settings
    )
    trainer.train()
    found = plan(trainer.args, problems=len(trainer.train_dataset))
    assert trainer.state.global_step == trainer.state.max_steps == found.optimizer_steps
    assert trainer.generations == found.rollout_batches
    assert trainer.completions == found.completions
    assert trainer.passes == found.passes_training
    assert trainer.extra == found.passes_ratios
    assert trainer.others == found.passes_sampling + found.passes_reference
    assert trainer._groups.whole == found.whole_groups


def test_what_the_number_of_problems_decides(tmp_path):
    settings = config(tmp_path, per_device_train_batch_size=16, max_steps=-1, num_train_epochs=2)
    found = plan(settings, problems=10)
    assert (found.prompts_per_rollout_batch, found.completions_per_rollout_batch) == (4, 16)
    assert (found.rollout_batches, found.optimizer_steps, found.epochs) == (4, 4, 2.0)
    with pytest.raises(InvalidValueError, match="problems: has 3 prompts, fewer than the 4"):
        plan(settings, problems=3)
    with pytest.raises(InvalidValueError, match="max_steps: must be given where the number"):
        plan(settings, problems=None)
    assert plan(config(tmp_path), problems=None).rollout_batches == 3


def test_methods_without_ratios_have_no_extra_passes(tmp_path):
    settings = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}
    settings |= {"num_iterations": 3, "max_steps": 9}
    assert plan(config(tmp_path, **settings), problems=24).passes_ratios == 0
    corrected = config(tmp_path, method="bon_off_policy", **settings)
    assert plan(corrected, problems=24).passes_ratios == 24
