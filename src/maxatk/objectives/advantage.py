"""From the rewards of groups of samples to their advantages; `_of_groups` has the formula."""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from maxatk.check import is_number, require
from maxatk.errors import InvalidValueError, unknown_name
from maxatk.objectives import rule
from maxatk.objectives.checks import FloatArray, as_floats, as_k, refuse_k_above
from maxatk.objectives.group import Group, centred, root_sum_of_squares
from maxatk.objectives.layout import Layout, layout_of
from maxatk.objectives.methods import BASELINES, Method, as_method, check_group_size
from maxatk.objectives.off_policy import over_ties
from maxatk.objectives.subsets import shares_of_draws
from maxatk.objectives.symmetric import all_means

Form: TypeAlias = Literal["ppo", "reinforce"]

_STD_DDOF = 1  # n - 1, as TRL's GRPOTrainer; eq. (5) is silent
_STD_EPSILON = 1e-4  # added to the std, in the unit of the credits: as TRL
_LEAST_STD = 1e-6  # under a correction, on-policy credits that spread less have no signal
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
    layout, rows = layout_of(rewards, groups)
    method, size = as_method(method), as_k(k)
    _check(layout, method, selection, answers, form)
    needed = check_group_size(method, size, layout.width)
    # One sample has nothing to be compared with.
    needed = max(needed, 1 if BASELINES[method.baseline].keeps_level else 2)
    layout.warn_of_fewer(needed, "their advantages are 0", depth=2)
    logs = None if log_ratios is None else layout.rows("log_ratios", log_ratios)
    scores = None if selection is None else layout.rows("selection", selection)
    if callable(method.credit):  # the order of the samples, in which no rank is favoured
        scores = np.broadcast_to(np.arange(float(layout.width)), rows.shape)
    codes = None if answers is None else layout.codes("answers", answers)
    weights, deltas = method.weights(size) or Group.weights, _clamped_deltas(rows, logs, clamp)
    whole = Group(rows, deltas, size, weights, scores, codes, method.inverse_temperature)
    result = np.zeros(rows.shape)
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        for places, group in whole.scored(needed):
            result.ravel()[places] = _of_groups(group, method, form, logs is not None)
    if not np.isfinite(result).all():
        raise InvalidValueError(_OVERFLOW)
    restored: FloatArray = layout.of_samples(result)
    return restored


def _check(layout: Layout, method: Method, selection: Any, answers: Any, form: object) -> None:
    """Raise InvalidValueError for a wrong shape or form, or a column that lacks or has no use."""
    if layout.places is None and (len(layout.shape) != 2 or layout.width == 0):
        wanted = "must have shape (prompts, samples), at least one sample"
        raise InvalidValueError(f"rewards: {wanted}, got {layout.shape}")
    if form not in get_args(Form):
        raise unknown_name("form", str(form), get_args(Form))
    if selection is not None and method.kind.order is None:
        raise InvalidValueError(
            f"selection: the credit {method.credit!r} has no order of samples; allowed: None"
        )
    if method.kind.needs_answers == (answers is None):
        wanted = "are needed by" if answers is None else "have no use in"
        raise InvalidValueError(f"answers: {wanted} the credit {method.credit!r}")


def _clamped_deltas(rows: FloatArray, logs: FloatArray | None, clamp: float | None) -> FloatArray:
    """Return rho - 1 within the clamp, (P, n), 0 for unscorable samples; (1, 1) on-policy."""
    allowed = clamp is None or (is_number(clamp) and clamp >= 0)
    require(allowed, "clamp", "a number >= 0 or None", clamp)
    if logs is None:
        return np.zeros((1, 1))
    logs = np.where(np.isnan(rows), 0.0, logs)
    wrong = ~np.isfinite(logs)
    if wrong.any():
        raise InvalidValueError(f"log_ratios: must be finite, got {logs[wrong][0]}")
    deltas = np.expm1(np.clip(logs, *_LOG_RATIOS))
    clamped: FloatArray = deltas if clamp is None else np.clip(deltas, -clamp, clamp)
    return clamped


def _of_groups(group: Group, method: Method, form: Form, off_policy: bool) -> FloatArray:
    """Return (credit - baseline) / scale in a form, (P, n), and 0 for groups of equal rewards."""
    baseline = BASELINES[method.baseline]
    if method.kind.formulas or baseline.rule is None:
        values = slopes = method.kind.formulas[method.baseline](group)
    elif off_policy and method.correction != "none":
        values, slopes = over_ties(baseline.corrected[method.correction], baseline.rule, group)
    else:
        values = slopes = group.on_policy(baseline.rule)
    result = values + group.deltas * slopes if form == "reinforce" else values
    if method.scale != "none":
        divisors = _divisors(group, method, values)
        if not np.isfinite(divisors).all():
            raise InvalidValueError(_OVERFLOW)
        result = result / np.where(divisors == 0, np.inf, divisors)
    # Equal rewards carry no signal; rounding, and a mean of unequal ratios, would leave some.
    if not method.keeps_level and group.equal.any():
        result = np.where(group.equal, 0.0, result)
    return result


def _std_of_credits(group: Group, method: Method, values: FloatArray) -> FloatArray:
    """Return std + eps, (P, 1), as TRL, and 0 for a group whose std is rounding or too small."""
    n = group.rewards.shape[-1]
    ordered, uncorrected = method.kind.order is not None, method.correction == "none"
    credits = group.on_policy(rule.mean) if ordered else group.centred_rewards
    root = math.sqrt(max(n - _STD_DDOF, 1))
    plain = std = root_sum_of_squares(credits) / root
    if values is not credits:  # the larger one counts
        std = np.maximum(plain, root_sum_of_squares(centred(values)) / root)
    divisors: FloatArray = std + _STD_EPSILON
    if not ordered or (uncorrected and method.keeps_level):
        return divisors
    rounding = np.ptp(n * np.finfo(float).eps * group.rewards, axis=-1, keepdims=True)
    weak = std < rounding if uncorrected else plain < np.maximum(_LEAST_STD, rounding)
    return np.where(weak, 0.0, divisors)


def _divisors(group: Group, method: Method, values: FloatArray) -> FloatArray:
    """Return what the scale of a method divides by, (P, 1), 0 for a group without signal."""
    rewards, n = group.rewards, group.rewards.shape[-1]
    if method.scale == "std":
        return _std_of_credits(group, method, values)
    if method.scale == "mean":  # of the rewards, as MaxRL has it, unless it is rounding
        mean = rewards.mean(axis=-1, keepdims=True)
        rounding = n * np.finfo(float).eps * np.abs(rewards).max(axis=-1, keepdims=True)
        return np.where(np.abs(mean) <= rounding, 0.0, mean)
    # k / n times the std over the k-subsets. Below the best reward, rounding leaves no spread.
    shares, below = group.weights.of_group(n), rewards[:, -1:] - rewards
    if group.scores is not None:
        shares = rule.selected_weights(shares, group.scores)
    mean = (below * shares).sum(axis=1, keepdims=True)
    std: FloatArray = group.k / n * root_sum_of_squares((below - mean) * np.sqrt(shares))
    return std


def effective_sample_size(
    log_ratios: npt.ArrayLike, k: int, *, clamp: float | None = 0.5
) -> FloatArray:
    """Return the effective share of k-subsets, (mean rho(I))^2 / mean rho(I)^2: (P, n) to (P,).

    It is 1 on-policy and near 0 where few subsets carry the estimate. Errors as in `advantages`.
    """
    size = as_k(k)
    logs = as_floats("log_ratios", log_ratios)
    if logs.ndim != 2:
        raise InvalidValueError(f"log_ratios: must have shape (prompts, samples), got {logs.shape}")
    refuse_k_above(size, logs.shape[1])
    ratios = 1 + _clamped_deltas(np.zeros_like(logs), logs, clamp)
    ratios /= ratios.max(axis=-1, keepdims=True)
    squares = ratios**2
    # Each is divided by its mean, which the k-th powers of large and small ratios would need.
    mean, mean_square = ratios.mean(axis=-1), squares.mean(axis=-1)
    both = np.concatenate([ratios / mean[:, None], squares / mean_square[:, None]])
    first, second = all_means(both, size).reshape(2, -1)  # one pass: its steps are what it costs
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # refused below
        share: FloatArray = first**2 / second * (mean**2 / mean_square) ** size
    if not np.isfinite(share).all():
        raise InvalidValueError("log_ratios: too far apart (a smaller clamp helps)")
    return share


def weighting(method: str | Method, n: int, k: int = 4, rates: npt.ArrayLike = 0.5) -> FloatArray:
    """Return E[sum_i A_i grad log pi(y_i)] / grad p for 0/1 rewards, in the shape of `rates`.

    `rates` are success rates p in [0, 1] of a prompt with `n` samples, on-policy. With the
    advantages where c of n are right, and C ~ Bin(n - 1, p), it is n E[right(C + 1) - wrong(C)],
    exactly: for max@k k (1 - p)^(k-1).

    Raises InvalidValueError for rates outside [0, 1] and what `advantages` refuses.
    """
    method, size = as_method(method), as_k(n, field="n")
    p = as_floats("rates", rates)
    if not ((p >= 0) & (p <= 1)).all():
        raise InvalidValueError(f"rates: must be from 0 to 1, got {p[~((p >= 0) & (p <= 1))][0]}")
    passed = np.tri(size + 1, size, -1)  # row c has c ones, which come first
    own = advantages(passed, method, k, answers=passed if method.kind.needs_answers else None)
    gaps = own[1:, 0] - own[:-1, -1]
    factor: FloatArray = size * (shares_of_draws(size - 1, p.ravel()) @ gaps)
    return factor.reshape(p.shape)
