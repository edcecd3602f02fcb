"""Options of the trainer that do not go with other settings, each with its reasons."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from maxatk.check import is_whole, require
from maxatk.errors import InvalidValueError, counted
from maxatk.train.launch import shards_weights


def check_options(config: Any) -> None:
    """Refuse what groups with a signal, shared prompts and skipped samples do not go with."""
    if config.groups_with_signal:
        most = config.max_prompt_draws
        allowed = "a whole number from 2 with groups_with_signal"
        require(is_whole(most, 2), "max_prompt_draws", allowed, most)
        _refuse_beside("groups_with_signal", "needs whole groups in each process", _splits(config))
    if config.share_prompts:
        why = "keeps the cache of a prompt for its samples"
        _refuse_beside("share_prompts", why, _against_a_cache(config))
    if config.skip_zero_advantages:
        why = "leaves samples out of the loss"
        _refuse_beside("skip_zero_advantages", why, _of_all_samples(config))


def _refuse_beside(option: str, why: str, others: Iterator[str]) -> None:
    """Refuse an option beside the first of the `others`, which it does not go with."""
    for other in others:
        raise InvalidValueError(
            f"{option}: True {why}, which does not go with {other}; allowed with it: False"
        )


def _splits(config: Any) -> Iterator[str]:
    """Yield the batch of a process that splits groups."""
    rows = config.per_device_train_batch_size * config.steps_per_generation
    if rows % config.num_generations:
        yield (
            f"a rollout batch of {counted(rows, 'completion')} (per_device_train_batch_size "
            f"{config.per_device_train_batch_size} x steps_per_generation "
            f"{config.steps_per_generation}), no multiple of num_generations "
            f"{config.num_generations}"
        )


def _against_a_cache(config: Any) -> Iterator[str]:
    """Yield settings with which a prompt cannot be evaluated once for all its samples."""
    if config.gradient_checkpointing:
        yield "gradient_checkpointing"
    if shards_weights(config):
        yield "fsdp or deepspeed"
    if not config.disable_dropout:
        yield "disable_dropout False, which draws noise for every sample"


def _of_all_samples(config: Any) -> Iterator[str]:
    """Yield settings by which a sample without an advantage still changes the loss."""
    if config.loss_type not in ("dapo", "cispo"):
        divide = "only dapo and cispo divide by the tokens of a whole rollout batch"
        yield f"loss_type {config.loss_type!r} ({divide})"
    if config.beta != 0.0:
        yield f"beta {config.beta!r}, whose penalty all samples have"
    if config.entropy_coef or config.use_adaptive_entropy:
        yield "an entropy bonus, which all samples have"
    if config.top_entropy_quantile < 1.0:
        quantile = config.top_entropy_quantile
        yield f"top_entropy_quantile {quantile!r}, a quantile over all samples"
    if config.use_liger_kernel:
        yield "use_liger_kernel"
