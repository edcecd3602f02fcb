"""Settings of the trainer: TRL's GRPOConfig plus the method of best-of-N training."""

from __future__ import annotations

import dataclasses
import os
import typing

import torch
from trl import GRPOConfig

from maxatk.objectives.objective import Objective
from maxatk.train.checks import check_combinations, check_values, objective_of


@dataclasses.dataclass
class MaxAtKConfig(GRPOConfig):
    """Settings of `MaxAtKTrainer`: every field of TRL's GRPOConfig and seventeen of its own.

    Args:
        method: A name in `maxatk.METHODS`, or a mapping for `maxatk.objectives.method_of`.
        k: The k of max@k that is trained for; at most `num_generations`.
        selection: Name of a reward function that selects and is not rewarded: the objective is the
            reward of the sample that its scores would choose.
        answers: Function, "module:name" or "file.py:name", from the text of a completion to its
            answer, hashable, for a method that looks at answers.
        form: "ppo" leaves a sample's own importance ratio to the clipped surrogate, "reinforce"
            puts it into the off-policy weight and takes the surrogate away.
        behaviour: Whose probabilities at sampling ratios are taken to, where vLLM samples:
            "trainer" (the trainer's own forward pass) or "sampler" (vLLM's).
        delta_clamp: Bound on |rho - 1| of the ratios inside the off-policy weights; None for none.
        k_schedule: How k moves from `k` to `k_final` over the training: a name in `SCHEDULES`.
        k_final: The k at the end of a schedule; by default 1.
        max_weight: Share of max@k in the objective; the rest is max@1.
        advantage_scale: What is done to the advantages of a method that has no scale of its own:
            "mean" (a credit that is summed over the samples of a group, times their number, since
            losses are means), "sum" (as in eq. 9) or "batch" (one running root mean square).
        rollouts: Who draws rollout batches: "own" (this package's loop), "trl" (transformers'
            `generate`), "vllm" (the same as `use_vllm`) or "auto" (vLLM with `use_vllm`; else on a
            CPU the loop, where it follows the settings and the model; else `generate`).
        groups_with_signal: Draw prompts until the rollout batch is full of groups whose advantages
            are not all 0.
        max_prompt_draws: The prompts that are drawn for it at most, in rollout batches.
        share_prompts: Evaluate every different prompt of a micro-batch once in the update. The same
            numbers up to rounding; needs the memory of activations.
        skip_zero_advantages: Leave samples whose advantage is 0 out of the update. The same
            gradient up to rounding; entropy and clipping are logged of the others alone.
        log_groups: Groups of every optimizer step that groups.jsonl keeps; 0 for no such file.

    Two defaults differ from TRL: dropout is off (ratios would be noise otherwise), and bf16 is
    chosen only where the machine has it.

    Raises InvalidValueError (a ValueError) for a value that is not allowed, MissingDependencyError
    for a tracker that is not installed, before any work.
    """

    method: str | dict[str, typing.Any] = "bon_loo1"
    k: int = 4
    selection: str | None = None
    answers: str | None = None
    form: str = "ppo"
    behaviour: str = "trainer"
    delta_clamp: float | None = 0.5
    k_schedule: str = "constant"
    k_final: int | None = None
    max_weight: float = 1.0
    advantage_scale: str = "mean"
    rollouts: str = "auto"
    groups_with_signal: bool = False
    max_prompt_draws: int = 4
    share_prompts: bool = False
    skip_zero_advantages: bool = False
    log_groups: int = 8
    disable_dropout: bool = True
    bf16: bool | None = None

    def __post_init__(self) -> None:
        if self.bf16 is None:
            self.bf16 = torch.cuda.is_available() and torch.cuda.is_bf16_supported()
        check_values(self)
        if self.rollouts == "vllm":
            self.use_vllm = True
        # transformers warns of the old names, which TRL and recipes have, where it has new ones.
        for old in ("gradient_checkpointing", "gradient_checkpointing_kwargs"):
            new = old.replace("gradient", "activation")
            if getattr(self, new, old) is None:
                setattr(self, new, getattr(self, old))
        super().__post_init__()
        check_combinations(self)

    @property
    def shards_weights(self) -> bool:
        """Return whether settings or `accelerate launch` give the weights to FSDP or DeepSpeed."""
        names = ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED")
        launched = any(os.environ.get(name, "false").lower() in ("true", "1") for name in names)
        return bool(self.fsdp or self.deepspeed or launched)

    @property
    def whole_groups(self) -> bool:
        """Return whether ratios come from the loss's own pass, on micro-batches of whole groups.

        Where they do not fit an extra pass gives them; a single optimizer step needs neither.
        """
        fits = self.per_device_train_batch_size % self.num_generations == 0
        reused = self.steps_per_generation * self.num_iterations > self.gradient_accumulation_steps
        return bool(self.objective.needs_ratios and fits and reused)

    @property
    def objective(self) -> Objective:
        """Return what these settings train for, over the whole training."""
        return objective_of(self)
