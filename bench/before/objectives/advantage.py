"""From the rewards of groups of samples to their advantages."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from before.objectives.checks import FloatArray, as_floats, as_k, as_rewards, refuse_k_above
from before.objectives.credits import Group
from before.objectives.methods import METHODS, Method
from before.objectives.numerators import NUMERATORS, SPREADS, Numerator
from before.objectives.symmetric import all_means
from maxatk.errors import InvalidValueError, unknown_name

Places: TypeAlias = npt.NDArray[np.intp]
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
    a name in `METHODS` or a `Method`; `k` is the k of max@k, without meaning for the credits
    "reward" and "best". `log_ratios` (P, n) are log pi_theta - log pi_old of whole sequences, in
    nats (the sum over tokens); None stands for ratios of one. `clamp` bounds |rho - 1|; None
    leaves the ratios as they are.

    Two forms, so that no ratio is counted twice:

    - "ppo": for a surrogate that multiplies by the sample's own ratio, clipped or not. The own
      ratio is not in the advantage; only the ratios of the other samples are, clamped.
    - "reinforce": for a loss -A_i log pi(y_i). The own ratio is in the advantage, and clamped like
      the others. Up to clamping (and, for the first-order correction, up to second order in
      delta) it is the advantage of the form "ppo" times rho_i, for methods without a correction
      too: with the same rewards both forms have the same gradient.

    A method without a correction has no other use for the ratios, so in the form "ppo" it ignores
    them. A max@k credit is divided by C(n, k) as in eq. (9): the sum over the samples of
    A_i grad log pi(y_i), not its mean, estimates the gradient of max@k.

    Scale "std" divides by max(std of the on-policy credits, std of credit - baseline) +
    `STD_EPSILON`, with `STD_DDOF`; for "grpo" that is TRL's formula. The own ratio is in neither.

    0 is returned for unscorable samples, for groups in which fewer than k samples were scored
    (credit "max_at_k"), for groups of equal rewards (unless the baseline is "none", where the
    credit itself is the estimate), and hence for n = 1.

    Raises InvalidValueError for k > n, a k that is not an integer >= 1, wrong shapes, infinite
    rewards, log ratios that are not finite, and unknown names.
    Source: "The Best of N Worlds", eq. (5), (9), (10), section 3.3, appendices A and E.
    """
    scores = _as_groups(rewards)
    row = _as_method(method)
    size = as_k(k)
    if row.credit == "max_at_k":
        refuse_k_above(size, scores.shape[1])
    if form not in get_args(Form):
        raise unknown_name("form", str(form), get_args(Form))
    deltas = _clamped_deltas(scores, log_ratios, clamp)
    estimator = _on_policy(row) if log_ratios is None else row
    result = np.zeros(scores.shape)
    least = size if row.credit == "max_at_k" else 1
    for places in _sorted_groups(scores, least):
        group = Group(_taken(scores, places), _taken(deltas, places), size)
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            result.ravel()[places] = _finished(_numerator(group, estimator), group, row, form)
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


def _sorted_groups(scores: FloatArray, least: int) -> Iterator[Places]:
    """Yield the flat places (P', m), ascending by score, of the groups with each m >= least.

    One array for every number m of scored samples: mostly a single one, m = n. The order of ties
    is left open, since no advantage depends on it.
    """
    prompts, n = scores.shape
    places = np.argsort(scores, axis=-1)  # NaN goes last
    places += np.arange(0, prompts * n, n)[:, None]
    missing = np.isnan(scores)
    if not missing.any():
        yield places
        return
    scored = n - missing.sum(axis=-1)
    for count in np.unique(scored):
        if count >= least:
            yield places[scored == count, :count]


def _taken(values: FloatArray, places: Places) -> FloatArray:
    """Return the values at flat places; a single value stands for all places."""
    return values if values.size == 1 else values.ravel()[places]


def _numerator(group: Group, row: Method) -> Numerator:
    return NUMERATORS[row.credit, row.baseline](group, row.correction)


def _finished(numerator: Numerator, group: Group, row: Method, form: Form) -> FloatArray:
    """Return credit minus baseline in its form, scaled, and 0 for groups of equal rewards."""
    if form == "reinforce":
        result = numerator.values + group.deltas * numerator.slopes
    else:
        result = numerator.values
    if row.scale == "std":
        result = result * _inverse_std(group, row, numerator)
    if row.baseline != "none":
        # Equal rewards carry no signal; rounding, and a mean of unequal ratios, would leave some.
        equal = group.rewards[:, :1] == group.rewards[:, -1:]
        result = np.where(equal, 0.0, result)
    return result


def _inverse_std(group: Group, row: Method, numerator: Numerator) -> FloatArray:
    """Return 1 / (std + eps), (P, 1), and 0 for a corrected group without on-policy signal."""
    plain = _std(SPREADS[row.credit](group))
    inverse = 1 / (np.maximum(plain, _std(numerator.values)) + STD_EPSILON)
    silent = (plain < LEAST_STD) & (row.correction != "none")
    return np.where(silent, 0.0, inverse)


def _std(values: FloatArray) -> FloatArray:
    if values.shape[-1] <= STD_DDOF:
        return np.zeros((len(values), 1))
    std: FloatArray = np.std(values, axis=-1, ddof=STD_DDOF, keepdims=True)
    return std


def _on_policy(row: Method) -> Method:
    """Return the method that `row` is where every ratio is one: the same, without the work."""
    if row.correction == "none":
        return row
    baseline = "mean" if row.baseline == "constant" else row.baseline
    return Method(credit=row.credit, baseline=baseline, scale=row.scale, source=row.source)


def _as_groups(rewards: npt.ArrayLike) -> FloatArray:
    scores = np.ascontiguousarray(as_rewards(rewards))
    if scores.ndim != 2 or scores.shape[1] == 0:
        raise InvalidValueError(
            f"rewards: must have shape (prompts, samples), at least one sample, got {scores.shape}"
        )
    return scores


def _as_method(method: str | Method) -> Method:
    if isinstance(method, Method):
        return method
    if method not in METHODS:
        raise unknown_name("method", str(method), METHODS)
    return METHODS[method]


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
