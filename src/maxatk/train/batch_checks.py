"""Checks of the settings that say how samples are drawn, grouped and evaluated."""

from __future__ import annotations

import os
import typing

from maxatk.errors import InvalidValueError, unknown_name
from maxatk.train.rollouts import ROLLOUTS
from maxatk.train.surface import check_generated_rows, liger_hides_logps

if typing.TYPE_CHECKING:
    from maxatk.train.config import MaxAtKConfig


def check_geometry(config: MaxAtKConfig) -> None:
    """Refuse group sizes that do not divide the rollout batch, naming those that do."""
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    steps = config.steps_per_generation or config.gradient_accumulation_steps
    batch = config.generation_batch_size or config.per_device_train_batch_size * processes * steps
    if config.num_generations < 2 or batch % config.num_generations:
        allowed = [n for n in range(2, batch + 1) if batch % n == 0]
        raise InvalidValueError(
            f"num_generations: {config.num_generations} does not divide the rollout batch of "
            f"{batch} completions (per_device_train_batch_size "
            f"{config.per_device_train_batch_size} x {processes} processes x "
            f"steps_per_generation {steps}, unless generation_batch_size is given); "
            f"allowed: {', '.join(map(str, allowed)) or 'none, the batch is too small'}"
        )


def check_lag(config: MaxAtKConfig) -> None:
    """Refuse a lag that is no number of steps, and one of weights that are sharded."""
    lag = config.rollout_lag
    if not isinstance(lag, int) or lag < 0:
        raise InvalidValueError(f"rollout_lag: must be a whole number from 0, got {lag!r}")
    if lag and config.shards_weights:
        raise InvalidValueError(
            f"rollout_lag: {lag} exchanges weights in place, which FSDP and DeepSpeed shard; "
            "allowed with them: 0"
        )


def check_rollouts(config: MaxAtKConfig) -> None:
    """Refuse an unknown way to sample, and vLLM beside another one; "vllm" is `use_vllm`."""
    if config.rollouts not in ROLLOUTS:
        raise unknown_name("rollouts", config.rollouts, ROLLOUTS)
    if config.use_vllm and config.rollouts in ("own", "trl"):
        raise InvalidValueError(
            f"use_vllm: True is rollouts 'vllm', got {config.rollouts!r}; allowed: one of them"
        )
    config.use_vllm = config.use_vllm or config.rollouts == "vllm"


def check_signal(config: MaxAtKConfig) -> None:
    """Refuse to replace groups that lie in several processes, and a bound that replaces none."""
    if not config.groups_with_signal:
        return
    check_generated_rows()
    if not isinstance(config.max_prompt_draws, int) or config.max_prompt_draws < 2:
        raise InvalidValueError(
            f"max_prompt_draws: must be a whole number from 2 with groups_with_signal, got "
            f"{config.max_prompt_draws!r}"
        )
    rows = config.per_device_train_batch_size * config.steps_per_generation
    if rows % config.num_generations:
        raise InvalidValueError(
            f"groups_with_signal: True needs whole groups in each process, whose rollout batch of "
            f"{rows} completions (per_device_train_batch_size "
            f"{config.per_device_train_batch_size} x steps_per_generation "
            f"{config.steps_per_generation}) is no multiple of num_generations "
            f"{config.num_generations}; allowed with it: False"
        )


def check_shared_prompts(config: MaxAtKConfig) -> None:
    """Refuse what cannot keep the cache of a prompt with its gradient."""
    if not config.share_prompts:
        return
    refused = {
        "gradient_checkpointing": config.checkpoints_activations,
        "use_liger_kernel in this version of TRL": config.use_liger_kernel and liger_hides_logps(),
        "fsdp or deepspeed": config.shards_weights,
        "disable_dropout False, which draws noise for every sample": not config.disable_dropout,
    }
    for name, given in refused.items():
        if given:
            raise InvalidValueError(
                f"share_prompts: True keeps the cache of a prompt for its samples, which does not "
                f"go with {name}; allowed with it: False"
            )


def check_skipping(config: MaxAtKConfig) -> None:
    """Refuse a loss to which a sample of advantage 0 adds something, or that counts samples."""
    if not config.skip_zero_advantages:
        return
    entropy = getattr(config, "entropy_coef", 0.0) or getattr(config, "use_adaptive_entropy", False)
    refused = {
        f"loss_type {config.loss_type!r} (only dapo and cispo divide by the tokens of a whole "
        "rollout batch)": config.loss_type not in ("dapo", "cispo"),
        f"beta {config.beta!r}, whose penalty all samples have": config.beta != 0.0,
        "an entropy bonus, which all samples have": entropy,
        f"top_entropy_quantile {config.top_entropy_quantile!r}, a quantile over all samples": (
            config.top_entropy_quantile < 1.0
        ),
        "use_liger_kernel": config.use_liger_kernel,
    }
    for name, given in refused.items():
        if given:
            raise InvalidValueError(
                f"skip_zero_advantages: True leaves samples out of the loss, which does not go "
                f"with {name}; allowed with it: False"
            )
