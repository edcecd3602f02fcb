"""Checks of the trainer's settings before any work: what is wrong alone, and what beside others."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from transformers.integrations import integration_utils

from maxatk.check import require, whole
from maxatk.errors import InvalidValueError, MissingDependencyError, unknown_name
from maxatk.functions import load_function
from maxatk.objectives import check_group_size, method_of
from maxatk.train.launch import process_count
from maxatk.train.unread_settings import check_cispo, check_generation, check_unread

TRACKERS = ("tensorboard", "trackio", "wandb")  # that were tried; names of packages too

# Trackers whose package has another name in transformers than `report_to` gives them.
_ASKED_AS = {"azure_ml": "azureml", "comet_ml": "comet", "flyte": "flytekit"}

_LARGEST_NAMED = 1024  # group size that a refusal names: all those of a typing error take minutes

_COUNTS = ("per_device_train_batch_size", "gradient_accumulation_steps", "num_iterations")
_COUNTS_OR_NONE = (
    "steps_per_generation",
    "generation_batch_size",
    "num_generations_eval",
    "max_completion_length",
)
_MAPPINGS_OR_NONE = ("generation_kwargs", "chat_template_kwargs", "model_init_kwargs")
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


def check_values(config: Any) -> None:
    """Refuse values that are wrong by themselves, before TRL looks at them."""
    for name in _MAPPINGS_OR_NONE:
        value = getattr(config, name)
        require(value is None or isinstance(value, Mapping), name, "a mapping, or None", value)
    for name in ("num_generations", *_COUNTS):
        whole(name, getattr(config, name), 1)
    for name in _COUNTS_OR_NONE:
        if getattr(config, name) is not None:
            whole(name, getattr(config, name), 1)
    _check_geometry(config)
    config.check_objective()
    if config.num_generations_eval:
        method = method_of(config.method)
        samples = config.num_generations_eval
        check_group_size(method, min(config.k, method.largest_k(samples)), samples)
    if config.answers is not None:
        load_function(config.answers, field="answers")
    for name, allowed in _NAMES.items():
        value = str(getattr(config, name))
        if value not in allowed:
            raise unknown_name(name, value, allowed)
    if config.use_vllm:
        require_settings(config, {"rollouts": ("auto",)}, "with use_vllm, which samples by itself")
    whole("log_groups", config.log_groups, 0)


def _check_geometry(config: Any) -> None:
    """Refuse group sizes that do not divide the rollout batch, naming those that do."""
    processes = process_count()
    steps = config.steps_per_generation or config.gradient_accumulation_steps
    batch = config.generation_batch_size or config.per_device_train_batch_size * processes * steps
    if config.num_generations < 2 or batch % config.num_generations:
        largest = min(batch, _LARGEST_NAMED)
        allowed = [n for n in range(2, largest + 1) if batch % n == 0]
        raise InvalidValueError(
            f"num_generations: {config.num_generations} does not divide the rollout batch of "
            f"{batch} completions (per_device_train_batch_size "
            f"{config.per_device_train_batch_size} x processes {processes} x "
            f"steps_per_generation {steps}, unless generation_batch_size is given); "
            f"allowed: {', '.join(map(str, allowed)) or 'none of this batch'}"
        )


def require_settings(config: Any, needed: Mapping[str, Sequence[Any]], why: str) -> None:
    """Refuse other values of settings than those that are `needed`."""
    # What is said there wins over the field of the same name.
    generation = getattr(config, "generation_kwargs", None) or {}
    for name, allowed in needed.items():
        value = generation.get(name, getattr(config, name))
        listed = " or ".join(map(repr, allowed))
        require(value in allowed, name, f"{listed} {why}", value)


def check_meaning(config: Any) -> None:
    """Refuse settings whose meaning the method, or what its ratios are taken to, would change."""
    check_unread(config)
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
    if config.sync_ref_model:
        require(config.beta != 0.0, "beta", "above 0 with sync_ref_model", config.beta)
    if config.behaviour == "sampler":
        why = "with behaviour 'sampler', whose ratios are those of untruncated sampling with vLLM"
        require_settings(config, _SAMPLER_NEEDS, why)
    trained = f"with the method {config.method!r} in the form {config.form!r}"
    if config.objective.needs_ratios:
        require_settings(config, _RATIOS_NEED, f"{trained}, whose weights are made of ratios")
    else:
        no_ratios = f"{trained}, which uses no ratios"
        require_settings(config, {"behaviour": ("trainer",)}, no_ratios)


def warn_of_truncation(config: Any) -> None:
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


def check_trackers(names: Sequence[str]) -> None:
    """Refuse unknown trackers; raise MissingDependencyError for those that cannot be used here."""
    supported = integration_utils.INTEGRATION_TO_CALLBACK
    for name in names:
        if name not in supported:
            raise unknown_name("report_to", name, [*supported, "none"])
        # Each is asked for by its name: a list of all that are there imports wandb.
        function = f"is_{_ASKED_AS.get(name, name)}_available"
        is_available = getattr(integration_utils, function, lambda: True)
        if is_available():
            continue
        if name in TRACKERS:
            raise MissingDependencyError(
                f"report_to: {name!r} needs the package {name}: pip install {name}"
            )
        raise MissingDependencyError(
            f"report_to: transformers finds {name!r} not installed here, or not set up; allowed "
            f"without it: {', '.join(TRACKERS)} or none"
        )
