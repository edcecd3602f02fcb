"""Settings that TRL takes unread, and that fail or mislead only when the training has begun."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from maxatk.check import require


class Range(NamedTuple):
    """What is allowed, in words and as a test of a number."""

    allowed: str
    holds: Callable[[float], bool]


_POSITIVE = Range("positive and finite", lambda number: 0 < number < math.inf)
_FROM_ZERO = Range("finite and not negative", lambda number: 0 <= number < math.inf)
_SHARE = Range("from 0 to 1", lambda number: 0 <= number <= 1)
_SHARE_ABOVE_ZERO = Range("above 0 and at most 1", lambda number: 0 < number <= 1)

RANGES: Mapping[str, Range] = {
    "learning_rate": _FROM_ZERO,
    "temperature": _POSITIVE,
    "top_p": _SHARE_ABOVE_ZERO,
    "min_p": _SHARE,
    "repetition_penalty": _POSITIVE,
    "beta": _FROM_ZERO,
    "epsilon": _FROM_ZERO,
    "epsilon_high": _FROM_ZERO,
    "delta": _POSITIVE,
    "sapo_temperature_pos": _POSITIVE,
    "sapo_temperature_neg": _POSITIVE,
    "top_entropy_quantile": _SHARE,
    "max_grad_norm": _FROM_ZERO,
}
"""What numbers are allowed by the name of the setting, where it is not None."""

# Keys of `generation_kwargs` that would change the group of a prompt behind the trainer's back.
_ONE_SAMPLE_A_ROW = {"do_sample": True, "num_beams": 1, "num_return_sequences": 1, "n": 1}


def check_numbers(config: Any) -> None:
    """Refuse numbers outside of their ranges, of those that the settings have."""
    for name, (allowed, holds) in RANGES.items():
        value = getattr(config, name, None)
        require(value is None or _is_in(value, holds), name, allowed, value)


def _is_in(value: Any, holds: Callable[[float], bool]) -> bool:
    is_real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return is_real and holds(float(value))


def check_generation(config: Any) -> None:
    """Refuse keys of `generation_kwargs` by which samples are not those that are trained on."""
    for name, value in (config.generation_kwargs or {}).items():
        field = f"generation_kwargs.{name}"
        if name in RANGES:
            allowed, holds = RANGES[name]
            require(_is_in(value, holds), field, allowed, value)
        if name in _ONE_SAMPLE_A_ROW:
            only = _ONE_SAMPLE_A_ROW[name]
            why = f"{only!r}: each row of a batch is one sample of the policy"
            require(value == only, field, why, value)
        if name == "temperature":
            trained = config.temperature
            why = f"that of the setting temperature, {trained!r}, at which probabilities are taken"
            require(value == trained, field, why, value)


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
