"""From the rewards of groups of samples to their advantages; `_of_groups` has the formula."""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from maxatk.check import is_number, one_of, require
from maxatk.errors import InvalidValueError
from maxatk.objectives.checks import FloatArray, as_floats, as_k, refuse_k_above
from maxatk.objectives.group import Group
from maxatk.objectives.layout import Layout
from maxatk.objectives.methods import Method, as_method, check_group_size
from maxatk.objectives.rollouts import RolloutLayout, RolloutReward, sample_layout
from maxatk.objectives.scales import divisors_of
from maxatk.objectives.subsets import shares_of_draws
from maxatk.objectives.symmetric import log_means

Form: TypeAlias = Literal["ppo", "reinforce"]

_LOG_RATIOS = (-36.0, 700.0)  # nats, beyond which exp is 0 or overflows float64
_OVERFLOW = "advantages: overflow; rewards or log_ratios are too large (a smaller clamp helps)"


def advantages(
    rewards: npt.ArrayLike,
    method: str | Method = "bon_loo1",
    k: int = 4,
    *,
    log_ratios: npt.ArrayLike | None = None,
    selection: npt.ArrayLike | None = None,
    answers: Any = None,
    groups: Any = None,
    rollouts: Any = None,
    rollout_reward: RolloutReward | None = None,
    form: Form = "ppo",
    clamp: float | None = 0.5,
) -> FloatArray:
    """Return the advantages (P, n), float64, of P groups of n samples: scale(credit - baseline).

    Args:
        rewards: (P, n), of any sign, NaN for a sample that could not be scored; or ragged lists,
            tensors, series, or flat with `groups`. The advantages have their form (ragged: a list
            of arrays; tensors: float32, same device).
        method: A name in `METHODS` or a `Method`.
        k: Size of the subsets, for a credit that has any.
        log_ratios: Log pi_theta - log pi_old of whole sequences, in nats, in the shape of the
            rewards; None stands for ratios of one.
        selection: Scores in the shape of the rewards, of which the highest in a subset selects its
            reward in place of the largest reward, ties at random.
        answers: Hashable answers in the shape of the rewards, for a credit that looks at them.
        groups: The group of each of the flat rewards, hashable, in any order.
        rollouts: The rollout of each row in the shape of the rewards, hashable and unique within
            its group, where a rollout has several rows. n counts rollouts, every row gets its
            rollout's advantage, and the log ratio of a rollout is the sum over its rows.
        rollout_reward: Which reward, score and answer a rollout has where its rows differ: those of
            the "last" row, or the "sum" of the rewards; None refuses rows that differ. Rows without
            a reward have no say in the reward, nor those without a score in the score.
        form: "ppo" leaves out the sample's own ratio, by which a surrogate multiplies;
            "reinforce" has it, for a loss -A_i log pi(y_i).
        clamp: Bound on |rho - 1|; None leaves the ratios as they are.

    The sum of A_i grad log pi(y_i) estimates the gradient of the statistic, as in eq. (9); for the
    credit "reward" their mean does, eq. (5). Unscorable samples have 0, and so have groups with too
    few scored ones, or of equal rewards unless the method keeps their level.

    Raises InvalidValueError for a k that is no integer from 1 or that n samples are too few for,
    wrong shapes, numbers that are not finite, unknown names, and a selection or answers that the
    method has no use for, or lacks.
    Source: "The Best of N Worlds", eq. (5), (9), (10), section 3.3, appendices A and E.
    """
    layout, rows = sample_layout(rewards, groups, rollouts, rollout_reward)
    method = as_method(method)
    size = as_k(k)
    _check(layout, method, selection, answers, form)
    check_group_size(method, size, layout.width)
    needed = method.samples_compared(size)
    layout.warn_of_fewer(needed, "their advantages are 0", depth=2)
    logs = None if log_ratios is None else layout.sums("log_ratios", log_ratios)
    scores = None if selection is None else layout.rows("selection", selection)
    if callable(method.credit):  # the order of the samples, in which no rank is favoured
        scores = np.broadcast_to(np.arange(float(layout.width)), rows.shape)
    codes = None if answers is None else layout.codes("answers", answers)
    all_groups = Group(
        rewards=rows,
        deltas=_clamped_deltas(rows, logs, clamp),
        k=size,
        weights=method.weights(size) or Group.weights,
        scores=scores,
        answers=codes,
        beta=method.inverse_temperature,
    )
    values = _of_rows(all_groups, needed, method, form, off_policy=logs is not None)
    restored: FloatArray = layout.of_samples(values)
    return restored


def _check(
    layout: Layout | RolloutLayout, method: Method, selection: Any, answers: Any, form: object
) -> None:
    """Raise InvalidValueError for a wrong shape or form, or a column that lacks or has no use."""
    if layout.places is None and (len(layout.shape) != 2 or layout.width == 0):
        wanted = "must have shape (prompts, samples), at least one sample"
        if len(layout.shape) == 1:
            wanted += ", or be flat with `groups`, the prompt of each"
        raise InvalidValueError(f"rewards: {wanted}, got {layout.shape}")
    one_of("form", form, get_args(Form))
    if selection is not None and method.credit_row.order is None:
        raise InvalidValueError(
            f"selection: the credit {method.credit!r} has no order of samples; allowed: None"
        )
    if method.credit_row.needs_answers == (answers is None):
        wanted = "are needed by" if answers is None else "have no use in"
        raise InvalidValueError(f"answers: {wanted} the credit {method.credit!r}")


def _clamped_deltas(rows: FloatArray, logs: FloatArray | None, clamp: float | None) -> FloatArray:
    """Return rho - 1 within the clamp, (P, n), 0 for unscorable samples; (1, 1) on-policy."""
    _check_clamp(clamp)
    if logs is None:
        return np.zeros((1, 1))
    logs = np.where(np.isnan(rows), 0.0, logs)
    _refuse_infinite(logs)
    deltas = np.expm1(np.clip(logs, *_LOG_RATIOS))
    clamped: FloatArray = deltas if clamp is None else np.clip(deltas, -clamp, clamp)
    return clamped


def _clamped_logs(logs: FloatArray, clamp: float | None) -> FloatArray:
    """Return log rho where |rho - 1| is within the clamp, (P, n)."""
    _check_clamp(clamp)
    _refuse_infinite(logs)
    if clamp is None:
        return logs
    least = math.log1p(-clamp) if clamp < 1 else -math.inf
    clamped: FloatArray = np.clip(logs, least, math.log1p(clamp))
    return clamped


def _check_clamp(clamp: float | None) -> None:
    allowed = clamp is None or (is_number(clamp) and clamp >= 0)
    require(allowed, "clamp", "a number >= 0 or None", clamp)


def _refuse_infinite(logs: FloatArray) -> None:
    wrong = ~np.isfinite(logs)
    if wrong.any():
        raise InvalidValueError(f"log_ratios: must be finite, got {logs[wrong][0]}")


def _of_rows(
    rows: Group, needed: int, method: Method, form: Form, *, off_policy: bool
) -> FloatArray:
    """Return the advantages (P, n) of samples in any order, 0 for those without a reward."""
    advantages = np.zeros(rows.rewards.shape)
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        for places, group in rows.scored(needed):
            advantages.ravel()[places] = _of_groups(group, method, form, off_policy=off_policy)
    if not np.isfinite(advantages).all():
        raise InvalidValueError(_OVERFLOW)
    return advantages


def _of_groups(group: Group, method: Method, form: Form, *, off_policy: bool) -> FloatArray:
    """Return (credit - baseline) / scale in a form, (P, n), and 0 for groups of equal rewards."""
    values, slopes = method.credit_minus_baseline(group, off_policy=off_policy)
    advantages = values + group.deltas * slopes if form == "reinforce" else values
    if method.scale != "none":
        divisors = divisors_of(group, method, values)
        if not np.isfinite(divisors).all():
            raise InvalidValueError(_OVERFLOW)
        advantages = advantages / np.where(divisors == 0, np.inf, divisors)
    # Equal rewards carry no signal; rounding, and a mean of unequal ratios, would leave some.
    if not method.keeps_level and group.equal.any():
        advantages = np.where(group.equal, 0.0, advantages)
    return advantages


def effective_sample_size(
    log_ratios: npt.ArrayLike, k: int, *, clamp: float | None = 0.5
) -> FloatArray:
    """Return the effective share of k-subsets, (mean rho(I))^2 / mean rho(I)^2: (P, n) to (P,).

    It is 1 on-policy and near 0 where few subsets carry the estimate. Errors as in `advantages`,
    but for ratios that are far apart, whose products have no float: their share has one.
    """
    size = as_k(k)
    logs = as_floats("log_ratios", log_ratios)
    if logs.ndim != 2:
        raise InvalidValueError(f"log_ratios: must have shape (prompts, samples), got {logs.shape}")
    refuse_k_above(size, logs.shape[1])
    logs = _clamped_logs(logs, clamp)
    logs = logs - logs.max(axis=-1, keepdims=True)  # a factor of all ratios changes no share
    both = np.concatenate([logs, 2 * logs])
    mean, mean_square = log_means(both, size).reshape(2, -1)  # one pass: its steps are the cost
    share: FloatArray = np.exp(np.minimum(2 * mean - mean_square, 0.0))
    return share


def weighting(method: str | Method, n: int, k: int = 4, rates: npt.ArrayLike = 0.5) -> FloatArray:
    """Return E[sum_i A_i grad log pi(y_i)] / grad p for 0/1 rewards, in the shape of `rates`.

    `rates` are success rates p in [0, 1] of a prompt with `n` samples, on-policy. With the
    advantages where c of n are right, and C ~ Bin(n - 1, p), it is n E[right(C + 1) - wrong(C)],
    exactly: for max@k k (1 - p)^(k-1).

    Raises InvalidValueError for rates outside [0, 1] and what `advantages` refuses.
    """
    method = as_method(method)
    size = as_k(n, field="n")
    p = as_floats("rates", rates)
    inside = (p >= 0) & (p <= 1)
    if not inside.all():
        raise InvalidValueError(f"rates: must be from 0 to 1, got {p[~inside][0]}")
    # Row c of the outcomes of a group has c right samples, which come first.
    outcomes = np.tri(size + 1, size, -1)
    answers = outcomes if method.credit_row.needs_answers else None
    by_outcome = advantages(outcomes, method, k, answers=answers)
    right = by_outcome[1:, 0]
    wrong = by_outcome[:-1, -1]
    chances = shares_of_draws(size - 1, p.ravel())  # of C right ones among the n - 1 others
    factor: FloatArray = size * (chances @ (right - wrong))
    return factor.reshape(p.shape)
