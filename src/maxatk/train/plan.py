"""The arithmetic of a run before it: rollout batches, optimizer steps and forward passes."""

from __future__ import annotations

import dataclasses
import os

from maxatk.errors import InvalidValueError
from maxatk.objectives.scale import describe
from maxatk.train.config import MaxAtKConfig


@dataclasses.dataclass(frozen=True)
class TrainingPlan:
    """How much a run does. Passes are micro-batches of one process; the rest counts all processes.

    `steps_per_rollout_batch` is the number of optimizer steps on one rollout batch, less than 1
    where a step holds several. `passes_sampling` are those for the log-probabilities at sampling,
    `passes_reference` those of the reference model for `beta`, `passes_ratios` the extra ones for
    the ratios of reused groups. `advantage_scale` says in words what the scale does to the
    advantages of this method. None stands for what the number of problems decides, if unknown.
    """

    processes: int
    problems: int | None
    group_size: int
    prompts_per_rollout_batch: int
    completions_per_rollout_batch: int
    micro_batch: int
    steps_per_rollout_batch: float
    epochs: float | None
    rollout_batches: int
    optimizer_steps: int
    completions: int
    whole_groups: bool
    advantage_scale: str
    rollout_lag: int
    passes_training: int
    passes_sampling: int
    passes_reference: int
    passes_ratios: int


def plan(config: MaxAtKConfig, *, problems: int | None) -> TrainingPlan:
    """Return what a run with these settings does on so many problems; None if they are unknown.

    Raises InvalidValueError where the problems are fewer than one rollout batch needs, or unknown
    while `max_steps` is not given.
    """
    steps = config.steps_per_generation
    batch, group = config.generation_batch_size, config.num_generations
    prompts = batch // group
    reuse = steps * config.num_iterations  # micro-batches from one rollout batch to the next
    accumulation = config.gradient_accumulation_steps
    epoch = _micro_batches_an_epoch(config, problems, prompts, reuse)
    updates_an_epoch = -(-epoch // accumulation)
    updates = config.max_steps
    if updates <= 0:
        updates = -int(-config.num_train_epochs * updates_an_epoch // 1)
    full, rest = divmod(updates, updates_an_epoch)
    parts = [(full, epoch), (1, min(rest * accumulation, epoch))]
    batches = sum(times * -(-micro // reuse) for times, micro in parts)
    stale = sum(times * _stale_steps(micro, reuse, accumulation) for times, micro in parts)
    if (
        config.rollout_lag
    ):  # the first use of a rollout batch is stale too, but for the first step's
        stale += batches - -(-min(accumulation, epoch) // reuse)
    corrected = config.use_vllm and config.vllm_importance_sampling_correction
    old = accumulation % reuse != 0 or corrected or config.rollout_lag > 0
    return TrainingPlan(
        processes=_processes(),
        problems=problems,
        group_size=group,
        prompts_per_rollout_batch=prompts,
        completions_per_rollout_batch=batch,
        micro_batch=config.per_device_train_batch_size,
        steps_per_rollout_batch=reuse / accumulation,
        epochs=None if problems is None else updates / updates_an_epoch,
        rollout_batches=batches,
        optimizer_steps=updates,
        completions=batches * batch,
        whole_groups=config.whole_groups,
        advantage_scale=describe(config.advantage_scale, config.row, group_size=group),
        rollout_lag=config.rollout_lag,
        passes_training=sum(times * micro for times, micro in parts),
        passes_sampling=batches * steps if old else 0,
        passes_reference=batches * steps if config.beta else 0,
        passes_ratios=stale * steps if config.needs_ratios and not config.whole_groups else 0,
    )


def _micro_batches_an_epoch(
    config: MaxAtKConfig, problems: int | None, prompts: int, reuse: int
) -> int:
    """Return the micro-batches of a process in an epoch; with unknown problems, of the run."""
    if problems is None:
        if config.max_steps <= 0:
            raise InvalidValueError(
                "max_steps: must be given where the number of problems is not known before they "
                "are loaded; or name a local problems.jsonl"
            )
        return config.max_steps * config.gradient_accumulation_steps
    if problems < prompts:
        raise InvalidValueError(
            f"problems: has {problems} prompts, fewer than the {prompts} of one rollout batch, so "
            "no step would be taken; use more problems or a smaller batch"
        )
    return problems // prompts * reuse


def _stale_steps(micro_batches: int, reuse: int, accumulation: int) -> int:
    """Return how often an optimizer step uses samples that an earlier step has used."""
    total = 0
    for first in range(0, micro_batches, reuse):
        last = min(first + reuse, micro_batches) - 1
        total += last // accumulation - first // accumulation
    return total


def _processes() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))
