"""The metrics: unbiased estimates of max@k and pass@k from n >= k samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from maxatk.errors import InvalidValueError
from maxatk.objectives.answers import Chances, distinct_chances, majority_chances, statistic_of
from maxatk.objectives.checks import FloatArray, as_floats, as_k, refuse_k_above
from maxatk.objectives.group import Group
from maxatk.objectives.layout import Layout, layout_of
from maxatk.objectives.order import OrderWeights
from maxatk.objectives.rule import selected_weights
from maxatk.objectives.subsets import hit_shares


def max_at_k(
    rewards: npt.ArrayLike,
    k: int | Sequence[int],
    *,
    selection: npt.ArrayLike | None = None,
    groups: Any = None,
) -> FloatArray:
    """Return the mean over all k-subsets of the samples of the largest reward in the subset.

    `rewards` has shape (..., n), in any unit and of any sign; the result has the shape (...,)
    for one k and (..., len(k)) for a sequence, in the unit of the rewards. NaN marks a sample
    that could not be scored: it leaves its group, and a group with fewer than k scored samples
    gives NaN. For 0/1 rewards this is pass@k. Ragged lists, tensors, series and flat rewards with
    `groups` are those of `advantages`; the metric then is one value a group, in order of
    appearance. With a `selection` of the rewards' shape it is the reward of the sample with the
    highest score in the subset, ties at random: what best-of-k by that score returns.

    Raises InvalidValueError for k > n, k < 1, a k that is not an integer and infinite rewards.
    Source: "The Best of N Worlds", appendix C.1.
    """
    sizes = [as_k(size) for size in (k if np.ndim(k) else [k])]  # type: ignore[union-attr]
    columns = [OrderWeights.max(size) for size in sizes]
    return _order_statistics(rewards, columns, selection, groups, single=not np.ndim(k))


def order_at_k(
    rewards: npt.ArrayLike,
    weights: OrderWeights,
    *,
    selection: npt.ArrayLike | None = None,
    groups: Any = None,
) -> FloatArray:
    """Return the mean over all k-subsets of their weighted ascending rewards, (..., n) to (...,).

    `rewards`, `selection`, `groups` and NaN are those of `max_at_k`; `weights` have the k. The
    result is in the unit of the rewards where the weights have none.

    Raises InvalidValueError for weights of more samples than there are and infinite rewards.
    Equation: sum_j W_j r_(j) with the W of `OrderWeights.of_group`.
    """
    if not isinstance(weights, OrderWeights):
        raise InvalidValueError(f"weights: must be OrderWeights, got {weights!r}")
    return _order_statistics(rewards, [weights], selection, groups, single=True)


def majority_at_k(
    rewards: npt.ArrayLike, answers: Any, k: int | Sequence[int], *, groups: Any = None
) -> FloatArray:
    """Return the mean reward of the plurality answer of a k-subset, ties at random, exactly.

    `answers` are hashable, in the shape of the rewards (..., n); an answer is worth the mean of
    its rewards in the group. Shapes, NaN and `groups` are those of `max_at_k`.

    Raises InvalidValueError for k > n, answers of another shape and infinite rewards.
    """
    return _class_statistics(majority_chances, rewards, answers, k, groups)


def distinct_at_k(
    rewards: npt.ArrayLike, answers: Any, k: int | Sequence[int], *, groups: Any = None
) -> FloatArray:
    """Return the mean sum of the rewards of the different answers in a k-subset.

    That is sum_d v_d (1 - C(n - n_d, k) / C(n, k)) over the answers d, given n_d times and worth
    v_d, the mean of their rewards. The arguments and errors are those of `majority_at_k`.
    """
    return _class_statistics(distinct_chances, rewards, answers, k, groups)


def _order_statistics(
    rewards: npt.ArrayLike,
    columns: Sequence[OrderWeights],
    selection: Any,
    groups: Any,
    *,
    single: bool,
) -> FloatArray:
    layout, rows = layout_of(rewards, groups)
    scores = None if selection is None else layout.rows("selection", selection)

    def statistic(group: Group, column: int) -> FloatArray:
        weights = columns[column].of_group(group.rewards.shape[1])
        if group.scores is None:
            return _weighed(group.rewards, weights)
        weighed: FloatArray = (group.rewards * selected_weights(weights, group.scores)).sum(axis=1)
        return weighed

    sizes = [weights.size for weights in columns]
    return _statistics(layout, rows, sizes, statistic, single=single, scores=scores)


def _class_statistics(
    chances: Chances, rewards: npt.ArrayLike, answers: Any, k: int | Sequence[int], groups: Any
) -> FloatArray:
    layout, rows = layout_of(rewards, groups)
    sizes = [as_k(size) for size in (k if np.ndim(k) else [k])]  # type: ignore[union-attr]

    def statistic(group: Group, column: int) -> FloatArray:
        pairs = zip(group.rewards, group.codes, strict=True)
        return np.array([statistic_of(chances, *pair, sizes[column]) for pair in pairs])

    codes = layout.codes("answers", answers)
    return _statistics(layout, rows, sizes, statistic, single=not np.ndim(k), answers=codes)


def _statistics(
    layout: Layout,
    rows: FloatArray,
    sizes: Sequence[int],
    statistic: Callable[[Group, int], FloatArray],
    *,
    single: bool,
    scores: FloatArray | None = None,
    answers: npt.NDArray[np.intp] | None = None,
) -> FloatArray:
    """Return the statistics (..., len(sizes)) of rows (..., n), NaN where samples lack.

    A `single` one comes without the last axis.
    """
    if rows.ndim == 0:
        raise InvalidValueError("rewards: must have a last axis of samples, got a single number")
    n = rows.shape[-1]
    for size in sizes:
        refuse_k_above(size, n)
    layout.warn_of_fewer(max(sizes, default=1), depth=4)
    whole = Group(
        rows.reshape(-1, n),
        np.zeros((1, 1)),
        1,
        scores=None if scores is None else scores.reshape(-1, n),
        answers=None if answers is None else answers.reshape(-1, n),
    )
    values = np.full((len(whole.rewards), len(sizes)), np.nan)
    for places in whole.scored_places(1):
        group, count = whole.at(places), places.shape[1]
        for column, size in enumerate(sizes):
            if size <= count:
                values[places[:, 0] // n, column] = statistic(group, column)
    shape = rows.shape[:-1] if single else (*rows.shape[:-1], len(sizes))
    restored: FloatArray = layout.of_groups(values.reshape(shape))
    return restored


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
        result[here] = hit_shares(int(count), int(size))[correct[here]]
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
