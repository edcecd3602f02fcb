"""Corrections and lags where vLLM samples, with a stand-in for it."""

import importlib.util
import sys
import types

import numpy as np
import pytest

from maxatk.errors import InvalidValueError, MissingDependencyError
from maxatk.train import MaxAtKTrainer, TrainRecipe, preview, train
from maxatk.train.batch import GROUP_ROW

from .conftest import GROUP, config
from .enumerated import EveryGroup, gradient_of_max_at_k, write_model
from .expected import brute_force, sequence_logps
from .vllm_stand_in import StandIn

WHOLE = {}
SPLIT = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}
SAMPLED = {"use_vllm": True, "vllm_importance_sampling_clip_max": None, "learning_rate": 3e-2}
METHOD = "bon_off_policy_exact"


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    class Fresh(StandIn):
        pass

    monkeypatch.setattr("trl.trainer.grpo_trainer.VLLMGeneration", Fresh)
    return Fresh


@pytest.mark.parametrize(
    "behaviour, form, geometry",
    [
        ("trainer", "ppo", WHOLE),
        ("trainer", "reinforce", SPLIT),
        ("sampler", "ppo", SPLIT),
        ("sampler", "reinforce", WHOLE),
        ("sampler", "reinforce", SPLIT),
    ],
)
def test_advantages_are_those_of_ratios_to_the_chosen_behaviour(
    make_trainer, model_folder, geometry, form, behaviour
):
    trainer = make_trainer(
        method=METHOD, form=form, behaviour=behaviour, num_iterations=2, max_steps=2,
        **SAMPLED, **geometry,
    )  # fmt: skip
    trainer.train()
    policy, rows, rewards = trainer.generations[0]
    policy_logps = sequence_logps(model_folder, policy, rows)
    sampler = sequence_logps(model_folder, trainer.vllm_generation.used[0], rows)
    assert np.abs(policy_logps - sampler).max() > 1e-3, (
        "the sampler is the trainer: nothing is tested"
    )
    old = sampler if behaviour == "sampler" else policy_logps
    scored = rewards.double().numpy().reshape(-1, GROUP)
    for batch in trainer.seen:
        now = sequence_logps(model_folder, batch.policy, rows)
        log_ratios = (now - old).reshape(-1, GROUP)
        expected = brute_force(METHOD, scored, log_ratios, k=2, form=form).reshape(-1)
        places = batch.inputs[GROUP_ROW].numpy()
        np.testing.assert_allclose(batch.inputs["advantages"].numpy(), expected[places], atol=5e-5)
        own_factor = batch.inputs["importance_sampling_ratio"][:, 0].numpy()
        once = form == "reinforce" and behaviour == "sampler"  # the weights hold it
        factor = np.ones(len(places)) if once else np.exp(policy_logps - sampler)[places]
        np.testing.assert_allclose(own_factor, factor, atol=1e-4)


def test_tokens_without_a_probability_of_the_sampler_count_with_that_of_the_trainer(
    make_trainer, model_folder, stand_in
):
    stand_in.unknown = 1.0
    trainer = make_trainer(
        method=METHOD, behaviour="sampler", num_iterations=2, max_steps=2, **SAMPLED
    )
    trainer.train()
    policy, rows, rewards = trainer.generations[0]
    scored = rewards.double().numpy().reshape(-1, GROUP)
    old = sequence_logps(model_folder, policy, rows)
    for batch in trainer.seen:
        log_ratios = sequence_logps(model_folder, batch.policy, rows) - old
        expected = brute_force(METHOD, scored, log_ratios.reshape(-1, GROUP), k=2, form="ppo")
        expected_rows = expected.reshape(-1)[batch.inputs[GROUP_ROW].numpy()]
        np.testing.assert_allclose(batch.inputs["advantages"].numpy(), expected_rows, atol=5e-5)


@pytest.mark.parametrize("form, length", [("ppo", 1), ("reinforce", 2)])
@pytest.mark.parametrize("behaviour", ["sampler", "trainer"])
def test_with_the_sampler_as_behaviour_the_expected_gradient_is_that_of_max_at_k(
    tmp_path, form, length, behaviour
):
    folder = write_model(tmp_path / "model")
    settings = config(
        tmp_path / "out",
        method=METHOD,
        form=form,
        behaviour=behaviour,
        delta_clamp=1e9,
        use_vllm=True,
        vllm_importance_sampling_clip_max=None,
        k=2,
        num_generations=2,
        per_device_train_batch_size=2 * 16**length,
        max_completion_length=7,
        loss_type="dr_grpo",
        max_grad_norm=0.0,
        max_steps=1,
    )
    trainer = EveryGroup(folder, settings, length=length, noise=0.2)
    trainer.train()
    gradient = -7 * trainer.gradients[0]
    want = gradient_of_max_at_k(folder, trainer.policies[0], length=length, k=2)
    error = np.linalg.norm(gradient - want) / np.linalg.norm(want)
    # With the trainer's probabilities the other samples are taken for samples of the trainer.
    assert error < 1e-4 if behaviour == "sampler" else error > 1e-3, error


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"behaviour": "vllm"}, r"behaviour: unknown value 'vllm'; allowed: sampler, trainer"),
        ({"use_vllm": False}, r"use_vllm: must be True with behaviour 'sampler'.*got False"),
        ({"top_p": 0.9}, r"top_p: must be 1.0 with behaviour 'sampler'.*got 0.9"),
        ({"top_k": 20}, r"top_k: must be 0 or -1 or None .*got 20"),
        ({"min_p": 0.1}, r"min_p: .*got 0.1"),
        ({"repetition_penalty": 1.1}, r"repetition_penalty: .*got 1.1"),
        ({"generation_kwargs": {"top_p": 0.5}}, r"top_p: .*got 0.5"),
        (
            {"vllm_importance_sampling_correction": False},
            r"vllm_importance_sampling_correction: must be True",
        ),
        ({"method": "bon_loo1"}, r"behaviour: must be 'trainer' with the method 'bon_loo1'"),
    ],
)
def test_ratios_to_the_sampler_are_refused_where_they_would_be_others(tmp_path, changes, message):
    settings = {"method": METHOD, "behaviour": "sampler", "use_vllm": True, **changes}
    with pytest.raises(InvalidValueError, match=message):
        config(tmp_path, **settings)


def test_a_method_without_a_correction_trains_where_vllm_samples(make_trainer):
    trainer = make_trainer(cls=MaxAtKTrainer, num_iterations=2, use_vllm=True)
    trainer.train()
    assert trainer.rollouts == "vllm"
    assert trainer.state.global_step == 3


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vllm is installed")
def test_sampling_with_vllm_is_refused_where_it_is_not_installed(tmp_path):
    trainer = {"use_vllm": True, "per_device_train_batch_size": 8, "bf16": False}
    recipe = TrainRecipe(
        model="no/model", problems="none.jsonl", out=str(tmp_path), trainer=trainer
    )
    for look in (train, preview):
        with pytest.raises(MissingDependencyError, match=r"use_vllm: needs the package vllm: pip"):
            look(recipe)
    assert not list(tmp_path.iterdir())


class SamplingParams:
    """What vLLM's class does with its arguments."""

    def __init__(self, *, n=1, max_tokens=2, min_tokens=0, structured_outputs=None):
        if max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {max_tokens}.")
        if min_tokens > max_tokens:
            raise ValueError(f"min_tokens must be at most max_tokens={max_tokens}.")


@pytest.mark.parametrize(
    ("generation", "message"),
    [
        (
            {"max_new_tokens": 64},
            r"generation_kwargs: unknown key 'max_new_tokens'; .*'max_tokens'",
        ),
        ({"max_tokens": 0}, r"generation_kwargs: max_tokens must be at least 1, got 0"),
        ({"min_tokens": 7}, r"generation_kwargs: min_tokens must be at most max_tokens=6"),
    ],
)
def test_generation_kwargs_are_those_of_vllm_where_it_samples(
    tmp_path, monkeypatch, generation, message
):
    """TRL hands them on when the first rollout batch is drawn."""
    module = types.ModuleType("vllm")
    module.SamplingParams = SamplingParams
    monkeypatch.setitem(sys.modules, "vllm", module)
    with pytest.raises(InvalidValueError, match=message):
        config(tmp_path, use_vllm=True, generation_kwargs=generation)
    for taken in ({"max_tokens": 64, "structured_outputs": {}}, {"min_tokens": 6}):
        settings = config(tmp_path, use_vllm=True, generation_kwargs=taken)
        assert settings.generation_kwargs == taken
