"""Reward functions whose values make an unmodified GRPO trainer train for the best of k samples."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, get_args

import numpy as np

from maxatk.check import as_path, is_finite, require, several
from maxatk.errors import InvalidValueError, counted
from maxatk.objectives.advantage import advantages
from maxatk.objectives.checks import as_k
from maxatk.objectives.methods import Method, as_method
from maxatk.objectives.objective import Objective
from maxatk.objectives.rollouts import RolloutReward
from maxatk.training.best_of_record import BestOfRecord
from maxatk.training.best_of_trl import refuse_environments
from maxatk.training.best_of_values import BestOfValues, Values

Reward: TypeAlias = Callable[..., "Values | Awaitable[Values]"]

MARK = "maxatk_best_of"  # the attribute of the functions that `best_of` made

_LEAST_PROBED = 7  # samples of the group that tells whether the advantages of a method sum to 0


def best_of(
    reward: Reward | Sequence[Reward],
    *,
    k: int,
    method: str | Method = "bon_centred",
    weights: Sequence[float] | None = None,
    groups: str | None = None,
    rollouts: str | None = None,
    rollout_reward: RolloutReward | None = None,
    folder: str | Path | None = None,
) -> Reward:
    """Return a reward function that makes GRPO train for max@k of `reward` instead of its mean.

    Its values are n A_i with the method's advantages A_i in groups of n samples, which sum to 0: a
    GRPO that does not divide by the deviation (TRL: `scale_rewards="none"`) takes them as its own.
    TRL's log gets the reward, max@k and the share of groups without signal.

    Args:
        reward: A function `(prompts, completions, **columns) -> list of float or None`, plain or
            async, or several, of which the weighted sum counts (without those that are None).
        k: The number of samples whose best one counts, below the size of the groups. Where TRL
            evaluates with fewer samples, max@k of these is that of as many as they allow.
        method: One whose advantages sum to 0 in every group, as with the baseline "remove_one".
        weights: One finite number for each of several rewards; 1 each if not given.
        groups: The column whose runs of equal values are whole groups; the prompts if not given.
        rollouts: The column with the rollout of each row, where a rollout has several rows. Then n
            counts rollouts, and every row gets the value of its rollout. The trainer has to take
            the values as they are, since their mean over the rows of a group is not 0. Without
            `groups` the rows of a rollout must follow each other.
        rollout_reward: As for `advantages`, where the rows of a rollout have different rewards.
        folder: Where groups.jsonl is written, which `maxatk view` and `maxatk diagnose` read: the
            first groups of every step, and the log. One function has it for itself.

    Raises InvalidValueError for arguments that are not allowed, such as a reward that `best_of` has
    made; the function for groups that are split, of different sizes or of k samples or fewer, for
    values other than one finite number or None a completion, and for a trainer that shows that it
    divides by the deviation.
    Source: "The Best of N Worlds", section 4.3; OrderGrad (2606.06096) has (n/k) A_i.
    """
    functions = _functions(reward)
    for name, column in (("groups", groups), ("rollouts", rollouts)):
        is_name = column is None or isinstance(column, str)
        require(is_name, f"best_of: {name}", "None or the name of a column", column)
    is_rule = rollout_reward is None or rollout_reward in get_args(RolloutReward)
    allowed = f"None or one of {get_args(RolloutReward)}"
    require(is_rule, "best_of: rollout_reward", allowed, rollout_reward)
    is_of_rollouts = rollout_reward is None or rollouts is not None
    require(is_of_rollouts, "best_of: rollout_reward", "None without rollouts", rollout_reward)
    values = BestOfValues(
        names=[str(getattr(f, "__name__", type(f).__name__)) for f in functions],
        weights=_weights(weights, len(functions)),
        method=_centred(as_method(method), as_k(k)),
        k=k,
        groups=groups,
        rollouts=rollouts,
        rollout_reward=rollout_reward,
        record=None if folder is None else _record(folder, method, k, rollouts=rollouts),
    )
    return _reward_function(functions, values)


def _reward_function(functions: Sequence[Any], values: BestOfValues) -> Reward:
    """Return a function that calls others and returns their values, async where one of them is."""

    def plain(prompts: Any, completions: Any, **columns: Any) -> Values:
        refuse_environments(columns)
        returned = [f(prompts=prompts, completions=completions, **columns) for f in functions]
        return values.for_grpo(returned, prompts, completions, columns)

    async def waiting(prompts: Any, completions: Any, **columns: Any) -> Values:
        import asyncio  # here, so that `import maxatk` stays as light as NumPy

        refuse_environments(columns)
        started = [f(prompts=prompts, completions=completions, **columns) for f in functions]
        returned = await asyncio.gather(*map(_value, started))
        return values.for_grpo(returned, prompts, completions, columns)

    # An object is called by its class's method, which may be async while the object is not.
    called = [*functions, *(function.__call__ for function in functions)]
    wrapped: Reward = waiting if any(map(inspect.iscoroutinefunction, called)) else plain
    wrapped.__name__ = f"best_of_{values.k}_{'_'.join(values.names)}"
    vars(wrapped)[MARK] = True
    return wrapped


async def _value(returned: Any) -> Any:
    return await returned if inspect.isawaitable(returned) else returned


def _functions(reward: Reward | Sequence[Reward]) -> tuple[Any, ...]:
    """Return the one or several reward functions; raise InvalidValueError for what is none."""
    functions: tuple[Any, ...] = (reward,)
    if isinstance(reward, Sequence) and not isinstance(reward, str):
        functions = tuple(reward)
    require(bool(functions), "best_of: reward", "at least one function", reward)
    for function in functions:
        require(callable(function), "best_of: reward", "a function", function)
        if hasattr(function, MARK):
            raise InvalidValueError(
                f"best_of: reward: {function.__name__} was made by best_of, so that its values are "
                "advantages; allowed: the reward that it was given"
            )
    return functions


def _record(
    folder: str | Path, method: str | Method, k: int, *, rollouts: str | None
) -> BestOfRecord:
    """Return the record of a folder; raise InvalidValueError for what it cannot say."""
    allowed = "None with `rollouts`, whose rows are not recorded"
    require(rollouts is None, "best_of: folder", allowed, folder)
    allowed = "the name of a method where a folder is given, for the record"
    require(isinstance(method, str), "best_of: method", allowed, method)
    path = as_path("best_of: folder", folder)
    require(path.is_dir() or not path.exists(), "best_of: folder", "a folder", str(folder))
    return BestOfRecord(path, Objective(method=str(method), k=k))


def _weights(weights: Sequence[float] | None, functions: int) -> list[float]:
    """Return the weight of each function; raise InvalidValueError for other than one each."""
    if weights is None:
        return [1.0] * functions
    several("best_of: weights", weights, "finite numbers, one a reward")
    listed = list(weights)
    one_each = len(listed) == functions and all(map(is_finite, listed))
    allowed = f"{counted(functions, 'finite number')}, one a reward"
    require(one_each, "best_of: weights", allowed, weights)
    return listed


def _centred(method: Method, k: int) -> Method:
    """Return a method whose advantages sum to 0 in a group of distinct and of tied rewards."""
    if method.credit_row.needs_answers:
        raise InvalidValueError(f"best_of: method: {method.credit!r} needs answers beside rewards")
    samples = max(_LEAST_PROBED, method.samples_needed(k) + 1)
    rewards = np.random.default_rng(0).random((4, samples)).round(1) + 0.5
    probed = advantages(rewards, method, k)
    rounding = 1e-9 * samples * max(1.0, np.abs(probed).max())
    if np.abs(probed.sum(axis=1)).max() > rounding:
        raise InvalidValueError(
            f"best_of: method: the advantages of {method.credit!r} with the baseline "
            f"{method.baseline!r} do not sum to 0 in a group, so that a trainer that subtracts the "
            "group's mean would change them; allowed: those with the baseline 'remove_one'"
        )
    return method
