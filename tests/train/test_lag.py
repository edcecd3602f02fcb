"""Samples and old log-probabilities of earlier weights, against this file's own forward passes."""

import contextlib

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import TrainerCallback

from maxatk.train import MaxAtKTrainer
from maxatk.train.lag import LaggedWeights, copies
from maxatk.train.ratios import GROUP_ROW
from oracles import PAPER

from .conftest import GROUP, SpyTrainer, own_model, reward_with_gaps
from .test_trainer import brute_force, sequence_logps

WHOLE, SPLIT = {}, {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}


class Lagging(SpyTrainer):
    """Keeps the optimizer step of every generation too."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.steps = []
        self.extra = 0

    def _generate_and_score_completions(self, inputs):
        self.steps.append(self.state.global_step)
        return super()._generate_and_score_completions(inputs)

    def _forward_log_ratios(self, batch):
        self.extra += 1
        return super()._forward_log_ratios(batch)


def policies(trainer):
    """The policy of every optimizer step."""
    return {seen.step: seen.policy for seen in trainer.seen}


def sampling_policy(trainer, generation, lag):
    return policies(trainer)[max(trainer.steps[generation] - lag, 0)]


def by_generation(trainer):
    """Every micro-batch with the number of its generation."""
    config = trainer.args
    reuse = config.steps_per_generation * config.num_iterations
    return [(place // reuse, seen) for place, seen in enumerate(trainer.seen)]


def own_log_ratios(trainer, model_folder, *, lag):
    """log pi_step - log pi_sampling of a generation's rows, in groups, by (generation, step)."""
    found = {}
    for generation, step in {(number, seen.step) for number, seen in by_generation(trainer)}:
        rows = trainer.generations[generation][1]
        old = sequence_logps(model_folder, sampling_policy(trainer, generation, lag), rows)
        now = sequence_logps(model_folder, policies(trainer)[step], rows)
        found[generation, step] = (now - old).reshape(-1, GROUP)
    return found


@pytest.mark.parametrize("form", ["ppo", "reinforce"])
@pytest.mark.parametrize("geometry", [WHOLE, SPLIT], ids=["whole groups", "extra forward"])
@pytest.mark.parametrize("uses, lag", [(1, 2), (3, 2), (3, 4)])
def test_advantages_are_those_of_ratios_to_the_lagged_policy(
    make_trainer, model_folder, geometry, uses, lag, form
):
    method = "bon_off_policy_exact"
    trainer = make_trainer(
        reward_with_gaps,
        cls=Lagging,
        method=method,
        form=form,
        num_iterations=uses,
        rollout_lag=lag,
        max_steps=3 * uses,
        **geometry,
    )
    trainer.train()
    assert trainer.steps == [0, uses, 2 * uses]
    assert (trainer.extra > 0) == (geometry is SPLIT)
    first_use_moved = 0.0
    log_ratios = own_log_ratios(trainer, model_folder, lag=lag)
    for generation, seen in by_generation(trainer):
        step = seen.step
        ratios = log_ratios[generation, step]
        rewards = trainer.generations[generation][2].double().numpy().reshape(-1, GROUP)
        expected = brute_force(method, rewards, ratios, k=2, form=form).reshape(-1)
        own = expected[seen.inputs[GROUP_ROW].numpy()]
        np.testing.assert_allclose(seen.inputs["advantages"].numpy(), own, atol=2e-5)
        if step == trainer.steps[generation]:
            on_policy = brute_force(method, rewards, 0 * ratios, k=2, form=form).reshape(-1)
            first_use_moved = max(first_use_moved, float(np.abs(expected - on_policy).max()))
    assert first_use_moved > 1e-3, "no first use was off-policy: the lag would not be needed"


GEOMETRIES = {
    "one use": {},
    "three uses": {"num_iterations": 3},
    "several generations a step": {"steps_per_generation": 1, "gradient_accumulation_steps": 2},
    "steps that straddle generations": {
        "per_device_train_batch_size": 4,
        "steps_per_generation": 4,
        "gradient_accumulation_steps": 3,
    },
}


@pytest.mark.parametrize("method", ["grpo", "bon_off_policy"])
@pytest.mark.parametrize("settings", GEOMETRIES.values(), ids=GEOMETRIES)
def test_old_log_probabilities_are_always_there_and_those_of_the_lagged_policy(
    make_trainer, model_folder, settings, method
):
    trainer = make_trainer(cls=Lagging, method=method, rollout_lag=2, max_steps=6, **settings)
    trainer.train()
    assert trainer.steps[-1] > 2
    for generation, (before, rows, _) in enumerate(trainer.generations):
        old = (rows["old_per_token_logps"] * rows["completion_mask"]).sum(dim=1).numpy()
        policy = sampling_policy(trainer, generation, 2)
        np.testing.assert_allclose(old, sequence_logps(model_folder, policy, rows), atol=1e-4)
        # The weights that train are in the model before and after every generation.
        for name, weight in policies(trainer)[trainer.steps[generation]].items():
            assert torch.equal(before[name], weight), name


def test_completions_are_drawn_from_the_lagged_policy(make_trainer, model_folder):
    trainer = make_trainer(cls=Lagging, rollout_lag=2, max_steps=5, generation_kwargs={"top_k": 1})
    trainer.add_callback(Jump())
    trainer.train()
    moved = 0
    for generation, (_, rows, _) in enumerate(trainer.generations):
        lagged = greedy_tokens(model_folder, sampling_policy(trainer, generation, 2), rows)
        newest = greedy_tokens(model_folder, policies(trainer)[trainer.steps[generation]], rows)
        drawn = [
            ids[mask.bool()].tolist()
            for ids, mask in zip(rows["completion_ids"], rows["completion_mask"], strict=True)
        ]
        assert drawn == lagged
        moved += drawn != newest
    assert moved > 0, "both policies say the same: this test would pass without any lag"


class Jump(TrainerCallback):
    """Moves the policy after every step: greedy samples of a group are equal and teach nothing."""

    def on_step_end(self, args, state, control, model=None, **_):
        generator = torch.Generator().manual_seed(state.global_step)
        for weight in model.parameters():
            weight.data += 0.1 * torch.randn(weight.shape, generator=generator)


def greedy_tokens(model_folder, policy, rows):
    """The likeliest token at every place of the completions, given what stands before it."""
    model = own_model(model_folder)
    model.load_state_dict(policy)
    found = []
    for i in range(len(rows["prompt_ids"])):
        prompt = rows["prompt_ids"][i][rows["prompt_mask"][i].bool()]
        completion = rows["completion_ids"][i][rows["completion_mask"][i].bool()]
        with torch.no_grad():
            logits = model(torch.cat([prompt, completion])[None]).logits[0, len(prompt) - 1 : -1]
        found.append(logits.argmax(-1).tolist())
    return found


@pytest.mark.parametrize("method", PAPER)
@pytest.mark.parametrize("uses, lag", [(2, 0), (1, 2)])
def test_the_distance_from_the_sampling_policy_is_logged_for_every_method(
    make_trainer, model_folder, method, uses, lag
):
    trainer = make_trainer(
        cls=Lagging, method=method, num_iterations=uses, rollout_lag=lag, max_steps=4
    )
    trainer.train()
    logged = [row for row in trainer.state.log_history if "loss" in row]
    log_ratios = own_log_ratios(trainer, model_folder, lag=lag)
    for (generation, seen), row in zip(by_generation(trainer), logged, strict=True):
        if seen.step == max(trainer.steps[generation] - lag, 0):
            assert "ratio/mean_abs_delta" not in row
            continue
        deviations = np.abs(np.expm1(log_ratios[generation, seen.step]))
        assert row["ratio/mean_abs_delta"] == pytest.approx(deviations.mean(), abs=1e-4)
        assert row["ratio/max_abs_delta"] == pytest.approx(deviations.max(), abs=1e-4)
        assert row["ratio/clamped"] == pytest.approx((deviations > 0.5).mean())
    assert any("ratio/mean_abs_delta" in row for row in logged)


def test_a_lag_longer_than_the_training_samples_with_the_initial_weights(
    make_trainer, model_folder
):
    trainer = make_trainer(cls=Lagging, rollout_lag=100, max_steps=3)
    trainer.train()
    initial = policies(trainer)[0]
    for _, rows, _ in trainer.generations:
        old = (rows["old_per_token_logps"] * rows["completion_mask"]).sum(dim=1).numpy()
        np.testing.assert_allclose(old, sequence_logps(model_folder, initial, rows), atol=1e-4)


def test_without_a_lag_nothing_is_held(make_trainer):
    trainer = make_trainer(cls=MaxAtKTrainer)
    assert not any(isinstance(c, LaggedWeights) for c in trainer.callback_handler.callbacks)
    assert copies(lag=0, every=3) == 0


class State:
    def __init__(self, step):
        self.global_step = step


@given(lag=st.integers(1, 9), every=st.integers(1, 4))
def test_every_generation_finds_its_weights_among_few_copies(lag, every):
    model = torch.nn.Linear(1, 1)
    model.bias.requires_grad_(requires_grad=False)
    lagged = LaggedWeights(model, lag=lag, every=every)
    for step in range(24):
        torch.nn.init.constant_(model.weight, step)
        if step % every == 0:
            with contextlib.suppress(KeyboardInterrupt), lagged.in_model(step):
                assert model.weight.item() == lagged.sampling_step(step) == max(step - lag, 0)
                raise KeyboardInterrupt
            assert model.weight.item() == step
        lagged.on_pre_optimizer_step(None, State(step), None)
        held = list(lagged._kept.values())
        assert len(held) <= copies(lag=lag, every=every)
        assert all(list(weights) == ["weight"] for weights in held)
    lagged.on_train_begin(None, State(0), None)
    assert not lagged._kept
