"""From the rewards of groups of samples to their advantages."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from maxatk.errors import InvalidValueError, unknown_name
from maxatk.objectives.checks import FloatArray, as_floats, as_k, as_rewards, refuse_k_above
from maxatk.objectives.group import Group, RawAdvantage, sorted_groups, taken
from maxatk.objectives.methods import BASELINES, METHODS, Method
from maxatk.objectives.off_policy import CORRECTIONS, on_policy
from maxatk.objectives.symmetric import all_means

Form: TypeAlias = Literal["ppo", "reinforce"]

STD_DDOF = 1
"""The std of the scale "std" divides by n - 1, as TRL's GRPOTrainer does; eq. (5) is silent."""

STD_EPSILON = 1e-4
"""What the scale "std" adds to the std before it divides, in the unit of the credits: as TRL."""

LEAST_STD = 1e-6
"""Under a correction, a group whose on-policy credits spread less than this has no signal."""

LARGEST_LOG_RATIO = 700.0
"""Log ratios above this (in nats) are cut before exp, which would overflow float64."""

LEAST_LOG_RATIO = -36.0
"""Log ratios below this (in nats) are cut, so that the ratio 1 + delta stays positive."""


def advantages(
    rewards: npt.ArrayLike,
    method: str | Method = "bon_loo1",
    k: int = 4,
    *,
    log_ratios: npt.ArrayLike | None = None,
    form: Form = "ppo",
    clamp: float | None = 0.5,
) -> FloatArray:
    """Return the advantages (P, n), float64, of P groups of n samples: scale(credit - baseline).

    `rewards` (P, n) may have any sign; NaN marks a sample that could not be scored. `method` is
    a name in `METHODS` or a `Method`; `k` is the size of the subsets, without meaning for a credit
    that has none (`Method.kind.uses_k`). `log_ratios` (P, n) are log pi_theta - log pi_old of
    whole sequences, in nats (the sum over tokens); None stands for ratios of one. `clamp` bounds
    |rho - 1|; None leaves the ratios as they are.

    Two forms, so that no ratio is counted twice:

    - "ppo": for a surrogate that multiplies by the sample's own ratio, clipped or not. The own
      ratio is not in the advantage; only the ratios of the other samples are, clamped.
    - "reinforce": for a loss -A_i log pi(y_i). The own ratio is in the advantage, and clamped like
      the others. Up to clamping (and, for the first-order correction, up to second order in
      delta) it is the advantage of the form "ppo" times rho_i, for methods without a correction
      too: with the same rewards both forms have the same gradient.

    A method without a correction has no other use for the ratios, so in the form "ppo" it ignores
    them. A credit of k-subsets is divided by C(n, k) as in eq. (9): the sum over the samples of
    A_i grad log pi(y_i), not its mean, estimates the gradient of the statistic. Credits of the
    whole group's rewards ("reward", "best") follow eq. (5), whose mean over the samples does.

    Scale "std" divides by max(std of the on-policy credits, std of credit - baseline) +
    `STD_EPSILON`, with `STD_DDOF`; for "grpo" that is TRL's formula. The own ratio is in neither.

    0 is returned for unscorable samples, for groups in which fewer samples were scored than the
    method needs (`Method.samples_needed`), for groups of equal rewards (unless the baseline keeps
    their level, as "none" does), and hence for n = 1.

    Raises InvalidValueError for a k that n samples are too few for or that is not an integer >= 1,
    wrong shapes, infinite rewards, log ratios that are not finite, and unknown names.
    Source: "The Best of N Worlds", eq. (5), (9), (10), section 3.3, appendices A and E.
    """
    scores = _as_groups(rewards)
    row = as_method(method)
    size = as_k(k)
    check_group_size(row, size, scores.shape[1])
    if form not in get_args(Form):
        raise unknown_name("form", str(form), get_args(Form))
    deltas = _clamped_deltas(scores, log_ratios, clamp)
    estimator = row.without_ratios() if log_ratios is None else row
    result = np.zeros(scores.shape)
    for places in sorted_groups(scores, row.samples_needed(size)):
        group = Group(taken(scores, places), taken(deltas, places), size, row.weights(size))
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            result.ravel()[places] = _finished(_raw(group, estimator), group, row, form)
    if not np.isfinite(result).all():
        raise InvalidValueError(
            "advantages: overflow; rewards or log_ratios are too large (a smaller clamp helps)"
        )
    return result


def effective_sample_size(
    log_ratios: npt.ArrayLike, k: int, *, clamp: float | None = 0.5
) -> FloatArray:
    """Return the effective share of the k-subsets under their weights rho(I), (P, n) to (P,).

    It is the squared mean of rho(I) over the mean of rho(I)^2, both over all k-subsets of a group
    of samples: 1 on-policy, near 0 where a few subsets carry the whole estimate. O(n k).
    `log_ratios` and `clamp` are those of `advantages`.

    Raises InvalidValueError for k > n, a k that is not an integer >= 1, wrong shapes and log
    ratios that are not finite.
    """
    size = as_k(k)
    logs = as_floats("log_ratios", log_ratios)
    if logs.ndim != 2:
        raise InvalidValueError(f"log_ratios: must have shape (prompts, samples), got {logs.shape}")
    refuse_k_above(size, logs.shape[1])
    ratios = 1 + _clamped_deltas(np.zeros_like(logs), logs, clamp)
    squares = ratios**2
    # Each is divided by its mean, which the k-th powers of large and small ratios would need.
    mean, mean_square = ratios.mean(axis=-1), squares.mean(axis=-1)
    both = np.concatenate([ratios / mean[:, None], squares / mean_square[:, None]])
    first, second = all_means(both, size).reshape(2, -1)  # one pass: its steps are what it costs
    share: FloatArray = first**2 / second * (mean**2 / mean_square) ** size
    return share


def as_method(method: str | Method) -> Method:
    """Return the row of a name; raise InvalidValueError for an unknown one."""
    if isinstance(method, Method):
        return method
    if not isinstance(method, str) or method not in METHODS:
        raise unknown_name("method", str(method), METHODS)
    return METHODS[method]


def check_group_size(method: Method, k: int, samples: int) -> None:
    """Raise InvalidValueError where the method has no advantages for groups of that size."""
    needed = method.samples_needed(k)
    if needed <= samples:
        return
    refuse_k_above(needed if needed == k else k, samples)
    raise InvalidValueError(
        f"method: {method.credit!r} with the baseline {method.baseline!r} and k={k} needs at "
        f"least {needed} samples, got {samples}"
    )


def _raw(group: Group, row: Method) -> RawAdvantage:
    """Return credit minus baseline by the formula of the row."""
    if row.correction != "none":
        return CORRECTIONS[row.correction][row.baseline](group)
    if row.kind.formulas:
        values = row.kind.formulas[row.baseline](group)
    else:
        values = on_policy(group, row.baseline)
    return RawAdvantage(values, values)


def _finished(raw: RawAdvantage, group: Group, row: Method, form: Form) -> FloatArray:
    """Return credit minus baseline in its form, scaled, and 0 for groups of equal rewards."""
    result = raw.values
    if form == "reinforce":
        result = result + group.deltas * raw.slopes
    if row.scale != "none":
        result = result * _SCALES[row.scale](group, row, raw)
    if not BASELINES[row.baseline].keeps_level:
        # Equal rewards carry no signal; rounding, and a mean of unequal ratios, would leave some.
        equal = group.rewards[:, :1] == group.rewards[:, -1:]
        result = np.where(equal, 0.0, result)
    return result


def _inverse_std(group: Group, row: Method, raw: RawAdvantage) -> FloatArray:
    """Return 1 / (std + eps), (P, 1), and 0 for a corrected group without on-policy signal."""
    credits = group.rewards if group.weights is None else on_policy(group, "none")
    plain = _std(credits)
    inverse = 1 / (np.maximum(plain, _std(raw.values)) + STD_EPSILON)
    silent = (plain < LEAST_STD) & (row.correction != "none")
    return np.where(silent, 0.0, inverse)


def _inverse_mean(group: Group, row: Method, raw: RawAdvantage) -> FloatArray:  # noqa: ARG001
    """Return 1 / mean reward of the group, (P, 1), and 0 for a mean of 0, as MaxRL has it."""
    return _inverse(group.rewards.mean(axis=-1, keepdims=True))


def _inverse_subset_std(group: Group, row: Method, raw: RawAdvantage) -> FloatArray:  # noqa: ARG001
    """Return n / (k std of the statistic over the k-subsets), (P, 1), and 0 for a std of 0.

    For a maximum every subset has the reward of one of its members, so that W_j is the share of
    the subsets whose maximum is the j-th reward. Below the best reward, rounding leaves no spread
    where there is none.
    """
    n = group.rewards.shape[-1]
    shares, below = group.order.of_group(n), group.rewards[:, -1:] - group.rewards
    variance = (below - (below @ shares)[:, None]) ** 2 @ shares
    return _inverse(group.k / n * np.sqrt(variance)[:, None])


def _inverse(values: FloatArray) -> FloatArray:
    inverse: FloatArray = np.divide(1.0, values, out=np.zeros_like(values), where=values != 0)
    return inverse


_SCALES: Mapping[str, Callable[[Group, Method, RawAdvantage], FloatArray]] = {
    "std": _inverse_std,
    "mean": _inverse_mean,
    "subset_std": _inverse_subset_std,
}


def _std(values: FloatArray) -> FloatArray:
    if values.shape[-1] <= STD_DDOF:
        return np.zeros((len(values), 1))
    std: FloatArray = np.std(values, axis=-1, ddof=STD_DDOF, keepdims=True)
    return std


def _as_groups(rewards: npt.ArrayLike) -> FloatArray:
    scores = np.ascontiguousarray(as_rewards(rewards))
    if scores.ndim != 2 or scores.shape[1] == 0:
        raise InvalidValueError(
            f"rewards: must have shape (prompts, samples), at least one sample, got {scores.shape}"
        )
    return scores


def _clamped_deltas(
    scores: FloatArray, log_ratios: npt.ArrayLike | None, clamp: float | None
) -> FloatArray:
    """Return rho - 1 within the clamp, (P, n), 0 for unscorable samples; (1, 1) on-policy."""
    bound = math.inf if clamp is None else _as_clamp(clamp)
    if log_ratios is None:
        return np.zeros((1, 1))
    logs = as_floats("log_ratios", log_ratios)
    if logs.shape != scores.shape:
        raise InvalidValueError(
            f"log_ratios: must have the shape of the rewards {scores.shape}, got {logs.shape}"
        )
    logs = np.where(np.isnan(scores), 0.0, logs)
    wrong = ~np.isfinite(logs)
    if wrong.any():
        raise InvalidValueError(f"log_ratios: must be finite, got {logs[wrong][0]}")
    deltas = np.expm1(np.clip(logs, LEAST_LOG_RATIO, LARGEST_LOG_RATIO))
    clamped: FloatArray = np.clip(deltas, -bound, bound)
    return clamped


def _as_clamp(clamp: float) -> float:
    if isinstance(clamp, bool) or not isinstance(clamp, (int, float)) or not clamp >= 0:
        raise InvalidValueError(f"clamp: must be a number >= 0 or None, got {clamp!r}")
    return float(clamp)
