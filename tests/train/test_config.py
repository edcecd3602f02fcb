"""Settings that are not allowed are refused before any work, with what is allowed."""

import importlib.util
import json
import pickle
import warnings

import pytest
from transformers import HfArgumentParser
from transformers.utils import is_liger_kernel_available
from trl import GRPOTrainer

from maxatk.errors import InvalidValueError, MissingDependencyError
from maxatk.objectives import Method, OrderWeights, method_of
from maxatk.train import MaxAtKConfig, MaxAtKTrainer
from maxatk.train.start_checks import check_trl
from maxatk.training.group_log import GROUPS

from .conftest import config


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"method": "bon_loo"}, r"method: unknown value 'bon_loo'.*did you mean 'bon_loo1'"),
        ({"k": 5}, r"k: must be a whole number from 1 to num_generations \(4\).*got 5"),
        ({"num_generations": 3, "k": 2}, r"num_generations: 3 does not divide .* 8 .*2, 4, 8"),
        (
            {"num_generations": 4, "per_device_train_batch_size": 10**12 + 1},
            r"num_generations: 4 does not divide .* 1000000000001 .*allowed: 73, 137",
        ),
        ({"num_generations": 1, "k": 1}, r"num_generations: 1 .*allowed: 2, 4, 8"),
        ({"num_generations": None}, r"num_generations: must be an integer of 1 or more, got None"),
        ({"per_device_train_batch_size": 0}, r"per_device_train_batch_size: must be an integer"),
        ({"num_generations_eval": -4}, r"num_generations_eval: must be an integer of 1 .*got -4"),
        ({"loss_type": "dappo"}, r"loss_type: unknown value 'dappo'.*did you mean 'dapo'"),
        ({"importance_sampling_level": "word"}, r"importance_sampling_level: .*sequence, token"),
        ({"gradient_accumulation_steps": 0}, r"gradient_accumulation_steps: must be an integer"),
        ({"scale_rewards": "none"}, r"scale_rewards: must be 'group' because .*got 'none'"),
        (
            {"multi_objective_aggregation": "normalize_then_sum"},
            r"multi_objective_aggregation: must be 'sum_then_normalize'",
        ),
        (
            {"form": "reinforce", "loss_type": "grpo"},
            r"loss_type: must be 'dapo' or .*'grpo'",
        ),
        (
            {"form": "reinforce", "beta": 0.1, "use_bias_correction_kl": True},
            r"use_bias_correction_kl: must be False",
        ),
        (
            {"method": "majority", "answers": "builtins:strr"},
            r"answers: 'builtins' has .*mean 'str'",
        ),
        (
            {"method": {"credit": {"min": 3}, "baseline": "mean"}, "num_generations_eval": 2},
            r"needs at least 3 samples, got 2",
        ),
        (
            {"method": "bon_centred", "num_generations_eval": 1},
            r"'remove_one' and k=1 needs at least 2 samples, got 1",
        ),
        (
            {"method": "bon_off_policy", "importance_sampling_level": "sequence"},
            r"importance_sampling_level: must be 'token'",
        ),
        (
            {"method": "bon_off_policy", "neftune_noise_alpha": 5.0},
            r"neftune_noise_alpha: must be None .*got 5\.0",
        ),
        ({"loss_type": "cispo"}, r"epsilon: must be 1 or more .*epsilon_high .*got 0\.2"),
        (
            {"loss_type": "cispo", "epsilon_high": 0.3},
            r"epsilon_high: must be 1 or .*got 0\.3",
        ),
        ({"max_completion_length": 0}, r"max_completion_length: must be an integer of 1 or more"),
        ({"generation_kwargs": {"temperature": 0.5}}, r"generation_kwargs\.temperature: .*1\.0"),
        (
            {"generation_kwargs": {"do_sample": False}},
            r"generation_kwargs\.do_sample: .*True",
        ),
        ({"generation_kwargs": {"num_beams": 4}}, r"generation_kwargs\.num_beams: must be 1"),
        ({"generation_kwargs": {"n": 4}}, r"generation_kwargs\.n: must be 1: .*got 4"),
        ({"generation_kwargs": {"top_p": 0}}, r"generation_kwargs\.top_p: must be above 0 "),
        ({"temperature": 0.0}, r"temperature: must be positive and finite, got 0\.0"),
        ({"temperature": float("nan")}, r"temperature: must be positive and finite, got nan"),
        ({"learning_rate": float("inf")}, r"learning_rate: must be finite and not negative"),
        ({"beta": -0.1}, r"beta: must be finite and not negative, got -0\.1"),
        ({"epsilon": "0.2"}, r"epsilon: must be finite and not negative, got '0\.2'"),
        ({"top_p": 1.5}, r"top_p: must be above 0 and at most 1, got 1\.5"),
        ({"delta": 0.5}, r"delta: must be above 1 and finite: .* a distance from 1, got 0\.5"),
        ({"delta": 1.0}, r"delta: must be above 1 and finite"),
        ({"ref_model_sync_steps": 0}, r"ref_model_sync_steps: must be a whole number from 1 to"),
        ({"ref_model_mixup_alpha": 5.0}, r"ref_model_mixup_alpha: must be from 0 to 1, got 5"),
        (
            {"dataloader_prefetch_factor": 0, "dataloader_num_workers": 1},
            r"dataloader_prefetch_factor: must be a whole number from 1 to",
        ),
        ({"generation_kwargs": "top_k"}, r"generation_kwargs: must be a mapping, or None, got 'to"),
        ({"generation_kwargs": 5}, r"generation_kwargs: must be a mapping, or None, got 5"),
        ({"chat_template_kwargs": "x"}, r"chat_template_kwargs: must be a mapping, or None"),
        ({"model_init_kwargs": "x"}, r"model_init_kwargs: must be a mapping, or None"),
        (
            {"generation_kwargs": {"stop_strings": ["#"]}},
            r"generation_kwargs\.stop_strings: must be left out: `generate` needs a tokenizer",
        ),
        (
            {"generation_kwargs": {"return_dict_in_generate": True}},
            r"generation_kwargs\.return_dict_in_generate: must be left out",
        ),
        (
            {"generation_kwargs": {"max_length": 3}},
            r"generation_kwargs\.max_length: must be left out: .* max_completion_length",
        ),
        ({"min_p": 2.0}, r"min_p: must be from 0 to 1, got 2\.0"),
        ({"seed": 2**40}, r"seed: must be a whole number from 0 to 4,294,967,295, got 1099"),
        ({"seed": -1}, r"seed: must be a whole number from 0 to"),
        ({"seed": 1.5}, r"seed: must be a whole number from 0 to"),
        ({"data_seed": 2**70}, r"data_seed: must be a whole number from 0 to"),
        ({"top_k": 2**70}, r"top_k: must be a whole number from -1 to 2,147,483,647"),
        ({"generation_kwargs": {"top_k": 2**70}}, r"generation_kwargs\.top_k: must be a whole"),
        ({"max_steps": 0}, r"max_steps: must be a whole number from 1, or -1 for .*, got 0"),
        ({"num_iterations": 2**40}, r"num_iterations: must be a whole number from 1 to"),
        ({"max_completion_length": 2**40}, r"max_completion_length: must be a whole number"),
        ({"pad_to_multiple_of": 0}, r"pad_to_multiple_of: must be a whole number from 1 to"),
        ({"dataloader_num_workers": 2**40}, r"dataloader_num_workers: .* from 0 to 1,024"),
        ({"adam_beta1": 2.0}, r"adam_beta1: must be from 0 and below 1, got 2\.0"),
        ({"adam_epsilon": -1.0}, r"adam_epsilon: must be finite and not negative"),
        ({"weight_decay": -3.0}, r"weight_decay: must be finite and not negative"),
        ({"optim_args": "eps"}, r"optim_args: 'eps': not enough values"),
        ({"lr_scheduler_type": "cosine_with_min_lr"}, r"lr_scheduler_kwargs: .*min_lr_rate"),
        ({"lr_scheduler_type": "warmup_stable_decay"}, r"lr_scheduler_kwargs: .*num_decay_steps"),
        (
            {"lr_scheduler_type": "polynomial", "lr_scheduler_kwargs": {"lr_ennd": 0}},
            r"lr_scheduler_kwargs: {'lr_ennd': 0} with lr_scheduler_type 'polynomial': .*argument",
        ),
        (
            # which shows at the first step behind the warm-up alone
            {
                "lr_scheduler_type": "cosine",
                "warmup_steps": 3,
                "max_steps": 9,
                "lr_scheduler_kwargs": {"num_cycles": "two"},
            },
            r"lr_scheduler_kwargs: {'num_cycles': 'two'}",
        ),
        (
            {"save_strategy": "steps", "save_steps": 0},
            r"save_steps: must be above 0 .*save_strategy 'no'.*got 0",
        ),
        ({"save_strategy": "best"}, r"save_strategy: must be .*metric_for_best_model, got 'best'"),
        (
            {"generation_kwargs": {"max_tokens": 64}},
            r"generation_kwargs: unknown key 'max_tokens'; did you mean 'max_new_tokens'",
        ),
        ({"generation_kwargs": {"max_new_tokens": 0}}, r"generation_kwargs: .*greater than 0"),
        ({"cache_implementation": "none"}, r"cache_implementation: Invalid .*\(none\)"),
        ({"sync_ref_model": True}, r"beta: must be above 0 with sync_ref_model, got 0\.0"),
        (
            {"torch_compile": True, "torch_compile_backend": "inductr"},
            r"torch_compile_backend: unknown value 'inductr'; .*did you mean 'inductor'",
        ),
        (
            {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_rentrant": 1}},
            r"checkpointing_kwargs: unknown value 'use_rentrant'; .*mean 'use_reentrant'",
        ),
        ({"max_tool_calling_iterations": -1}, r"max_tool_calling_iterations: must be a whole"),
    ],
)
def test_values_that_are_not_allowed_are_refused(tmp_path, changes, message):
    with pytest.raises(InvalidValueError, match=message):
        config(tmp_path, **changes)


def test_an_optimizer_whose_package_is_not_installed_is_refused_before_there_is_a_model(tmp_path):
    if importlib.util.find_spec("galore_torch") is not None:
        pytest.skip("galore_torch is installed")
    with pytest.raises(MissingDependencyError, match=r"optim: 'galore_adamw': .*galore_torch"):
        config(tmp_path, optim="galore_adamw")


@pytest.mark.parametrize(
    "changes",
    [
        {"optim": "adafactor"},
        {"optim": "sgd", "optim_args": "momentum=0.9"},
        {"lr_scheduler_type": "constant_with_warmup", "warmup_steps": 5},
        {"lr_scheduler_type": "cosine_with_min_lr", "lr_scheduler_kwargs": {"min_lr": 1e-6}},
        {
            "lr_scheduler_type": "warmup_stable_decay",
            "lr_scheduler_kwargs": {"num_decay_steps": 10},
            "max_steps": 20,
        },
        {"learning_rate": 0.0, "lr_scheduler_type": "linear"},
        {"save_strategy": "no", "save_steps": 0},
        {"save_strategy": "steps", "save_steps": 0.25},
    ],
)
def test_optimizers_schedules_and_checkpoints_that_transformers_makes_are_allowed(
    tmp_path, changes
):
    settings = config(tmp_path, **changes)
    assert {name: getattr(settings, name) for name in changes} == changes


def test_the_largest_seed_is_taken(tmp_path):
    assert config(tmp_path, seed=2**32 - 1, top_k=-1, pad_to_multiple_of="auto").seed == 2**32 - 1


def test_everything_that_the_objective_does_not_allow_is_said_at_once(tmp_path):
    changes = {"k_final": 9, "max_weight": 2.0, "selection": "visible", "method": "grpo"}
    with pytest.raises(InvalidValueError) as refused:
        config(tmp_path, **changes)
    for name in ("k_final", "max_weight", "selection"):
        assert f"{name}: " in str(refused.value)


OWN_METHODS = {
    "Method": Method(credit="max_at_k", baseline="leave_one_out", source="me"),
    "OrderWeights": {"credit": OrderWeights.cvar(0.5, of=2), "baseline": "replace_one"},
    "mixture": {"credit": {"mixture": {1: 0.5, 2: 0.5}}, "baseline": "replace_one"},
}


@pytest.mark.parametrize("method", OWN_METHODS.values(), ids=OWN_METHODS)
def test_trl_writes_and_reads_a_method_of_ones_own(tmp_path, make_trainer, method):
    changes = {"max_steps": 1, "report_to": "tensorboard", "save_strategy": "steps"}
    trainer = make_trainer(cls=MaxAtKTrainer, method=method, **changes)
    trainer.train()
    written = json.loads(trainer.args.to_json_string())
    del written["generation_batch_size"]  # which TRL writes beside the one that it follows from
    (read,) = HfArgumentParser(MaxAtKConfig).parse_dict(written, allow_extra_keys=True)
    assert method_of(read.method) == method_of(method)
    head = json.loads((tmp_path / GROUPS).read_text().splitlines()[0])
    assert method_of(head["training"]["method"]) == method_of(method)


def test_a_function_as_credit_is_refused_with_the_name_that_stands_for_it(tmp_path):
    method = Method(credit=max, baseline="leave_one_out")
    with pytest.raises(InvalidValueError, match=r"function 'max' .*allowed: \{\"statistic\": "):
        config(tmp_path, method=method)
    assert config(tmp_path, method={"statistic": "builtins:max"}).objective.needs_ratios is False


def test_a_launcher_that_shards_the_weights_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with pytest.raises(InvalidValueError, match=r"share_prompts: True .* fsdp or deepspeed"):
        config(tmp_path, share_prompts=True)


def test_defaults_are_those_the_measurements_support(tmp_path):
    settings = config(tmp_path)
    assert settings.method == "bon_loo1"
    assert settings.form == "ppo"
    assert settings.delta_clamp == 0.5
    assert settings.advantage_scale == "mean"
    assert settings.disable_dropout is True


def test_no_clamp_and_the_largest_k_with_other_baselines_are_allowed(tmp_path):
    assert config(tmp_path, delta_clamp=None).objective.delta_clamp is None
    assert config(tmp_path, method="bon_loo1", k=4).k == 4
    assert config(tmp_path, method="grpo", k=4).k == 4


def test_arguments_of_checkpointing_that_torch_and_trl_take_are_taken(tmp_path):
    arguments = {"use_reentrant": False, "preserve_rng_state": True, "selective": False}
    settings = config(
        tmp_path, gradient_checkpointing=True, gradient_checkpointing_kwargs=arguments
    )
    assert settings.gradient_checkpointing_kwargs == arguments


@pytest.mark.skipif(is_liger_kernel_available(), reason="liger-kernel is installed")
def test_kernels_that_are_not_installed_are_named(tmp_path):
    with pytest.raises(MissingDependencyError, match=r"use_liger_kernel: .* pip install liger-k"):
        config(tmp_path, use_liger_kernel=True)


@pytest.mark.parametrize("value", [True, False])
def test_either_name_of_checkpointing_warns_of_nothing(tmp_path, value):
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        settings = config(tmp_path, gradient_checkpointing=value)
    assert settings.gradient_checkpointing is value


def test_bf16_stays_off_where_there_is_no_gpu_for_it(tmp_path):
    assert config(tmp_path).bf16 is False


def test_fp16_stands_by_itself_on_a_gpu_that_has_bf16(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda: True)
    settings = config(tmp_path, fp16=True)
    assert (settings.fp16, settings.bf16) == (True, False)
    assert config(tmp_path).bf16 is True


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
    assert config(tmp_path, method=method, form=form).objective.needs_ratios is needed


def test_settings_of_generation_that_leave_the_samples_as_they_are_may_be_said_again(tmp_path):
    generation = {"do_sample": True, "num_beams": 1, "temperature": 0.7, "max_new_tokens": 3}
    assert config(tmp_path, temperature=0.7, generation_kwargs=generation).temperature == 0.7
    assert config(tmp_path, loss_type="cispo", epsilon_high=5.0).epsilon_high == 5.0


@pytest.mark.parametrize(
    "accumulation, micro_batches, outlives",
    [
        (1, 1, False),
        (4, 2, False),  # two rollout batches in an optimizer step
        (4, 3, True),  # the second one begins in a step and ends in the next
        (1, 2, True),
    ],
)
def test_ratios_are_found_where_a_rollout_batch_outlives_an_optimizer_step(
    tmp_path, accumulation, micro_batches, outlives
):
    settings = config(
        tmp_path,
        method="bon_off_policy_exact",
        gradient_accumulation_steps=accumulation,
        steps_per_generation=micro_batches,
    )
    assert settings.ratios_in_loss is outlives
    assert settings.extra_pass_for_ratios is False


def test_split_groups_that_outlive_an_optimizer_step_have_an_extra_pass(make_trainer):
    trainer = make_trainer(
        method="bon_off_policy_exact",
        gradient_accumulation_steps=4,
        steps_per_generation=3,
        per_device_train_batch_size=4,
        num_generations=6,
        max_steps=3,
    )
    assert trainer.args.extra_pass_for_ratios
    trainer.train()
    assert any("seconds/refresh" in row for row in trainer.state.log_history)


def test_the_installed_trl_fits():
    check_trl()


def test_a_trl_without_what_is_needed_is_named(monkeypatch, make_trainer):
    monkeypatch.delattr(GRPOTrainer, "_calculate_rewards")
    monkeypatch.setattr(GRPOTrainer, "_compute_loss", lambda self, model: None)
    with pytest.raises(
        MissingDependencyError, match=r"trl \d.*_calculate_rewards, _compute_loss.*1\.14"
    ):
        make_trainer(cls=MaxAtKTrainer)


def test_a_loss_that_reads_advantages_before_its_pass_is_refused(monkeypatch):
    def early(self, model, inputs):
        advantages = inputs["advantages"]
        return advantages * self._get_per_token_logps_and_entropies(model, inputs)

    monkeypatch.setattr(GRPOTrainer, "_compute_loss", early)
    with pytest.raises(MissingDependencyError, match="reads advantages after log-probabilities"):
        check_trl()


@pytest.mark.parametrize("changes", [{"top_p": 0.9}, {"top_k": 20}, {"min_p": 0.1}])
def test_a_cut_distribution_of_vllm_is_warned_of(tmp_path, changes):
    """Its probabilities are those of what is left, which TRL compares with those of the whole."""
    (name,) = changes
    with pytest.warns(UserWarning, match=f"{name}: .* with use_vllm: vLLM gives probabilities"):
        config(tmp_path, use_vllm=True, **changes)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        config(tmp_path, use_vllm=True)
        config(tmp_path, **changes)
        config(tmp_path, use_vllm=True, vllm_importance_sampling_correction=False, **changes)


def test_settings_are_pickled_without_the_token_of_the_hub(tmp_path):
    """As transformers does in a checkpoint, and in the folder that it pushes to the hub."""
    settings = config(tmp_path, hub_token="hf_abc")
    pickled = pickle.dumps(settings)
    assert b"hf_abc" not in pickled
    assert settings.hub_token == "hf_abc"
    again = pickle.loads(pickled)
    assert (again.hub_token, again.k, again.output_dir) == (None, settings.k, str(tmp_path))
