"""Settings of the trainer, TRL's GRPOConfig plus the method, and their checks before any work."""

from __future__ import annotations

import dataclasses
import inspect
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import trl
from transformers.integrations import integration_utils
from trl import GRPOConfig, GRPOTrainer

from maxatk.check import require, whole
from maxatk.errors import InvalidValueError, MissingDependencyError, unknown_name
from maxatk.functions import load_function
from maxatk.objectives import check_group_size, method_of
from maxatk.objectives.objective import Objective
from maxatk.objectives.setting import setting_of
from maxatk.train import own_rollouts
from maxatk.train.option_conflicts import check_options
from maxatk.train.ranges import check_cispo, check_generation, check_numbers
from maxatk.train.shared_prompts import refuse_unshareable

TRACKERS = ("tensorboard", "trackio", "wandb")  # that were tried; names of packages too

_COUNTS = ("per_device_train_batch_size", "gradient_accumulation_steps", "num_iterations")
_COUNTS_OR_NONE = (
    "steps_per_generation",
    "generation_batch_size",
    "num_generations_eval",
    "max_completion_length",
)
_NAMES = {
    "rollouts": ("auto", "own", "trl"),
    "behaviour": ("trainer", "sampler"),
    "loss_type": ("grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo"),
    "importance_sampling_level": ("token", "sequence"),
}
# Each of these changes the ratios, or takes samples from the loss behind the back of the weights.
_RATIOS_NEED = {
    "disable_dropout": (True,),
    "importance_sampling_level": ("token",),
    "off_policy_mask_threshold": (None,),
    "neftune_noise_alpha": (None,),
}
# What makes a sampler's distribution the one whose probabilities the trainer has.
UNTRUNCATED = {
    "top_p": (1.0,),
    "top_k": (0, -1, None),
    "min_p": (None, 0.0),
    "repetition_penalty": (1.0,),
}
_SAMPLER_NEEDS = {
    "use_vllm": (True,),
    "vllm_importance_sampling_correction": (True,),
    "vllm_structured_outputs_regex": (None,),
    **UNTRUNCATED,
}


class WithObjective:
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
        if self.bf16 is None:
            supported = torch.cuda.is_available() and torch.cuda.is_bf16_supported()
            self.bf16 = supported and not self.fp16
        _check_values(self)
        # transformers warns of the old names, which TRL and recipes have, where it has new ones.
        for old in ("gradient_checkpointing", "gradient_checkpointing_kwargs"):
            new = old.replace("gradient", "activation")
            if getattr(self, new, old) is None:
                setattr(self, new, getattr(self, old))
        super().__post_init__()
        _check_trackers(self.report_to)
        _check_meaning(self)
        _warn_of_truncation(self)
        check_options(self)
        if self.rollouts == "own":
            own_rollouts.refuse_settings(self)

    @property
    def shards_weights(self) -> bool:
        """Return whether settings or `accelerate launch` give the weights to FSDP or DeepSpeed."""
        names = ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED")
        launched = any(os.environ.get(name, "false").lower() in ("true", "1") for name in names)
        return bool(self.fsdp or self.deepspeed or launched)

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


def _check_values(config: MaxAtKConfig) -> None:
    """Refuse values that are wrong by themselves, before TRL looks at them."""
    for name in ("num_generations", *_COUNTS):
        whole(name, getattr(config, name), 1)
    for name in _COUNTS_OR_NONE:
        if getattr(config, name) is not None:
            whole(name, getattr(config, name), 1)
    config.check_objective()
    if config.num_generations_eval:
        method = method_of(config.method)
        samples = config.num_generations_eval
        check_group_size(method, min(config.k, method.largest_k(samples)), samples)
    if config.answers is not None:
        load_function(config.answers, field="answers")
    _check_geometry(config)
    for name, allowed in _NAMES.items():
        value = str(getattr(config, name))
        if value not in allowed:
            raise unknown_name(name, value, allowed)
    if config.use_vllm:
        require_settings(config, {"rollouts": ("auto",)}, "with use_vllm, which samples by itself")
    whole("log_groups", config.log_groups, 0)


def check_model(config: Any, model: Any, name: str | None) -> None:
    """Refuse a model, by its config, that some settings do not go with; `name` is its folder."""
    if config.share_prompts:
        refuse_unshareable(model)
    if config.skip_zero_advantages:
        allowed = "False with a model whose router has an auxiliary loss, which all samples have"
        require(not _has_auxiliary_loss(config, model), "skip_zero_advantages", allowed, True)
    if config.rollouts == "own":
        own_rollouts.refuse_config(config, model, name)


def _has_auxiliary_loss(config: Any, model: Any) -> bool:
    """Return whether TRL adds the loss of a router to that of the policy."""
    text = model.get_text_config()
    of_model = getattr(text, "router_aux_loss_coef", 0.0)
    coefficient = of_model if config.router_aux_loss_coef is None else config.router_aux_loss_coef
    return hasattr(text, "output_router_logits") and coefficient != 0.0


def check_prompts(config: Any, count: int, *, called: str) -> None:
    """Refuse so few prompts that they make no rollout batch; `called` is what holds them."""
    needed = config.generation_batch_size // config.num_generations
    if count < needed:
        raise InvalidValueError(
            f"{called}: has {count} prompts, fewer than the {needed} of one rollout batch, so no "
            "step would be taken; allowed: more prompts or a smaller batch"
        )


def check_processes(config: Any, accelerator: Any) -> None:
    """Refuse launches that accelerate would not do as they were meant, before the first rollout."""
    launched = int(os.environ.get("WORLD_SIZE", "1"))
    apart = launched > 1 and accelerator.distributed_type == "NO"
    allowed = f"True for {launched} processes without a GPU, each of which would train alone"
    require(not apart, "use_cpu", allowed, config.use_cpu)
    sharded = config.shards_weights and accelerator.distributed_type == "MULTI_CPU"
    allowed = "left out on a CPU, where accelerate runs DDP: recipes/accelerate/two_cpus.yaml"
    require(not sharded, "fsdp", allowed, config.fsdp)


def _check_geometry(config: Any) -> None:
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


def require_settings(config: Any, needed: Mapping[str, Sequence[Any]], why: str) -> None:
    """Refuse other values of settings than those that are `needed`."""
    # What is said there wins over the field of the same name.
    generation = getattr(config, "generation_kwargs", None) or {}
    for name, allowed in needed.items():
        value = generation.get(name, getattr(config, name))
        listed = " or ".join(map(repr, allowed))
        require(value in allowed, name, f"{listed} {why}", value)


def _check_meaning(config: Any) -> None:
    """Refuse settings whose meaning the method, or what its ratios are taken to, would change."""
    check_numbers(config)
    check_generation(config)
    check_cispo(config)
    why = "because the scale is part of the method: choose another one"
    require_settings(config, {"scale_rewards": ("group",)}, why)
    aggregation = {"multi_objective_aggregation": ("sum_then_normalize",)}
    require_settings(config, aggregation, "because the method gets a sum")
    if config.form == "reinforce":
        sums = {"loss_type": ("dapo", "dr_grpo", "bnpo", "cispo")}  # of A log pi, up to a constant
        require_settings(config, sums, "with form 'reinforce', which needs a plain sum")
        if config.beta:
            why = "with form 'reinforce', whose surrogate has no ratio, and a beta that is not 0"
            require_settings(config, {"use_bias_correction_kl": (False,)}, why)
    if config.behaviour == "sampler":
        why = "with behaviour 'sampler', whose ratios are those of untruncated sampling with vLLM"
        require_settings(config, _SAMPLER_NEEDS, why)
    trained = f"with the method {config.method!r} in the form {config.form!r}"
    if config.objective.needs_ratios:
        require_settings(config, _RATIOS_NEED, f"{trained}, whose weights are made of ratios")
    else:
        no_ratios = f"{trained}, which uses no ratios"
        require_settings(config, {"behaviour": ("trainer",)}, no_ratios)


def _warn_of_truncation(config: Any) -> None:
    """Warn where vLLM cuts a distribution whose probabilities TRL compares with the whole one."""
    if not (config.use_vllm and config.vllm_importance_sampling_correction):
        return
    generation = config.generation_kwargs or {}
    for name, allowed in UNTRUNCATED.items():
        value = generation.get(name, getattr(config, name))
        if value not in allowed:
            warnings.warn(
                f"{name}: {value!r} with use_vllm: vLLM gives probabilities of what is left of the "
                "distribution, and TRL's factor pi_old/mu compares them with those of the whole, "
                "which weighs samples by what was left; without this bias: "
                f"{allowed[0]!r}, or vllm_importance_sampling_correction False",
                stacklevel=4,
            )


def _check_trackers(names: Sequence[str]) -> None:
    """Refuse unknown trackers; raise MissingDependencyError for those of `TRACKERS` not here."""
    supported = integration_utils.INTEGRATION_TO_CALLBACK
    installed = integration_utils.get_available_reporting_integrations()
    for name in names:
        if name not in supported:
            raise unknown_name("report_to", name, [*supported, "none"])
        if name in TRACKERS and name not in installed:
            raise MissingDependencyError(
                f"report_to: {name!r} needs the package {name}: pip install {name}"
            )


# Methods of TRL's trainer that are overridden, and those that are called besides.
_USED = (
    "_prepare_inputs",
    "_generate_and_score_completions",
    "_generate",
    "_generate_single_turn",
    "_tool_call_loop",
    "_get_tool_suffix_ids",
    "_calculate_rewards",
    "_compute_loss",
    "_get_per_token_logps_and_entropies",
    "_save_checkpoint",
    "_load_optimizer_and_scheduler",
    "create_model_card",
)


def check_trl() -> None:
    """Raise MissingDependencyError for a TRL that lacks a method, or reads advantages too early."""
    missing = [name for name in _USED if not hasattr(GRPOTrainer, name)]
    # The loss's own pass sets the advantages, so it must come before they are read. Nothing but the
    # text of the method tells the order, and a wrong one would train on old advantages in silence.
    source = inspect.getsource(GRPOTrainer._compute_loss)
    forward = source.find("._get_per_token_logps_and_entropies(")
    if not 0 <= forward < source.find('inputs["advantages"]'):
        missing.append("_compute_loss that reads advantages after log-probabilities")
    if missing:
        raise MissingDependencyError(
            f"trl {trl.__version__}: its GRPOTrainer lacks {', '.join(missing)}, which this "
            "trainer needs; versions 1.14 to 1.16 are known to work: pip install 'trl>=1.14,<2'"
        )
