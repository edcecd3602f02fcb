"""The metrics: unbiased estimates of max@k and pass@k from n >= k samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from maxatk.errors import InvalidValueError
from maxatk.objectives.checks import FloatArray, as_floats, as_k, as_rewards, refuse_k_above
from maxatk.objectives.order import OrderWeights
from maxatk.objectives.subsets import max_weights


def max_at_k(rewards: npt.ArrayLike, k: int | Sequence[int]) -> FloatArray:
    """Return the mean over all k-subsets of the samples of the largest reward in the subset.

    `rewards` has shape (..., n), in any unit and of any sign; the result has the shape (...,)
    for one k and (..., len(k)) for a sequence, in the unit of the rewards. NaN marks a sample
    that could not be scored: it leaves its group, and a group with fewer than k scored samples
    gives NaN. For 0/1 rewards this is pass@k; min@k, the mean of the smallest reward, is
    `-max_at_k(-rewards, k)`.

    Raises InvalidValueError for k > n, k < 1, a k that is not an integer and infinite rewards.
    Source: "The Best of N Worlds", appendix C.1.
    """
    groups = as_rewards(rewards)
    sizes = [as_k(size) for size in (k if np.ndim(k) else [k])]  # type: ignore[union-attr]
    for size in sizes:
        refuse_k_above(size, groups.shape[-1])
    values = _statistics(groups, [OrderWeights.max(size) for size in sizes])
    return values if np.ndim(k) else values[..., 0]


def order_at_k(rewards: npt.ArrayLike, weights: OrderWeights) -> FloatArray:
    """Return the mean over all k-subsets of their weighted ascending rewards, (..., n) to (...,).

    `rewards` and NaN are those of `max_at_k`; `weights` have the k. The result is in the unit of
    the rewards where the weights have none.

    Raises InvalidValueError for weights of more samples than there are and infinite rewards.
    Equation: sum_j W_j r_(j) with the W of `OrderWeights.of_group`.
    """
    groups = as_rewards(rewards)
    if not isinstance(weights, OrderWeights):
        raise InvalidValueError(f"weights: must be OrderWeights, got {weights!r}")
    refuse_k_above(weights.size, groups.shape[-1])
    return _statistics(groups, [weights])[..., 0]


def _statistics(groups: FloatArray, columns: Sequence[OrderWeights]) -> FloatArray:
    """Return the statistics (..., len(columns)) of groups (..., n), NaN where samples lack."""
    declared = groups.shape[-1]
    ascending = np.sort(groups.reshape(-1, declared), axis=-1)  # NaN goes last
    scored = declared - np.isnan(ascending).sum(axis=-1)
    values = np.full((len(ascending), len(columns)), np.nan)
    for count in np.unique(scored):
        rows = np.flatnonzero(scored == count)
        known = ascending[rows, :count]
        for column, weights in enumerate(columns):
            if weights.size <= count:
                values[rows, column] = _weighed(known, weights.of_group(int(count)))
    return values.reshape((*groups.shape[:-1], len(columns)))


def _weighed(ascending: FloatArray, weights: FloatArray) -> FloatArray:
    value: FloatArray = ascending @ weights
    if (weights >= 0).all():
        # A mean lies between the rewards it is made of; rounding must not move ties apart.
        used, total = np.flatnonzero(weights), weights.sum()
        total = 1.0 if abs(total - 1) < 1e-9 else total
        value = np.clip(value, total * ascending[:, used[0]], total * ascending[:, used[-1]])
    return value


def pass_at_k(
    num_samples: npt.ArrayLike, num_correct: npt.ArrayLike, k: npt.ArrayLike
) -> FloatArray:
    """Return 1 - C(n - c, k) / C(n, k): the share of k-subsets with a correct sample.

    `num_samples` (n), `num_correct` (c) and `k` are integers or integer arrays and broadcast
    together; the result has their common shape. It equals `max_at_k` of c ones and n - c zeros.

    Raises InvalidValueError unless every value is an integer, 1 <= k <= n and 0 <= c <= n.
    Source: Chen et al. (2021); "The Best of N Worlds", appendix C.1.
    """
    fields = {"num_samples": num_samples, "num_correct": num_correct, "k": k}
    columns = [_as_integers(field, values) for field, values in fields.items()]
    try:
        samples, correct, sizes = np.broadcast_arrays(*columns)
    except ValueError as error:
        shapes = ", ".join(f"{f} {c.shape}" for f, c in zip(fields, columns, strict=True))
        raise InvalidValueError(f"pass_at_k: the shapes do not broadcast: {shapes}") from error
    _check_counts(samples, correct, sizes)
    result = np.empty(samples.shape)
    for count, size in np.unique(np.stack([samples.ravel(), sizes.ravel()]), axis=1).T:
        here = (samples == count) & (sizes == size)
        # By the number correct: 0, 1, ... of the largest. Only positive terms are added.
        share = np.concatenate([[0.0], np.cumsum(max_weights(int(count), int(size))[::-1])])
        share[count - size + 1 :] = 1.0
        result[here] = np.minimum(share, 1.0)[correct[here]]
    return result


def _as_integers(field: str, values: npt.ArrayLike) -> npt.NDArray[np.int64]:
    numbers = as_floats(field, values)
    whole = np.isfinite(numbers) & (numbers == np.floor(numbers))
    if not whole.all():
        raise InvalidValueError(f"{field}: must be integers, got {numbers[~whole].flat[0]}")
    return numbers.astype(np.int64)


def _check_counts(
    samples: npt.NDArray[np.int64], correct: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> None:
    for size in np.unique(sizes):
        as_k(size)
    above = sizes > samples
    if above.any():
        refuse_k_above(int(sizes[above].flat[0]), int(samples[above].flat[0]))
    wrong = (correct < 0) | (correct > samples)
    if wrong.any():
        raise InvalidValueError(
            f"num_correct: must lie between 0 and num_samples, got {correct[wrong].flat[0]} "
            f"of {samples[wrong].flat[0]}"
        )
