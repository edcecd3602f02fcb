"""Settings of the trainer: TRL's GRPOConfig plus the method."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from trl import GRPOConfig

from maxatk.errors import InvalidValueError
from maxatk.objectives.objective import Objective
from maxatk.objectives.setting import setting_of
from maxatk.python_numbers import use_python_numbers
from maxatk.train import own_rollout_checks
from maxatk.train.hidden_token import HiddenToken
from maxatk.train.option_conflicts import check_options
from maxatk.train.setting_checks import (
    check_meaning,
    check_trackers,
    check_values,
    warn_of_truncation,
)


class WithObjective(HiddenToken):
    """Settings of TRL that have the names of an objective's fields, or leave them out."""

    num_generations: int
    method: str | dict[str, Any]

    @property
    def objective(self) -> Objective:
        """Return what these settings train for, over the whole training."""
        # Made anew each time, which is cheap: a config stays a plain dataclass whose fields may be
        # set until the training begins, and that is pickled beside the weights.
        names = [field.name for field in dataclasses.fields(Objective)]
        return Objective(**{name: getattr(self, name) for name in names if hasattr(self, name)})

    def check_objective(self) -> None:
        """Refuse what the objective does not allow in groups of the training.

        A method that JSON does not have becomes the setting of it: TRL and records write a config.
        """
        wrong = self.objective.problems(self.num_generations, called="num_generations")
        if wrong:
            raise InvalidValueError("\n".join(wrong))
        self.method = setting_of(self.method)


@dataclasses.dataclass
class MaxAtKConfig(WithObjective, GRPOConfig):
    """Settings of `MaxAtKTrainer`: every field of TRL's GRPOConfig and seventeen of its own.

    Args:
        method: A name in `maxatk.METHODS`, or a mapping for `maxatk.objectives.method_of`; a
            `Method`, which becomes such a mapping, has no function as its credit.
        k: The k of max@k that is trained for; at most `num_generations`.
        selection: The reward function whose scores select a sample, and which is not rewarded.
        answers: "module:name" of a function from a completion's text to its answer, hashable.
        form: Where a sample's own importance ratio is: in the clipped surrogate ("ppo"), or in the
            off-policy weight and nowhere else ("reinforce").
        behaviour: Whose probabilities ratios are taken to where vLLM samples: "trainer", "sampler".
        delta_clamp: Bound on |rho - 1| of the ratios inside the off-policy weights; None for none.
        k_schedule: How k moves from `k` to `k_final` over the training: a name in `SCHEDULES`.
        k_final: The k at the end of a schedule; by default 1.
        max_weight: Share of max@k in the objective; the rest is max@1.
        advantage_scale: For a method without a scale of its own: "mean" (a credit that is summed
            over a group, times its size), "sum" (as in eq. 9), "batch" (one running scale).
        rollouts: Who draws rollout batches without `use_vllm`: "own" (this package's loop), "trl"
            (`generate`), or "auto": "own" on a CPU where it fits, else "trl".
        groups_with_signal: Draw prompts until no group of the rollout batch has advantages of 0.
            The name of a reward function, or of a part of a reward, has its values differ too.
        max_prompt_draws: The prompts that are drawn for it at most, in rollout batches.
        share_prompts: Evaluate every different prompt of a micro-batch once in the update.
        skip_zero_advantages: Leave samples whose advantage is 0 out of the update.
        log_groups: Groups of every optimizer step that groups.jsonl keeps; 0 for no such file.

    Dropout is off (ratios would be noise otherwise); bf16 is on where the GPU has it, without fp16.

    Raises InvalidValueError (a ValueError) for a value that is not allowed, MissingDependencyError
    for a tracker that is not installed, before any work.
    """

    method: str | dict[str, Any] = "bon_loo1"
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
    groups_with_signal: bool | str = False
    max_prompt_draws: int = 4
    share_prompts: bool = False
    skip_zero_advantages: bool = False
    log_groups: int = 8
    disable_dropout: bool = True
    bf16: bool | None = None

    def __post_init__(self) -> None:
        use_python_numbers(self)
        if self.bf16 is None:
            supported = torch.cuda.is_available() and torch.cuda.is_bf16_supported()
            self.bf16 = supported and not self.fp16
        check_values(self)
        # transformers warns of the old names, which TRL and recipes have, where it has new ones.
        for old in ("gradient_checkpointing", "gradient_checkpointing_kwargs"):
            new = old.replace("gradient", "activation")
            if getattr(self, new, old) is None:
                setattr(self, new, getattr(self, old))
        super().__post_init__()
        check_trackers(self.report_to)
        check_meaning(self)
        warn_of_truncation(self)
        check_options(self)
        if self.rollouts == "own":
            own_rollout_checks.refuse_settings(self)

    @property
    def ratios_in_loss(self) -> bool:
        """Return whether ratios come from the loss's own pass, on micro-batches of whole groups."""
        return self._needs_new_ratios and self._holds_whole_groups

    @property
    def extra_pass_for_ratios(self) -> bool:
        """Return whether a forward pass before each reuse of a rollout batch finds the ratios."""
        return self._needs_new_ratios and not self._holds_whole_groups

    @property
    def _needs_new_ratios(self) -> bool:
        # As TRL asks it: a rollout batch may also begin in the middle of an optimizer step.
        micro_batches = self.steps_per_generation * self.num_iterations
        outlives_a_step = self.gradient_accumulation_steps % micro_batches != 0
        return bool(self.objective.needs_ratios and outlives_a_step)

    @property
    def _holds_whole_groups(self) -> bool:
        return bool(self.per_device_train_batch_size % self.num_generations == 0)
