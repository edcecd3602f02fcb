"""Settings that TRL takes unread, and that fail or mislead only when the training has begun."""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from accelerate.utils import DynamoBackend
from torch.utils.checkpoint import checkpoint
from transformers import GenerationConfig
from transformers.utils import is_liger_kernel_available

from maxatk.check import one_of, require
from maxatk.errors import InvalidValueError, MissingDependencyError, suggestion, unknown_name
from maxatk.train.optimizer_checks import check_optimizer


class Range(NamedTuple):
    """What is allowed, in words and as a test of a number."""

    allowed: str
    holds: Callable[[float], bool]
    of_integers: bool = False


def _integers(least: int, most: int) -> Range:
    allowed = f"a whole number from {least} to {most:,}"
    return Range(allowed, lambda number: least <= number <= most, of_integers=True)


_POSITIVE = Range("positive and finite", lambda number: 0 < number < math.inf)
_FROM_ZERO = Range("finite and not negative", lambda number: 0 <= number < math.inf)
_SHARE = Range("from 0 to 1", lambda number: 0 <= number <= 1)
_BELOW_ONE = Range("from 0 and below 1", lambda number: 0 <= number < 1)
# TRL cuts the ratio itself at this bound. At 1 or below it cuts every ratio of an on-policy step,
# and samples with a positive advantage have no gradient.
_BOUND_OF_RATIO = Range(
    "above 1 and finite: it bounds the ratio itself, unlike epsilon, which is a distance from 1",
    lambda number: 1 < number < math.inf,
)
_SHARE_ABOVE_ZERO = Range("above 0 and at most 1", lambda number: 0 < number <= 1)

_LARGEST_INDEX = 2**31 - 1  # of a place in a list or a tensor; beyond 64 bits they overflow
_SEED = _integers(0, 2**32 - 1)  # NumPy, which TRL seeds too, takes no other
_COUNT = _integers(1, _LARGEST_INDEX)
# Of 0 transformers makes all epochs.
_STEPS = Range(
    "a whole number from 1, or -1 for as many as the epochs have",
    lambda number: number == -1 or _COUNT.holds(number),
    of_integers=True,
)

RANGES: Mapping[str, Range] = {
    "seed": _SEED,
    "data_seed": _SEED,
    "max_steps": _STEPS,
    "num_train_epochs": _POSITIVE,
    "num_iterations": _COUNT,
    "max_completion_length": _COUNT,
    "max_tool_calling_iterations": _integers(0, _LARGEST_INDEX),
    "pad_to_multiple_of": _COUNT,
    "dataloader_num_workers": _integers(0, 1024),  # processes, of which torch starts all at once
    "dataloader_prefetch_factor": _COUNT,
    "learning_rate": _FROM_ZERO,
    "weight_decay": _FROM_ZERO,
    "adam_beta1": _BELOW_ONE,
    "adam_beta2": _BELOW_ONE,
    "adam_epsilon": _FROM_ZERO,
    "temperature": _POSITIVE,
    "top_p": _SHARE_ABOVE_ZERO,
    "top_k": _integers(-1, _LARGEST_INDEX),
    "min_p": _SHARE,
    "repetition_penalty": _POSITIVE,
    "beta": _FROM_ZERO,
    "epsilon": _FROM_ZERO,
    "epsilon_high": _FROM_ZERO,
    "delta": _BOUND_OF_RATIO,
    "sapo_temperature_pos": _POSITIVE,
    "sapo_temperature_neg": _POSITIVE,
    "top_entropy_quantile": _SHARE,
    "max_grad_norm": _FROM_ZERO,
    "ref_model_sync_steps": _COUNT,
    "ref_model_mixup_alpha": _SHARE,
}
"""What numbers are allowed by the name of the setting, where it is not None."""

# Keys of `generation_kwargs` that would change the group of a prompt behind the trainer's back.
_ONE_SAMPLE_A_ROW = {"do_sample": True, "num_beams": 1, "num_return_sequences": 1, "n": 1}
# Keys that TRL's call of `generate` fails at or does not follow, and why.
_NOT_FOLLOWED_BY_TRL = {
    "stop_strings": "left out: `generate` needs a tokenizer for it, and TRL gives it none",
    "return_dict_in_generate": "left out: TRL reads the tokens that `generate` returns alone",
    "max_length": "left out: the setting max_completion_length says how long a completion gets",
}


def check_unread(config: Any) -> None:
    """Refuse settings that any trainer of TRL would take, and fail or mislead by later.

    Raises InvalidValueError, and MissingDependencyError for an optimizer that is not installed.
    """
    _check_numbers(config)
    _check_saving(config)
    _check_kernels(config)
    _check_recomputation(config)
    check_optimizer(config)


def _check_numbers(config: Any) -> None:
    """Refuse numbers outside of their ranges, of those that the settings have."""
    for name, allowed in RANGES.items():
        value = getattr(config, name, None)
        require(value is None or _is_in(value, allowed), name, allowed.allowed, value)


def _is_in(value: Any, allowed: Range) -> bool:
    if isinstance(value, bool):
        return False
    if allowed.of_integers:
        return isinstance(value, int) and allowed.holds(value)
    return isinstance(value, numbers.Real) and allowed.holds(float(value))


def _check_saving(config: Any) -> None:
    """Refuse settings with which transformers writes no checkpoints, or fails at the start."""
    if config.save_strategy == "steps":
        allowed = "above 0 with save_strategy 'steps'; save_strategy 'no' writes no checkpoints"
        require(config.save_steps > 0, "save_steps", allowed, config.save_steps)
    is_known = config.save_strategy != "best" or config.metric_for_best_model is not None
    allowed = "'no', 'steps' or 'epoch' without a metric_for_best_model"
    require(is_known, "save_strategy", allowed, str(config.save_strategy.value))


def _check_kernels(config: Any) -> None:
    """Refuse a compiler that there is not, and kernels that are not installed."""
    if config.torch_compile:
        backends = [backend.value.lower() for backend in DynamoBackend]
        one_of("torch_compile_backend", str(config.torch_compile_backend).lower(), backends)
    if config.use_liger_kernel and not is_liger_kernel_available():
        raise MissingDependencyError(
            "use_liger_kernel: needs the package liger-kernel: pip install liger-kernel"
        )


def _check_recomputation(config: Any) -> None:
    """Refuse arguments of gradient checkpointing at which the first backward pass would fail."""
    if not config.gradient_checkpointing:
        return
    parameters = inspect.signature(checkpoint).parameters.values()
    torch_arguments = [
        parameter.name
        for parameter in parameters
        if parameter.default is not inspect.Parameter.empty
    ]
    allowed = {*torch_arguments, "preserve_rng_state", "selective"}  # the last is TRL's
    for name in config.gradient_checkpointing_kwargs or {}:
        if name not in allowed:
            raise unknown_name("gradient_checkpointing_kwargs", name, sorted(allowed))


def check_generation(config: Any) -> None:
    """Refuse keys of `generation_kwargs` by which samples are not those that are trained on.

    Refuse also those that `generate`, or vLLM with `use_vllm`, would fail at or ignore.
    """
    for name, value in (config.generation_kwargs or {}).items():
        field = f"generation_kwargs.{name}"
        if name in RANGES:
            allowed = RANGES[name]
            require(_is_in(value, allowed), field, allowed.allowed, value)
        if name in _ONE_SAMPLE_A_ROW:
            only = _ONE_SAMPLE_A_ROW[name]
            why = f"{only!r}: each row of a batch is one sample of the policy"
            require(value == only, field, why, value)
        if name == "temperature":
            trained = config.temperature
            why = f"that of the setting temperature, {trained!r}, at which probabilities are taken"
            require(value == trained, field, why, value)
    if config.use_vllm:
        _check_vllm(config.generation_kwargs or {}, config.max_completion_length)
    else:
        _check_generate(config.generation_kwargs or {})
        _check_cache(config.cache_implementation)


def _check_generate(settings: Mapping[str, Any]) -> None:
    _refuse_unknown_keys(settings, vars(GenerationConfig()))
    for name, allowed in _NOT_FOLLOWED_BY_TRL.items():
        require(
            settings.get(name) is None, f"generation_kwargs.{name}", allowed, settings.get(name)
        )
    try:
        GenerationConfig(**settings)
    except (ValueError, TypeError) as error:
        raise InvalidValueError(f"generation_kwargs: {error}") from error


def _check_cache(name: str | None) -> None:
    try:
        GenerationConfig(cache_implementation=name)
    except (ValueError, TypeError) as error:
        raise InvalidValueError(f"cache_implementation: {error}") from error


def _check_vllm(settings: Mapping[str, Any], max_tokens: int | None) -> None:
    """Refuse keys and values that vLLM does not take beside TRL's own, where it is installed."""
    if not settings:
        return
    try:
        from vllm import SamplingParams
    except ImportError:  # without it no training begins
        return
    _refuse_unknown_keys(settings, inspect.signature(SamplingParams).parameters)
    # TRL makes an object of vLLM of this one.
    values = {name: value for name, value in settings.items() if name != "structured_outputs"}
    try:
        SamplingParams(**{"max_tokens": max_tokens, **values})
    except (ValueError, TypeError) as error:
        raise InvalidValueError(f"generation_kwargs: {error}") from error


def _refuse_unknown_keys(settings: Mapping[str, Any], known: Collection[str]) -> None:
    for name in settings:
        if name not in known:
            raise InvalidValueError(
                f"generation_kwargs: unknown key {name!r}{suggestion(name, known)}"
            )


def check_cispo(config: Any) -> None:
    """Refuse a bound of CISPO below 1: TRL bounds the ratio itself by it, and not by 1 + it."""
    if config.loss_type != "cispo":
        return
    name = "epsilon_high" if config.epsilon_high is not None else "epsilon"
    bound = getattr(config, name)
    allowed = "1 or more with loss_type 'cispo', whose ratios it bounds itself (5.0 is usual)"
    if name == "epsilon":
        allowed = f"{allowed}, and stands in for an epsilon_high that is not given"
    require(bound >= 1, name, allowed, bound)
