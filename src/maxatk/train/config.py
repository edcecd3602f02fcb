"""Settings of the trainer: TRL's GRPOConfig plus the method of best-of-N training."""

from __future__ import annotations

import dataclasses
import importlib
import os
import typing
from collections.abc import Callable, Hashable

import torch
from trl import GRPOConfig

from maxatk.errors import InvalidValueError, unknown_name
from maxatk.objectives import METHODS, Form, Method, check_group_size, method_of
from maxatk.objectives.objective import SCHEDULES, Objective
from maxatk.objectives.scale import SCALES
from maxatk.train.rollouts import ROLLOUTS, refuse_settings
from maxatk.train.surface import check_generated_rows, liger_hides_logps
from maxatk.train.trackers import check_trackers

# The losses whose surrogate is the advantage times the ratio of a token, clipped.
OWN_RATIO_LOSS_TYPES = ("dapo", "dr_grpo", "bnpo", "grpo")
# The `reinforce` form needs the loss to be a plain sum of A log pi over tokens, up to a constant.
REINFORCE_LOSS_TYPES = ("dapo", "dr_grpo", "bnpo", "cispo")

BEHAVIOURS = ("trainer", "sampler")
OWN_RATIOS = ("token", "sequence")


@dataclasses.dataclass
class MaxAtKConfig(GRPOConfig):
    """Settings of `MaxAtKTrainer`: every field of TRL's GRPOConfig and seventeen of its own.

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
    disable_dropout: bool = dataclasses.field(
        default=True, metadata={"help": "Disable dropout, so that ratios measure the policy."}
    )
    bf16: bool | None = dataclasses.field(
        default=None, metadata={"help": "Train in bfloat16; by default where the GPU can."}
    )

    def __post_init__(self) -> None:
        if self.bf16 is None:
            self.bf16 = torch.cuda.is_available() and torch.cuda.is_bf16_supported()
        _check_method(self)
        _check_objective(self)
        _check_geometry(self)
        _check_lag(self)
        _check_rollouts(self)
        _rename_checkpointing(self)
        super().__post_init__()
        check_trackers(self.report_to)
        _check_combinations(self)
        _check_shared_prompts(self)
        refuse_settings(self)
        _check_signal(self)

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


def _check_method(config: MaxAtKConfig) -> None:
    row = config.row
    if config.form not in typing.get_args(Form):
        raise unknown_name("form", config.form, typing.get_args(Form))
    if config.behaviour not in BEHAVIOURS:
        raise unknown_name("behaviour", config.behaviour, BEHAVIOURS)
    if not isinstance(config.k, int) or not 1 <= config.k <= config.num_generations:
        raise InvalidValueError(
            f"k: must be a whole number from 1 to num_generations ({config.num_generations}), "
            f"the size of a group; got {config.k!r}"
        )
    check_group_size(row, config.k, config.num_generations)
    if config.num_generations_eval:
        samples = config.num_generations_eval
        check_group_size(row, min(config.k, row.largest_k(samples)), samples)
    _check_beside(config)
    clamp = config.delta_clamp
    if clamp is not None and not (isinstance(clamp, (int, float)) and clamp > 0):
        raise InvalidValueError(f"delta_clamp: must be a positive number or None, got {clamp!r}")
    if config.own_ratio not in OWN_RATIOS:
        raise unknown_name("own_ratio", config.own_ratio, OWN_RATIOS)


def _check_beside(config: MaxAtKConfig) -> None:
    """Refuse a selection or answers that the method has no use for, or lacks."""
    kind = config.row.kind
    if config.selection is not None and kind.order is None:
        raise InvalidValueError(
            f"selection: {config.selection!r} has no effect on the method {config.method!r}, which "
            "orders no samples; allowed with it: None"
        )
    if kind.needs_answers == (config.answers is None):
        wanted = "a function module:name" if kind.needs_answers else "None"
        raise InvalidValueError(
            f"answers: must be {wanted} with the method {config.method!r}, got {config.answers!r}"
        )
    if config.answers is not None:
        answer_function(config.answers)


def answer_function(name: str) -> Callable[[str], Hashable]:
    """Return the function of "module:name"; raise InvalidValueError where there is none."""
    module, _, attribute = name.partition(":")
    try:
        found: Callable[[str], Hashable] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidValueError(
            f"answers: must be a function module:name, got {name!r} ({error})"
        ) from error
    return found


def _check_objective(config: MaxAtKConfig) -> None:
    if config.k_schedule not in SCHEDULES:
        raise unknown_name("k_schedule", config.k_schedule, SCHEDULES)
    final = config.k_final
    if final is not None and config.k_schedule == "constant":
        moving = ", ".join(name for name in SCHEDULES if name != "constant")
        raise InvalidValueError(f"k_final: {final!r} needs a k_schedule; allowed: {moving}")
    if final is not None and (
        not isinstance(final, int) or not 1 <= final <= config.num_generations
    ):
        raise InvalidValueError(
            f"k_final: must be a whole number from 1 to num_generations "
            f"({config.num_generations}), got {final!r}"
        )
    row = config.row
    n = config.num_generations
    if row.kind.uses_k and n > 1 and row.is_silent(config.k, n):
        raise InvalidValueError(
            f"k: {config.k} is num_generations, where every sample has the same credit, and the "
            f"baseline {row.baseline!r} of the method {config.method!r} leaves 0 of each: nothing "
            f"would be trained; allowed with it: 1 to {config.num_generations - 1}"
        )
    if config.advantage_scale not in SCALES:
        raise unknown_name("advantage_scale", config.advantage_scale, SCALES)
    if not 0 <= config.max_weight <= 1:
        raise InvalidValueError(f"max_weight: must be from 0 to 1, got {config.max_weight!r}")
    if config.max_weight < 1 and not row.kind.uses_k:
        fitting = [name for name, other in METHODS.items() if other.kind.uses_k]
        raise InvalidValueError(
            f"max_weight: {config.max_weight!r} mixes max@k with max@1, which the method "
            f"{config.method!r} has no k for; allowed with it: 1.0, or a method of: "
            f"{', '.join(fitting)}"
        )


def _check_geometry(config: MaxAtKConfig) -> None:
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


def _check_lag(config: MaxAtKConfig) -> None:
    lag = config.rollout_lag
    if not isinstance(lag, int) or lag < 0:
        raise InvalidValueError(f"rollout_lag: must be a whole number from 0, got {lag!r}")
    if lag and config.shards_weights:
        raise InvalidValueError(
            f"rollout_lag: {lag} exchanges weights in place, which FSDP and DeepSpeed shard; "
            "allowed with them: 0"
        )


def _check_rollouts(config: MaxAtKConfig) -> None:
    """Refuse an unknown way to sample, and vLLM beside another one; "vllm" is `use_vllm`."""
    if config.rollouts not in ROLLOUTS:
        raise unknown_name("rollouts", config.rollouts, ROLLOUTS)
    if config.use_vllm and config.rollouts in ("own", "trl"):
        raise InvalidValueError(
            f"use_vllm: True is rollouts 'vllm', got {config.rollouts!r}; allowed: one of them"
        )
    config.use_vllm = config.use_vllm or config.rollouts == "vllm"


def _check_signal(config: MaxAtKConfig) -> None:
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


def _check_shared_prompts(config: MaxAtKConfig) -> None:
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


def _check_combinations(config: MaxAtKConfig) -> None:
    """Refuse settings of TRL whose meaning the method would change silently."""
    if config.scale_rewards != "group":
        raise InvalidValueError(
            f"scale_rewards: {config.scale_rewards!r} has no effect, because the scale is part of "
            f"the method; leave it out and choose a method"
        )
    if config.multi_objective_aggregation != "sum_then_normalize":
        raise InvalidValueError(
            "multi_objective_aggregation: must be 'sum_then_normalize', got "
            f"{config.multi_objective_aggregation!r}"
        )
    if config.form == "reinforce" and config.loss_type not in REINFORCE_LOSS_TYPES:
        raise InvalidValueError(
            f"loss_type: {config.loss_type!r} does not fit form 'reinforce'; "
            f"allowed: {', '.join(REINFORCE_LOSS_TYPES)}"
        )
    if config.form == "reinforce" and config.beta and config.use_bias_correction_kl:
        raise InvalidValueError(
            "use_bias_correction_kl: must be False with form 'reinforce', which has no ratio in "
            "its surrogate, and a beta that is not 0"
        )
    if config.behaviour == "sampler":
        _check_sampler(config)
    if config.own_ratio == "sequence":
        _check_own_ratio(config)
    if not config.needs_ratios:
        return
    for name, allowed in _RATIOS_NEED.items():
        if getattr(config, name) != allowed:
            raise InvalidValueError(
                f"{name}: must be {allowed!r} with method {config.method!r} in the form "
                f"{config.form!r}, whose weights are made of ratios; got {getattr(config, name)!r}"
            )


def _check_own_ratio(config: MaxAtKConfig) -> None:
    """Refuse settings whose loss has no ratio of single tokens to complete to a sequence's."""
    needed = {
        "form": ("ppo",),
        "importance_sampling_level": ("token",),
        "loss_type": OWN_RATIO_LOSS_TYPES,
        "off_policy_mask_threshold": (None,),
        "use_liger_kernel": (False,) if liger_hides_logps() else (False, True),
    }
    for name, allowed in needed.items():
        value = getattr(config, name)
        if value not in allowed:
            raise InvalidValueError(
                f"{name}: {value!r} has no ratios of tokens that own_ratio 'sequence' could "
                f"complete; allowed with it: {', '.join(map(str, allowed))}"
            )


def _check_sampler(config: MaxAtKConfig) -> None:
    """Refuse settings under which the ratios to the sampler are not those of its distribution."""
    if not config.needs_ratios:
        raise InvalidValueError(
            f"behaviour: 'sampler' has no effect on the method {config.method!r} in the form "
            f"{config.form!r}, which uses no ratios; allowed with it: 'trainer'"
        )
    given = config.generation_kwargs or {}
    for name, allowed in _SAMPLER_NEEDS.items():
        value = given.get(name, getattr(config, name))
        if value not in allowed:
            names = " or ".join(map(repr, allowed))
            raise InvalidValueError(
                f"{name}: must be {names} with behaviour 'sampler', whose ratios are those of "
                f"untruncated sampling with vLLM; got {value!r}"
            )


# Each of these changes the ratios, or takes samples from the loss behind the back of the weights.
_RATIOS_NEED = {
    "disable_dropout": True,
    "importance_sampling_level": "token",
    "off_policy_mask_threshold": None,
}
# Each of these samples from another distribution than the one whose probabilities the trainer has.
_SAMPLER_NEEDS = {
    "use_vllm": (True,),
    "vllm_importance_sampling_correction": (True,),
    "vllm_structured_outputs_regex": (None,),
    "top_p": (1.0,),
    "top_k": (0, -1, None),
    "min_p": (None, 0.0),
    "repetition_penalty": (1.0,),
}
