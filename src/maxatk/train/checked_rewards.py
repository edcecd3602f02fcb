"""Reward functions whose values are looked at before TRL makes a tensor of them.

TRL's own errors about a value name neither the function nor what it returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from trl.trainer.utils import is_async_callable

from maxatk.check import returned_rewards

LARGEST_REWARD: float = torch.finfo(torch.float32).max  # TRL's tensor of rewards holds no larger


def with_checked_values(functions: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """Return functions that return the values of others as floats, NaN for None; models stay.

    They raise InvalidValueError, with the name of the function, for anything but a list of one
    number that float32 holds, NaN or None a completion.
    """
    return [_checked(function, name) for function, name in zip(functions, names, strict=True)]


def _checked(function: Any, name: str) -> Any:
    if isinstance(function, nn.Module):
        return function

    def rewards(values: Any, completions: Sequence[Any]) -> list[float]:
        called = f"reward_funcs: {name}"
        return returned_rewards(values, len(completions), called=called, largest=LARGEST_REWARD)

    def plain(*, completions: Sequence[Any], **columns: Any) -> list[float]:
        return rewards(function(completions=completions, **columns), completions)

    async def waiting(*, completions: Sequence[Any], **columns: Any) -> list[float]:
        return rewards(await function(completions=completions, **columns), completions)

    return waiting if is_async_callable(function) else plain
