"""The reward functions that a trainer of TRL is given, checked before any weights are loaded."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from typing import Any

from torch import nn
from trl.trainer.utils import get_callable_name

from maxatk.check import is_finite, one_of, require
from maxatk.errors import InvalidValueError, counted
from maxatk.train.config import MaxAtKConfig
from maxatk.train.rollout_batch import refuse_best_of
from maxatk.train.signal_groups import refuse_unknown_part

# What TRL calls a reward function with, beside the columns of the data set.
_GIVEN_TO_REWARDS = (
    "prompts",
    "completions",
    "completion_ids",
    "trainer_state",
    "log_extra",
    "log_metric",
)


def check_rewards(
    config: MaxAtKConfig,
    reward_funcs: Any,
    *,
    has_environment: bool,
) -> None:
    """Refuse what is no reward function, or what settings do not go with.

    An environment may bring a reward function of its own, which nobody knows before the trainer has
    made one: with an environment the names and the number of rewards are left to the trainer.
    """
    functions = _as_functions(reward_funcs)
    for function in functions:
        is_reward = isinstance(function, (str, nn.Module)) or callable(function)
        allowed = "a function, a model or the name of one, or a list of these"
        require(is_reward, "reward_funcs", allowed, function)
    refuse_best_of(functions)
    _check_weights(config.reward_weights, len(functions))
    if not has_environment:
        allowed = "a reward function, or several, unless an environment has get_reward"
        require(bool(functions), "reward_funcs", allowed, None)
        names = [_name_of(function) for function in functions]
        _warn_of_one_name(names)
        place_of_selection(config.selection, names)
        refuse_unknown_part(config.groups_with_signal, functions, names)


def place_of_selection(selection: str | None, names: Sequence[str]) -> int | None:
    """Return the place of the reward function that selects among their names; None for none."""
    if selection is None:
        return None
    one_of("selection", selection, names)
    allowed = "one of several reward functions, whose others are the reward"
    require(len(names) > 1, "selection", allowed, selection)
    require(names.count(selection) == 1, "selection", "the name of one function alone", selection)
    return names.index(selection)


def _as_functions(reward_funcs: Any) -> list[Any]:
    """Return the reward functions of TRL's argument, which is one, a list or None."""
    if reward_funcs is None:
        return []
    return reward_funcs if isinstance(reward_funcs, list) else [reward_funcs]


def check_calls(reward_funcs: Any, columns: Sequence[str] | None, *, called: str) -> None:
    """Refuse functions that TRL could not call by the names of arguments, once it has sampled.

    `columns` are those of the data set `called` so, None where nobody knows them.
    """
    if columns is None:
        return
    data_columns = [name for name in columns if name not in ("prompt", "completion")]
    named = dict.fromkeys([*_GIVEN_TO_REWARDS, *data_columns])
    for function in _as_functions(reward_funcs):
        if isinstance(function, (str, nn.Module)):
            continue
        try:
            signature = inspect.signature(function)
        except ValueError:  # of a builtin
            continue
        try:
            signature.bind(**named)
        except TypeError as error:
            raise InvalidValueError(
                f"reward_funcs: {_name_of(function)}: {error}; with {called} it is "
                f"called with {', '.join(named)}; allowed: a function that names some of them "
                "and takes the others as **columns"
            ) from error


def _check_weights(weights: Sequence[float] | None, functions: int) -> None:
    if weights is None:
        return
    one_each = len(weights) == functions and all(map(is_finite, weights))
    allowed = f"{counted(functions, 'finite number')}, one a reward function"
    require(one_each, "reward_weights", allowed, weights)


def _name_of(function: Any) -> str:
    """Return what TRL calls a reward function: a model by the end of its name."""
    if isinstance(function, str):
        return function.split("/")[-1]
    if isinstance(function, nn.Module):
        model_id: str = getattr(function.config, "_name_or_path", "")
        return model_id.split("/")[-1]
    name: str = get_callable_name(function)
    return name


def _warn_of_one_name(names: Sequence[str]) -> None:
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        warnings.warn(
            f"reward_funcs: several are called {twice[0]!r}, by which the log and the record know "
            "them: they show a mean of them, or one of them; give each a name of its own",
            stacklevel=6,
        )
