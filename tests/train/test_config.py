"""Settings that are not allowed are refused before any work, with what is allowed."""

import warnings

import pytest

from maxatk.errors import InvalidValueError

from .conftest import config


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"method": "bon_loo"}, r"method: unknown value 'bon_loo'.*did you mean 'bon_loo1'"),
        ({"form": "pp0"}, r"form: unknown value 'pp0'.*ppo, reinforce"),
        ({"k": 5}, r"k: must be a whole number from 1 to num_generations \(4\).*got 5"),
        ({"k": 0}, r"k: .*got 0"),
        ({"delta_clamp": 0.0}, r"delta_clamp: must be a positive number or None, got 0.0"),
        ({"delta_clamp": "half"}, r"delta_clamp: must be a positive number or None, got 'half'"),
        ({"method": "bon_mean", "k": 4}, r"k: 4 is num_generations.*'mean'.*allowed .* 1 to 3"),
        (
            {"method": "bon_off_policy", "k": 4, "k_schedule": "linear"},
            r"k: 4 is num_generations.*'constant' of the method 'bon_off_policy'",
        ),
        ({"own_ratio": "samples"}, r"own_ratio: unknown value 'samples'"),
        ({"own_ratio": "sequence", "form": "reinforce"}, r"form: 'reinforce' has no ratios"),
        ({"own_ratio": "sequence", "loss_type": "sapo"}, r"loss_type: 'sapo' .*dapo, dr_grpo"),
        (
            {"own_ratio": "sequence", "importance_sampling_level": "sequence"},
            r"importance_sampling_level: 'sequence' has no ratios of tokens",
        ),
        ({"num_generations": 3, "k": 2}, r"num_generations: 3 does not divide .* 8 .*2, 4, 8"),
        ({"num_generations": 1, "k": 1}, r"num_generations: 1 .*allowed: 2, 4, 8"),
        ({"scale_rewards": "none"}, r"scale_rewards: 'none' has no effect"),
        (
            {"multi_objective_aggregation": "normalize_then_sum"},
            r"multi_objective_aggregation: must be 'sum_then_normalize'",
        ),
        ({"form": "reinforce", "loss_type": "grpo"}, r"loss_type: 'grpo'.*dapo, dr_grpo"),
        (
            {"form": "reinforce", "beta": 0.1, "use_bias_correction_kl": True},
            r"use_bias_correction_kl: must be False",
        ),
        ({"k_schedule": "cosin"}, r"k_schedule: unknown value 'cosin'.*did you mean 'cosine'"),
        ({"k_final": 1}, r"k_final: 1 needs a k_schedule; .*linear, .*cosine_back"),
        ({"k_schedule": "linear", "k_final": 9}, r"k_final: .*num_generations \(4\), got 9"),
        ({"max_weight": 1.5}, r"max_weight: must be from 0 to 1, got 1.5"),
        ({"method": "grpo", "max_weight": 0.5}, r"max_weight: 0.5 .*a method of: bon_loo1"),
        ({"advantage_scale": "none"}, r"advantage_scale: unknown value 'none'.*batch, mean, sum"),
        (
            {"method": "bon_centred", "k": 4},
            r"'remove_one' and k=4 needs at least 5 samples",
        ),
        ({"method": "majority"}, r"answers: must be a function module:name .*'majority', got None"),
        ({"answers": "builtins:str"}, r"answers: must be None with the method 'bon_loo1'"),
        ({"method": "majority", "answers": "builtins:strr"}, r"answers: .*got 'builtins:strr'"),
        (
            {"method": "grpo", "selection": "visible"},
            r"selection: 'visible' has no effect",
        ),
        ({"method": {"credit": {"cvr": 1}}}, r"method: the key 'baseline' is required"),
        (
            {"method": {"credit": {"min": 9}, "baseline": "mean"}},
            r"method: OrderWeights.* with the baseline 'mean' needs at least 9 samples, got 4",
        ),
        (
            {"method": {"credit": {"min": 3}, "baseline": "mean"}, "num_generations_eval": 2},
            r"needs at least 3 samples, got 2",
        ),
        ({"rollout_lag": -1}, r"rollout_lag: must be a whole number from 0, got -1"),
        ({"rollout_lag": 1.5}, r"rollout_lag: .*got 1.5"),
        ({"rollout_lag": 2, "fsdp": "full_shard"}, r"rollout_lag: 2 .*FSDP.*allowed with them: 0"),
        ({"rollout_lag": 2, "deepspeed": {}, "fsdp": True}, r"rollout_lag: 2 .*DeepSpeed"),
        (
            {"method": "bon_off_policy", "importance_sampling_level": "sequence"},
            r"importance_sampling_level: must be 'token'",
        ),
    ],
)
def test_values_that_are_not_allowed_are_refused(tmp_path, changes, message):
    with pytest.raises(InvalidValueError, match=message):
        config(tmp_path, **changes)


@pytest.mark.parametrize("launched", ["ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED"])
def test_a_lag_is_refused_where_the_launcher_shards_the_weights(tmp_path, monkeypatch, launched):
    monkeypatch.setenv(launched, "true")
    with pytest.raises(InvalidValueError, match="rollout_lag: 1 exchanges weights in place"):
        config(tmp_path, rollout_lag=1)


@pytest.mark.parametrize(
    "settings, steps",
    [
        ({}, 1),
        ({"num_iterations": 3}, 3),
        ({"steps_per_generation": 4, "gradient_accumulation_steps": 2, "num_iterations": 3}, 6),
        ({"steps_per_generation": 4, "gradient_accumulation_steps": 3}, 1),
        ({"steps_per_generation": 1, "gradient_accumulation_steps": 2}, 1),
    ],
)
def test_steps_per_rollout_batch_are_whole_or_every_one(tmp_path, settings, steps):
    assert config(tmp_path, **settings).steps_per_rollout_batch == steps


def test_defaults_are_those_the_measurements_support(tmp_path):
    settings = config(tmp_path)
    assert settings.method == "bon_loo1"
    assert settings.form == "ppo"
    assert settings.delta_clamp == 0.5
    assert settings.advantage_scale == "mean"
    assert settings.disable_dropout is True


def test_no_clamp_and_the_largest_k_with_other_baselines_are_allowed(tmp_path):
    assert config(tmp_path, delta_clamp=None).objective.clamp is None
    assert config(tmp_path, method="bon_loo1", k=4).k == 4
    assert config(tmp_path, method="grpo", k=4).k == 4


@pytest.mark.parametrize("value", [True, False])
def test_either_name_of_checkpointing_warns_of_nothing(tmp_path, value):
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        settings = config(tmp_path, gradient_checkpointing=value)
    assert settings.checkpoints_activations is value


def test_bf16_stays_off_where_there_is_no_gpu_for_it(tmp_path):
    assert config(tmp_path).bf16 is False


@pytest.mark.parametrize(
    "method, form, needed",
    [
        ("bon_loo1", "ppo", False),
        ("bon_loo1", "reinforce", True),
        ("bon_off_policy", "ppo", True),
        ("grpo", "ppo", False),
    ],
)
def test_ratios_are_needed_by_corrections_and_by_reinforce(tmp_path, method, form, needed):
    assert config(tmp_path, method=method, form=form).needs_ratios is needed
