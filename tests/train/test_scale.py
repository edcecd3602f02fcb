"""The scale of the advantages: what the loss is given, and what its gradient estimates."""

import numpy as np
import pytest

from maxatk.objectives import advantages
from maxatk.objectives.objective import DECAY
from maxatk.train import MaxAtKTrainer
from maxatk.train.batch import GROUP_ROW

from .conftest import GROUP, config
from .enumerated import EveryGroup, gradient_of_max_at_k, write_model


def groups(trainer, generation=0):
    """Rewards (P, n) and advantages (P, n) of a rollout batch."""
    _, rows, rewards = trainer.generations[generation]
    shape = (-1, GROUP)
    return rewards.double().numpy().reshape(shape), rows["advantages"].numpy().reshape(shape)


def test_leave_one_out_with_k_1_is_rloo(make_trainer):
    trainer = make_trainer(method="bon_loo1", k=1, max_steps=1)
    trainer.train()
    rewards, group_advantages = groups(trainer)
    means_of_others = (rewards.sum(axis=1, keepdims=True) - rewards) / (GROUP - 1)
    np.testing.assert_allclose(group_advantages, rewards - means_of_others, atol=1e-6)
    assert np.abs(group_advantages).max() > 0.1


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("scale, share", [("mean", 1.0), ("sum", 1 / 3)])
def test_the_expected_gradient_of_dr_grpo_is_that_of_max_at_k(tmp_path, k, scale, share):
    folder = write_model(tmp_path / "model")
    settings = config(
        tmp_path / "out",
        k=k,
        num_generations=3,
        per_device_train_batch_size=3 * 4**3,
        max_completion_length=7,  # what dr_grpo divides by, whatever the lengths are
        loss_type="dr_grpo",
        advantage_scale=scale,
        max_grad_norm=0.0,
        max_steps=1,
    )
    trainer = EveryGroup(folder, settings, length=1)
    trainer.train()
    gradient = -7 * trainer.gradients[0]
    want = gradient_of_max_at_k(folder, trainer.policies[0], length=1, k=k)
    assert np.linalg.norm(want) > 0.1
    assert np.linalg.norm(gradient - share * want) < 1e-5 * np.linalg.norm(want)


def test_a_batch_scale_is_one_running_root_mean_square_of_groups_with_a_signal(make_trainer):
    trainer = make_trainer(advantage_scale="batch", max_steps=4)
    trainer.train()
    mean = 0.0
    weight = 0.0
    for generation in range(4):
        rewards, group_advantages = groups(trainer, generation)
        raw = advantages(rewards, "bon_loo1", 2)
        signal = raw[np.ptp(rewards, axis=1) > 0]
        mean = DECAY * mean + (1 - DECAY) * (signal**2).mean()
        weight = DECAY * weight + 1 - DECAY
        np.testing.assert_allclose(group_advantages, raw / np.sqrt(mean / weight), atol=1e-5)
        logged = trainer.state.log_history[generation]["advantages/rms"]
        assert logged == pytest.approx(np.sqrt((group_advantages**2).mean()))


@pytest.mark.parametrize("rows, scale", [(8, "batch"), (2, "batch")], ids=["whole", "split"])
def test_reused_samples_keep_the_scale_of_their_rollout_batch(make_trainer, rows, scale):
    shape = {"per_device_train_batch_size": rows, "gradient_accumulation_steps": 8 // rows}
    by_scale = {}
    for name in ("sum", scale):
        trainer = make_trainer(
            method="bon_off_policy_exact",
            num_iterations=2,
            max_steps=2,
            optim="adamw_torch",  # blind to the scale of a gradient, so that both runs move alike
            adam_epsilon=1e-12,
            learning_rate=1e-2,
            max_grad_norm=0.0,
            advantage_scale=name,
            **shape,
        )
        trainer.train()
        by_place = {}
        for batch in trainer.seen:
            places = batch.inputs[GROUP_ROW].tolist()
            values = batch.inputs["advantages"].tolist()
            by_place.update({(batch.step, p): a for p, a in zip(places, values, strict=True)})
        by_scale[name] = np.array([[by_place[step, p] for p in range(8)] for step in (0, 1)])
    plain = by_scale["sum"]
    scaled = by_scale[scale]
    assert np.abs(plain[1] - plain[0]).max() > 1e-3, "no correction acted"
    factor = scaled[0][plain[0] != 0] / plain[0][plain[0] != 0]
    np.testing.assert_allclose(factor, factor[0], rtol=1e-5)
    np.testing.assert_allclose(scaled[1], factor[0] * plain[1], atol=1e-3 * factor[0])


def test_a_checkpoint_without_the_running_scale_is_refused(make_trainer):
    settings = {"save_strategy": "steps", "save_steps": 1, "cls": MaxAtKTrainer}
    make_trainer(max_steps=1, **settings).train()
    again = make_trainer(max_steps=2, advantage_scale="batch", **settings)
    with pytest.raises(ValueError, match=r"advantage_scale: 'batch' cannot resume from"):
        again.train(resume_from_checkpoint=f"{again.args.output_dir}/checkpoint-1")
