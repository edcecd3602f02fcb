"""Reward functions whose values make an unmodified GRPO trainer train for the best of k samples."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import math
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from maxatk.check import LARGEST, is_finite, require, returned_list, returned_number, shown
from maxatk.errors import InvalidValueError
from maxatk.objectives.advantage import advantages
from maxatk.objectives.checks import FloatArray, as_k
from maxatk.objectives.methods import Method, as_method, check_group_size
from maxatk.objectives.metrics import max_at_k
from maxatk.objectives.objective import Objective
from maxatk.objectives.rollouts import RolloutReward
from maxatk.training.best_of_record import BestOfRecord

Values: TypeAlias = "list[float | None]"
Reward: TypeAlias = Callable[..., "Values | Awaitable[Values]"]

MARK = "maxatk_best_of"  # the attribute of the functions that `best_of` made

BEFORE = "reward before best_of"
"""The column of TRL's logged completions with the rewards that `best_of` was given."""

_ALLOWED = {
    "scale_rewards": ("none", False),
    "multi_objective_aggregation": ("sum_then_normalize",),
}

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
        k: The number of samples whose best one counts, below the size of the groups.
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

    Raises InvalidValueError for arguments that are not allowed; the function for groups that are
    split, of different sizes or of k samples or fewer, for values other than one finite number or
    None a completion, and for a trainer that shows that it divides by the deviation.
    Source: "The Best of N Worlds", section 4.3; OrderGrad (2606.06096) has (n/k) A_i.
    """
    functions = _functions(reward)
    shares = [1.0] * len(functions) if weights is None else list(weights)
    one_each = len(shares) == len(functions) and all(map(is_finite, shares))
    require(one_each, "best_of: weights", f"{len(functions)} finite numbers, one a reward", weights)
    names = [str(getattr(f, "__name__", type(f).__name__)) for f in functions]
    is_rule = rollout_reward is None or rollout_reward in get_args(RolloutReward)
    allowed = f"None or one of {get_args(RolloutReward)}"
    require(is_rule, "best_of: rollout_reward", allowed, rollout_reward)
    rewards = _Rewards(
        names=names,
        shares=shares,
        method=_centred(as_method(method), as_k(k)),
        k=k,
        groups=groups,
        rollouts=rollouts,
        rollout_reward=rollout_reward,
        record=None if folder is None else _record(folder, method, k, rollouts=rollouts),
    )

    def plain(prompts: Any, completions: Any, **columns: Any) -> Values:
        _refuse_environments(columns)
        returned = [f(prompts=prompts, completions=completions, **columns) for f in functions]
        return rewards.for_grpo(returned, prompts, completions, columns)

    async def waiting(prompts: Any, completions: Any, **columns: Any) -> Values:
        import asyncio  # here, so that `import maxatk` stays as light as NumPy

        _refuse_environments(columns)
        started = [f(prompts=prompts, completions=completions, **columns) for f in functions]
        returned = await asyncio.gather(*map(_value, started))
        return rewards.for_grpo(returned, prompts, completions, columns)

    # An object is called by its class's method, which may be async while the object is not.
    called = [*functions, *(function.__call__ for function in functions)]
    wrapped: Reward = waiting if any(map(inspect.iscoroutinefunction, called)) else plain
    wrapped.__name__ = f"best_of_{k}_{'_'.join(names)}"
    vars(wrapped)[MARK] = True
    return wrapped


def _functions(reward: Reward | Sequence[Reward]) -> tuple[Any, ...]:
    """Return the one or several reward functions; raise InvalidValueError for what is none."""
    functions: tuple[Any, ...] = tuple(reward) if isinstance(reward, Sequence) else (reward,)
    require(bool(functions), "best_of: reward", "at least one function", reward)
    for function in functions:
        require(callable(function), "best_of: reward", "a function", function)
    return functions


def _record(
    folder: str | Path, method: str | Method, k: int, *, rollouts: str | None
) -> BestOfRecord:
    """Return the record of a folder; raise InvalidValueError for what it cannot say."""
    allowed = "None with `rollouts`, whose rows are not recorded"
    require(rollouts is None, "best_of: folder", allowed, folder)
    allowed = "the name of a method where a folder is given, for the record"
    require(isinstance(method, str), "best_of: method", allowed, method)
    return BestOfRecord(folder, Objective(method=str(method), k=k))


@dataclasses.dataclass(frozen=True)
class _Rewards:
    """What `best_of` was given, and how it makes GRPO's values of what the functions returned."""

    names: list[str]
    shares: list[float]
    method: Method
    k: int
    groups: str | None
    rollouts: str | None
    rollout_reward: RolloutReward | None
    record: BestOfRecord | None

    def for_grpo(self, returned: Any, prompts: Any, completions: Any, columns: Any) -> Values:
        """Return n A_i of each completion, None for one without a reward."""
        ids = prompts if self.groups is None else _column("groups", self.groups, columns)
        by_function = [
            _numbers(name, values, len(completions))
            for name, values in zip(self.names, returned, strict=True)
        ]
        rewards = _weighted_sum(by_function, self.shares)
        if self.rollouts is None:
            size = _size_of_groups(ids, len(rewards), _samples_shown(columns))
            values = self._of_samples(rewards, size, columns)
            if self.record is not None and _is_training(columns):
                self.record.add(
                    rewards.reshape(-1, size),
                    values.reshape(-1, size),
                    prompts=prompts,
                    completions=completions,
                    columns=columns,
                )
        else:
            values = self._of_rollouts(rewards, ids, columns)
        values[np.isnan(rewards)] = np.nan
        return [None if math.isnan(value) else value for value in values.tolist()]

    def _of_samples(self, rewards: FloatArray, size: int, columns: Any) -> FloatArray:
        """Return n A_i (N,) where every row is a sample of a group of so many; log the groups."""
        self._check_size(size)
        table = rewards.reshape(-1, size)
        values = size * advantages(table, self.method, self.k)
        silent = (values == 0).all(axis=1)
        _log(columns, rewards, max_at_k(table, self.k), silent, k=self.k)
        return values.ravel()

    def _check_size(self, size: int) -> None:
        """Raise InvalidValueError where groups of this size are too small."""
        if self.method.credit_row.uses_k and self.k >= size:
            raise InvalidValueError(
                f"best_of: k: must be below the samples of a prompt (num_generations), got "
                f"k={self.k} with {size} samples"
            )
        check_group_size(self.method, self.k, size)

    def _of_rollouts(self, rewards: FloatArray, ids: Any, columns: Any) -> FloatArray:
        """Return n A_i (N,) where a rollout may have several rows and n counts rollouts."""
        _samples_shown(columns)  # for its refusals: rows say nothing of the number of rollouts
        rollouts = _rollouts(_column("rollouts", self.rollouts, columns))
        _check_length("groups", ids, len(rewards))
        _check_length("rollouts", rollouts, len(rewards))
        group_of_row: list[int] = []
        rollouts_of_group: list[int] = []
        pairs = zip(ids, rollouts, strict=True)
        for group, (_, run) in enumerate(itertools.groupby(pairs, key=_id_of_group)):
            rollouts_of_rows = [rollout for _, rollout in run]
            if self.groups is None:
                _refuse_return(rollouts_of_rows)
            group_of_row += [group] * len(rollouts_of_rows)
            rollouts_of_group.append(len(set(rollouts_of_rows)))
        size = rollouts_of_group[0]
        if set(rollouts_of_group) != {size}:
            raise InvalidValueError(
                "best_of: must be called with groups of one size, got groups of "
                f"{rollouts_of_group} rollouts"
            )
        self._check_size(size)
        values = size * advantages(
            rewards,
            self.method,
            self.k,
            groups=group_of_row,
            rollouts=rollouts,
            rollout_reward=self.rollout_reward,
        )
        best = max_at_k(
            rewards,
            self.k,
            groups=group_of_row,
            rollouts=rollouts,
            rollout_reward=self.rollout_reward,
        )
        has_signal = np.zeros(len(rollouts_of_group), dtype=bool)
        np.logical_or.at(has_signal, group_of_row, values != 0)
        _log(columns, rewards, best, ~has_signal, k=self.k)
        return values


def _refuse_environments(columns: Any) -> None:
    """Raise InvalidValueError beside an environment of TRL whose own reward would be added."""
    for environment in columns.get("environments") or ():
        if callable(getattr(environment, "get_reward", None)):
            name = type(environment).__name__
            raise InvalidValueError(
                f"best_of: {name}.get_reward: TRL would add this reward to the values, which are "
                "advantages; allowed: an environment without get_reward, and best_of of a function "
                "that reads the reward from the column `environments`"
            )


def _id_of_group(row: tuple[Any, Any]) -> Any:
    """Return the first of a row's two ids, that of its group and that of its rollout."""
    return row[0]


def _column(field: str, name: Any, columns: Any) -> Any:
    """Return the column that an argument names; raise InvalidValueError where it is not there."""
    if name not in columns:
        raise InvalidValueError(
            f"best_of: {field}: no column {name!r}; there are {', '.join(columns)}"
        )
    return columns[name]


def _check_length(field: str, ids: Any, expected: int) -> None:
    """Raise InvalidValueError where there is not one id for each completion."""
    if len(ids) != expected:
        raise InvalidValueError(f"best_of: {field}: {len(ids)} ids for {expected} completions")


def _rollouts(column: Any) -> list[Any]:
    """Return the ids of a column; raise InvalidValueError for what does not name a rollout."""
    ids = returned_list(column)
    if ids is None or not all(map(_is_hashable, ids)):
        allowed = "a list of hashable ids, one a completion"
        raise InvalidValueError(f"best_of: rollouts: must be {allowed}, got {shown(column)}")
    return ids


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _refuse_return(rollouts: list[Any]) -> None:
    """Raise InvalidValueError where a rollout comes back after others among equal prompts.

    That is a second group of the same prompt, whose ids begin anew, or rows in another order.
    """
    ended = set()
    for rollout, _ in itertools.groupby(rollouts):
        if rollout in ended:
            raise InvalidValueError(
                f"best_of: rollouts: {rollout!r} comes back after others in a run of equal "
                "prompts, which may be two groups; allowed: groups='column' with a column that "
                "tells the groups apart, or the rows of a rollout one after the other"
            )
        ended.add(rollout)


def _weighted_sum(by_function: list[FloatArray], shares: list[float]) -> FloatArray:
    """Return the weighted sum of the rewards that each completion has, NaN where it has none."""
    rewards: FloatArray = np.array(shares) @ np.nan_to_num(by_function)
    rewards[np.isnan(by_function).all(axis=0)] = np.nan
    return rewards


def _log(
    columns: Any, rewards: FloatArray, best: FloatArray, silent: npt.NDArray[np.bool_], *, k: int
) -> None:
    """Hand the reward, max@k and the share of silent groups to the log that TRL's columns offer."""
    log_extra = columns.get("log_extra")
    if log_extra is not None:
        log_extra(BEFORE, rewards.tolist())
    log_metric = columns.get("log_metric")
    if log_metric is None:
        return
    metrics = {"reward": rewards, f"max@{k}": best, "frac_groups_without_signal": silent}
    for name, values in metrics.items():
        finite = values[np.isfinite(values)]
        if finite.size:
            log_metric(f"best_of/{name}", float(finite.mean()))


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


async def _value(returned: Any) -> Any:
    return await returned if inspect.isawaitable(returned) else returned


def _numbers(name: str, values: Any, expected: int) -> FloatArray:
    """Return the values of one reward function (N,), NaN for None."""
    listed = returned_list(values)
    if listed is None or len(listed) != expected:
        got = repr(type(values).__name__) if listed is None else len(listed)
        raise InvalidValueError(
            f"best_of: {name} must return {expected} values, one a completion; got {got}"
        )
    rewards: FloatArray = np.full(expected, np.nan)
    for place, value in enumerate(listed):
        if value is None:
            continue
        number = returned_number(value)
        if number is None or abs(number) > LARGEST:
            raise InvalidValueError(
                f"best_of: {name} must return finite numbers or None, got {shown(value)}"
            )
        rewards[place] = number
    return rewards


def _size_of_groups(ids: Any, expected: int, samples: int | None) -> int:
    """Return the size of the groups, which are runs of equal ids.

    The number of samples a prompt, where it is known, tells two equal prompts in a row apart.
    """
    _check_length("groups", ids, expected)
    runs = [sum(1 for _ in run) for _, run in itertools.groupby(ids)]
    sizes = set(runs)
    if samples is not None:
        # A run of a multiple are several groups of one prompt.
        sizes = {run if run % samples else samples for run in runs}
    if len(sizes) != 1 or (samples is not None and sizes != {samples}):
        wanted = "groups of one size" if samples is None else f"whole groups of {samples}"
        raise InvalidValueError(
            f"best_of: must be called with {wanted}, got runs of {runs} equal prompts; the samples "
            "of a prompt must reach one call, one after the other, in one process"
        )
    return sizes.pop()


def _trainer(columns: Any) -> Any:
    """Return the trainer, which a bound method that TRL hands over shows; None where none does."""
    return getattr(columns.get("log_metric"), "__self__", None)


def _is_training(columns: Any) -> bool:
    """Say whether these samples are trained on, and are not those of an evaluation set."""
    return bool(getattr(getattr(_trainer(columns), "model", None), "training", True))


def _samples_shown(columns: Any) -> int | None:
    """Return the samples a prompt, where TRL's bound methods show the configuration: checked."""
    settings = columns.get("args") or getattr(_trainer(columns), "args", None)
    for name, allowed in _ALLOWED.items():
        value = getattr(settings, name, None)
        if value is not None and value not in allowed:
            raise InvalidValueError(
                f"best_of: {name}: must be {allowed[0]!r}, got {value!r}: a division by the "
                "deviation changes the weight of every group"
            )
    samples = getattr(settings, "num_generations", None)
    if not _is_training(columns):
        samples = getattr(settings, "num_generations_eval", None) or samples
    return samples if isinstance(samples, int) else None
