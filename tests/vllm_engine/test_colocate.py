"""TRL's colocate mode with the real engine: weights go there, probabilities come back."""

import importlib

import numpy as np
import pytest
import torch
from datasets import Dataset

from maxatk.problems import load_problems
from maxatk.train.batch import GROUP_ROW
from train.conftest import GROUP, SpyTrainer, config, text_reward
from train.expected import brute_force, sequence_logps

METHOD = "bon_off_policy_exact"
DIFFERENCE = "sampling/sampling_logp_difference/mean"
ROUNDING = 0.02  # of a token's log-probability, between two ways of computing it


@pytest.fixture(autouse=True)
def kept_weights(monkeypatch):
    """vLLM's layers for a CPU pack their weights and drop them; a training hands over new ones."""

    def keep(layer, remove_weight):
        layer.cpu_linear = torch.nn.functional.linear

    for name in ("utils", "linear", "vocab_parallel_embedding"):
        module = importlib.import_module(f"vllm.model_executor.layers.{name}")
        if hasattr(module, "dispatch_cpu_unquantized_gemm"):
            monkeypatch.setattr(module, "dispatch_cpu_unquantized_gemm", keep)


@pytest.fixture
def make_trainer(mini, tmp_path):
    prompts = [{"prompt": problem.prompt} for problem in load_problems(mini / "test.jsonl")]

    def make(**changes):
        settings = {
            "use_vllm": True,
            "vllm_mode": "colocate",
            "vllm_importance_sampling_clip_max": None,
            "max_completion_length": 12,
            "num_iterations": 2,
            "max_steps": 4,
            "learning_rate": 0.3,
        }
        return SpyTrainer(
            model=str(mini / "base"),
            reward_funcs=text_reward,
            args=config(tmp_path, **{**settings, **changes}),
            train_dataset=Dataset.from_list(prompts),
        )

    return make


def differences(trainer):
    return [row[DIFFERENCE] for row in trainer.state.log_history if DIFFERENCE in row]


@pytest.mark.parametrize("method", ["grpo", "bon_loo1"])
def test_the_engine_samples_with_the_weights_of_the_trainer(make_trainer, method):
    trainer = make_trainer(method=method)
    trainer.train()
    assert len(differences(trainer)) >= 2
    assert max(differences(trainer)) < ROUNDING


def test_an_engine_that_is_not_handed_the_weights_is_seen_in_the_log(make_trainer, monkeypatch):
    trainer = make_trainer(method="bon_loo1")
    monkeypatch.setattr(trainer.vllm_generation, "sync_weights", lambda: None)
    trainer.train()
    assert differences(trainer)[-1] > 5 * ROUNDING


@pytest.mark.parametrize("behaviour", ["trainer", "sampler"])
def test_advantages_are_those_of_the_probabilities_the_engine_gave(make_trainer, mini, behaviour):
    trainer = make_trainer(method=METHOD, behaviour=behaviour, max_steps=2)
    trainer.train()
    policy, rows, rewards = trainer.generations[0]
    mask = rows["completion_mask"].bool()
    engine = (rows["sampling_per_token_logps"].double() * mask).sum(1).numpy()
    recomputed = sequence_logps(mini / "base", policy, rows)
    old = engine if behaviour == "sampler" else recomputed
    scored = rewards.double().numpy().reshape(-1, GROUP)
    for batch in trainer.seen:
        now = sequence_logps(mini / "base", batch.policy, rows)
        log_ratios = (now - old).reshape(-1, GROUP)
        expected = brute_force(METHOD, scored, log_ratios, k=2, form="ppo").reshape(-1)
        places = batch.inputs[GROUP_ROW].numpy()
        np.testing.assert_allclose(batch.inputs["advantages"].numpy(), expected[places], atol=1e-4)
