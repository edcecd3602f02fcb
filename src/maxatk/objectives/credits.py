"""The credits: what a sample's part in its group is worth, one row of `CREDITS` each.

A credit of order weights goes with every baseline that has a rule. Any other has a formula for
each baseline that it goes with: credit minus baseline, (P, n), of rewards r_i in ascending order.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import numpy as np

from maxatk.objectives import answers
from maxatk.objectives.checks import FloatArray
from maxatk.objectives.group import Group, centred
from maxatk.objectives.influence import leave_one_out
from maxatk.objectives.order import OrderWeights

Formula: TypeAlias = Callable[[Group], FloatArray]
Scale: TypeAlias = Literal["none", "std", "mean", "subset_std"]


def reward(group: Group) -> FloatArray:
    """Return r_i."""
    return group.rewards


def reward_above_mean(group: Group) -> FloatArray:
    """Return r_i - mean of the group (GRPO, eq. (5); Dr. GRPO, 2503.20783)."""
    return group.centred_rewards


def reward_above_others(group: Group) -> FloatArray:
    """Return r_i - mean of the other samples (RLOO, 2402.14740): n/(n-1) times the above."""
    n = group.rewards.shape[-1]
    above: FloatArray = group.centred_rewards * (n / (n - 1))
    return above


def best(group: Group) -> FloatArray:
    """Return r_i where it is the largest reward of the group, else 0 (appendix A)."""
    return _of_best(group, group.rewards)


def best_above_mean(group: Group) -> FloatArray:
    """Return r_i - mean of the group where r_i is the largest, else 0 (BoN-max-mean)."""
    return _of_best(group, group.centred_rewards)


def best_above_second(group: Group) -> FloatArray:
    """Return r_i - second best distinct reward where r_i is the largest, else 0 (BoN-max-second).

    Where all rewards are equal there is no second, and all have 0.
    """
    top = group.rewards[:, -1:]
    second = np.where(group.rewards == top, -np.inf, group.rewards).max(axis=-1, keepdims=True)
    return _of_best(group, group.rewards - np.where(np.isfinite(second), second, top))


def _of_best(group: Group, values: FloatArray) -> FloatArray:
    return np.where(group.rewards == group.rewards[:, -1:], values, 0.0)


def entropic_above_mean(group: Group) -> FloatArray:
    """Return (e^(b r_i) / sum_j e^(b r_j) - 1/n) / b, b the inverse temperature (RS-GRPO).

    Their convention is n times this. It is a ratio of sums, hence biased. Source: 2509.24261.
    """
    weights = np.exp(group.beta * (group.rewards - group.rewards[:, -1:]))
    return centred(weights / weights.sum(axis=-1, keepdims=True)) / group.beta


def entropic_remove_one(group: Group) -> FloatArray:
    """Return log mean e^(b r) / b of all minus the same of the others, b the inverse temperature.

    Source: 2509.24261, made unbiased.
    """
    n = group.rewards.shape[-1]
    shifted = group.beta * (group.rewards - group.rewards[:, -1:])
    # The others are summed from both sides of the sample, so that nothing cancels.
    before = _log_sums_before(shifted)
    after = _log_sums_before(shifted[:, ::-1])[:, ::-1]
    others_sum = np.logaddexp(before, after)
    group_sum = np.logaddexp(others_sum[:, :1], shifted[:, :1])
    above: FloatArray = (group_sum - others_sum - np.log(n / (n - 1))) / group.beta
    return above


def _log_sums_before(values: FloatArray) -> FloatArray:
    """Return log sum e^value over the values before each place of a row, (P, n)."""
    before = np.pad(values, [(0, 0), (1, 0)], constant_values=-np.inf)[:, :-1]
    sums: FloatArray = np.logaddexp.accumulate(before, axis=1)
    return sums


@dataclasses.dataclass(frozen=True, kw_only=True)
class Credit:
    """What a credit is the credit for, and what goes with it."""

    statistic: str  # what its expectation is, in words; "" for none
    order: Callable[[int], OrderWeights] | None = None  # its order weights for a k, or:
    formulas: Mapping[str, Formula] = dataclasses.field(default_factory=dict)
    """Credit minus baseline, (P, n), by the name of the baseline."""
    uses_k: bool = False  # the k of a call has a meaning
    needs_answers: bool = False  # it looks at answers beside the rewards
    keeps_level: bool = False  # equal rewards do not give 0
    per_sample: bool = False  # the mean of A_i grad log pi(y_i) is the estimate, not the sum
    scales: tuple[Scale, ...] = ("none", "std")
    first_order: bool = False  # section 3.3 expands it in the ratios


# Building the weights of a large k takes longer than using them.
_cached = functools.lru_cache(256)

CREDITS: Mapping[str, Credit] = {
    "reward": Credit(
        statistic="mean reward",
        formulas={
            "none": reward,
            "mean": reward_above_mean,
            "leave_one_out": reward_above_others,
        },
        per_sample=True,
        scales=("none", "std", "mean"),
    ),
    "best": Credit(
        statistic="",
        formulas={
            "none": best,
            "mean": best_above_mean,
            "second_best": best_above_second,
        },
    ),
    "max_at_k": Credit(
        statistic="max@k",
        order=_cached(OrderWeights.max),
        uses_k=True,
        scales=("none", "std", "subset_std"),
        first_order=True,
    ),
    "min_at_k": Credit(
        statistic="min@k",
        order=_cached(OrderWeights.min),
        uses_k=True,
    ),
    "any_k": Credit(
        statistic="mean of max@1 to max@k",
        order=_cached(OrderWeights.any_k),
        uses_k=True,
    ),
    "harmonic": Credit(
        statistic="sum of max@j / j, j up to n",
        order=_cached(lambda _: OrderWeights.harmonic()),
    ),
    "majority": Credit(
        statistic="reward of the plurality answer of k",
        formulas=answers.formulas(answers.majority_chances),
        uses_k=True,
        needs_answers=True,
        scales=("none",),
    ),
    "distinct": Credit(
        statistic="sum of the rewards of the different answers of k",
        formulas=answers.formulas(answers.distinct_chances),
        uses_k=True,
        needs_answers=True,
        keeps_level=True,
        scales=("none",),
    ),
    "entropic": Credit(
        statistic="log-mean-exp of n rewards",
        formulas={
            "mean": entropic_above_mean,
            "remove_one": entropic_remove_one,
        },
        scales=("none",),
    ),
}
"""The credits by name; a `Method` may also be given `OrderWeights` or a function of its own."""


def credit_of_weights(weights: OrderWeights) -> Credit:
    """Return the credit for a sum of weighted order statistics, whose k is that of the weights."""
    return Credit(statistic="sum of weighted order statistics", order=lambda _: weights)


def credit_of_function(function: Callable[..., float]) -> Credit:
    """Return the credit for a function of k rewards, and of codes of `answers` if it names them."""
    try:
        needs_answers = "answers" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # a builtin
        needs_answers = False
    return Credit(
        statistic=f"{getattr(function, '__name__', 'a function')} of k samples",
        formulas={"leave_one_out": functools.partial(leave_one_out, function)},
        uses_k=True,
        needs_answers=needs_answers,
        keeps_level=needs_answers,
        scales=("none",),
    )
