"""Settings of the trainer: TRL's GRPOConfig plus the method of best-of-N training."""

from __future__ import annotations

import dataclasses
import os
import typing

import torch
from trl import GRPOConfig

from maxatk.objectives import Form, Method, method_of
from maxatk.objectives.objective import SCHEDULES, Objective
from maxatk.objectives.scale import SCALES
from maxatk.train.batch_checks import (
    check_geometry,
    check_lag,
    check_rollouts,
    check_shared_prompts,
    check_signal,
    check_skipping,
)
from maxatk.train.objective_checks import check_combinations, check_method, check_objective
from maxatk.train.rollouts import ROLLOUTS, refuse_settings
from maxatk.train.surface import liger_hides_logps
from maxatk.train.trackers import check_trackers


@dataclasses.dataclass
class MaxAtKConfig(GRPOConfig):
    """Settings of `MaxAtKTrainer`: every field of TRL's GRPOConfig and eighteen of its own.

    Args:
        method: A name in `maxatk.METHODS`, or a mapping for `maxatk.objectives.method_of`; decides
            credit, correction, baseline and scale.
        k: The k of max@k that is trained for; at most `num_generations`.
        selection: Name of a reward function that selects and is not rewarded: the objective is the
            reward of the sample that its scores would choose.
        answers: Function "module:name" from the text of a completion to its answer, hashable, for
            a method that looks at answers.
        form: How off-policy weights enter the loss: "ppo" leaves a sample's own importance ratio
            to the clipped surrogate, "reinforce" puts it into the weight and takes the surrogate
            away.
        behaviour: Whose probabilities at sampling the ratios of a group are taken to, where vLLM
            samples: "trainer" (the trainer's own forward pass) or "sampler" (vLLM's).
        own_ratio: How a sample's own importance ratio enters the loss in the form "ppo": "token" is
            TRL's, each token with its own ratio; "sequence" gives each token's advantage the
            clamped ratio of the rest of its sequence too, as eq. (10) asks.
        delta_clamp: Bound on |rho - 1| of the ratios inside the off-policy weights; None for none.
        k_schedule: How k moves from `k` to `k_final` over the training: a name in `SCHEDULES`.
        k_final: The k at the end of a schedule, in the middle of one that comes back; by default 1.
        max_weight: Share of max@k in the objective; the rest is max@1.
        advantage_scale: What is done to the advantages of a method that has no scale of its own:
            "mean" (a credit that is summed over the samples of a group, times their number, since
            losses are means), "sum" (as in eq. 9) or "batch" (one running root mean square).
        rollout_lag: Optimizer steps by which the weights that sample are behind those that train.
        rollouts: Who draws rollout batches: "own" (this package's loop), "trl" (transformers'
            `generate`), "vllm" (the same as `use_vllm`) or "auto" (vLLM with `use_vllm`; else on a
            CPU the loop, where it follows the settings and the model; else `generate`). The
            distribution is the same.
        groups_with_signal: Draw prompts until the rollout batch is full of groups whose advantages
            are not all 0.
        max_prompt_draws: The prompts that are drawn for it at most, in rollout batches.
        share_prompts: Evaluate every different prompt of a micro-batch once in the update instead
            of once a sample. The same numbers up to rounding; needs the memory of activations.
        skip_zero_advantages: Leave samples whose advantage is 0 out of the update. The same
            gradient up to rounding; entropy and clipping are logged of the others alone.

    Two defaults differ from TRL: dropout is off (ratios would be noise otherwise), and bf16 is
    chosen only where the machine has it. The scale of the advantages belongs to the method, so
    `scale_rewards` keeps its default.

    Raises InvalidValueError (a ValueError) for a value that is not allowed, MissingDependencyError
    for a tracker that is not installed, before any work.
    """

    method: str | dict[str, typing.Any] = dataclasses.field(
        default="bon_loo1", metadata={"help": "A name in maxatk.METHODS, or its parts."}
    )
    k: int = dataclasses.field(
        default=4, metadata={"help": "The k of max@k to train for, at most num_generations."}
    )
    selection: str | None = dataclasses.field(
        default=None, metadata={"help": "Name of a reward function that selects, unrewarded."}
    )
    answers: str | None = dataclasses.field(
        default=None, metadata={"help": "module:function from a completion to its answer."}
    )
    form: str = dataclasses.field(
        default="ppo", metadata={"help": "Form of the off-policy weights: ppo or reinforce."}
    )
    behaviour: str = dataclasses.field(
        default="trainer", metadata={"help": "Ratios are taken to: trainer or sampler (vLLM)."}
    )
    own_ratio: str = dataclasses.field(
        default="token", metadata={"help": "Own ratio in the form ppo: token or sequence."}
    )
    delta_clamp: float | None = dataclasses.field(
        default=0.5, metadata={"help": "Bound on |rho - 1| inside the off-policy weights, or None."}
    )
    k_schedule: str = dataclasses.field(
        default="constant", metadata={"help": f"From k to k_final: {', '.join(SCHEDULES)}."}
    )
    k_final: int | None = dataclasses.field(
        default=None, metadata={"help": "The k at the end (or turn) of a schedule; by default 1."}
    )
    max_weight: float = dataclasses.field(
        default=1.0, metadata={"help": "Share of max@k in the objective; the rest is max@1."}
    )
    advantage_scale: str = dataclasses.field(
        default="mean", metadata={"help": f"Scale of the advantages: {', '.join(SCALES)}."}
    )
    rollout_lag: int = dataclasses.field(
        default=0, metadata={"help": "Sample with the weights of that many optimizer steps ago."}
    )
    rollouts: str = dataclasses.field(
        default="auto", metadata={"help": f"Who draws rollout batches: {', '.join(ROLLOUTS)}."}
    )
    groups_with_signal: bool = dataclasses.field(
        default=False, metadata={"help": "Draw prompts until all groups have a signal."}
    )
    max_prompt_draws: int = dataclasses.field(
        default=4, metadata={"help": "Prompts drawn for that at most, in rollout batches."}
    )
    share_prompts: bool = dataclasses.field(
        default=False, metadata={"help": "Evaluate a prompt once for its samples in the update."}
    )
    skip_zero_advantages: bool = dataclasses.field(
        default=False, metadata={"help": "Leave samples of advantage 0 out of the update."}
    )
    disable_dropout: bool = dataclasses.field(
        default=True, metadata={"help": "Disable dropout, so that ratios measure the policy."}
    )
    bf16: bool | None = dataclasses.field(
        default=None, metadata={"help": "Train in bfloat16; by default where the GPU can."}
    )

    def __post_init__(self) -> None:
        if self.bf16 is None:
            self.bf16 = torch.cuda.is_available() and torch.cuda.is_bf16_supported()
        check_method(self)
        check_objective(self)
        check_geometry(self)
        check_lag(self)
        check_rollouts(self)
        _rename_checkpointing(self)
        super().__post_init__()
        check_trackers(self.report_to)
        check_combinations(self)
        check_shared_prompts(self)
        check_skipping(self)
        refuse_settings(self)
        check_signal(self)

    @property
    def shards_weights(self) -> bool:
        """Return whether settings or `accelerate launch` give the weights to FSDP or DeepSpeed."""
        names = ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED")
        launched = any(os.environ.get(name, "false").lower() in ("true", "1") for name in names)
        return bool(self.fsdp or self.deepspeed or launched)

    @property
    def checkpoints_activations(self) -> bool:
        """Return whether activations are computed again instead of kept, by either of its names."""
        return bool(self.gradient_checkpointing or getattr(self, "activation_checkpointing", None))

    @property
    def needs_ratios(self) -> bool:
        """Return whether the advantages change with the ratios of the whole group."""
        return self.row.correction != "none" or self.form == "reinforce"

    @property
    def row(self) -> Method:
        """Return the method as a row: what its name or its mapping stands for."""
        return method_of(self.method)

    @property
    def whole_groups(self) -> bool:
        """Return whether ratios come from the loss's own pass, on micro-batches of whole groups.

        Where they do not fit, or another loss than TRL's own is computed, an extra pass gives
        them. A rollout batch that serves a single optimizer step needs neither, unless its samples
        come from the weights of an earlier step.
        """
        fits = self.per_device_train_batch_size % self.num_generations == 0
        reused = self.steps_per_generation * self.num_iterations > self.gradient_accumulation_steps
        stale = reused or self.rollout_lag > 0
        hidden = self.use_liger_kernel and liger_hides_logps()
        return bool(self.needs_ratios and fits and stale and not hidden)

    @property
    def steps_per_rollout_batch(self) -> int:
        """Return the optimizer steps from one rollout batch to the next.

        1 where a step holds several rollout batches, or one begins in the middle of a step.
        """
        reuse = self.steps_per_generation * self.num_iterations
        steps, rest = divmod(reuse, self.gradient_accumulation_steps)
        return int(steps) if rest == 0 else 1

    @property
    def objective(self) -> Objective:
        """Return what these settings train for, over the whole training."""
        final = self.k if self.k_schedule == "constant" else (self.k_final or 1)
        form = typing.cast(Form, self.form)
        return Objective(
            self.row, self.k, final, self.k_schedule, self.max_weight, form, self.delta_clamp
        )


def _rename_checkpointing(config: MaxAtKConfig) -> None:
    """Give transformers the new name of a setting that TRL and recipes still have the old one of.

    Versions without the new name leave everything as it is.
    """
    for old in ("gradient_checkpointing", "gradient_checkpointing_kwargs"):
        new = old.replace("gradient", "activation")
        if getattr(config, new, old) is None:
            setattr(config, new, getattr(config, old))
