"""Checks of the settings that say what is trained for: method, k, form and ratios."""

from __future__ import annotations

import importlib
import typing
from collections.abc import Callable, Hashable

from maxatk.errors import InvalidValueError, unknown_name
from maxatk.objectives import METHODS, Form, check_group_size
from maxatk.objectives.objective import SCHEDULES
from maxatk.objectives.scale import SCALES
from maxatk.train.surface import liger_hides_logps

if typing.TYPE_CHECKING:
    from maxatk.train.config import MaxAtKConfig

# The losses whose surrogate is the advantage times the ratio of a token, clipped.
OWN_RATIO_LOSS_TYPES = ("dapo", "dr_grpo", "bnpo", "grpo")
# The `reinforce` form needs the loss to be a plain sum of A log pi over tokens, up to a constant.
REINFORCE_LOSS_TYPES = ("dapo", "dr_grpo", "bnpo", "cispo")

BEHAVIOURS = ("trainer", "sampler")
OWN_RATIOS = ("token", "sequence")


def check_method(config: MaxAtKConfig) -> None:
    """Refuse a method, a form or a k that is none or that does not fit the groups."""
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


def check_objective(config: MaxAtKConfig) -> None:
    """Refuse a schedule, a scale or a mixture without effect or meaning for the method."""
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


def check_combinations(config: MaxAtKConfig) -> None:
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
