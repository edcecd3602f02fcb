"""The metrics: unbiased estimates of max@k and pass@k from n >= k samples."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from maxatk.check import require
from maxatk.errors import InvalidValueError
from maxatk.objectives.answers import distinct_chances, majority_chances, of_answers
from maxatk.objectives.checks import FloatArray, as_floats, as_k, refuse_k_above
from maxatk.objectives.group import Group
from maxatk.objectives.order import OrderWeights
from maxatk.objectives.rollouts import RolloutReward, sample_layout
from maxatk.objectives.rule import selected_weights
from maxatk.objectives.subsets import hit_shares, max_weights

_LONG_GROUP = 1_000  # rewards in one dimension, above which a metric asks whether they are one
_SLACK = 1e-9  # of a threshold, which a sum of parts may miss by rounding


def max_at_k(
    rewards: npt.ArrayLike,
    k: int | Sequence[int],
    *,
    selection: npt.ArrayLike | None = None,
    groups: Any = None,
    rollouts: Any = None,
    rollout_reward: RolloutReward | None = None,
) -> FloatArray:
    """Return the mean over all k-subsets of the samples of the largest reward in the subset.

    `rewards` (..., n), in any unit, give (...,) for one k and (..., len(k)) for several, in that
    unit. A sample that could not be scored, NaN, is dropped; a group with fewer than k others gives
    NaN. Other forms of rewards, `groups` (one value each, in order of appearance), `selection`,
    `rollouts` and `rollout_reward` are those of `advantages`. For 0/1 rewards this is pass@k.

    Raises InvalidValueError for k > n, a k that is not an integer >= 1 and infinite rewards.
    Source: "The Best of N Worlds", appendix C.1.
    """
    largest = partial(_order_statistic, OrderWeights.max)
    return _statistics(
        rewards,
        k,
        largest,
        selection=selection,
        groups=groups,
        rollouts=rollouts,
        rollout_reward=rollout_reward,
    )


def order_at_k(
    rewards: npt.ArrayLike,
    weights: OrderWeights,
    *,
    selection: npt.ArrayLike | None = None,
    groups: Any = None,
    rollouts: Any = None,
    rollout_reward: RolloutReward | None = None,
) -> FloatArray:
    """Return sum_j W_j r_(j), W of `OrderWeights.of_group`, (..., n) to (...,); see `max_at_k`."""
    require(isinstance(weights, OrderWeights), "weights", "OrderWeights", weights)
    weighted = partial(_order_statistic, lambda _: weights)
    return _statistics(
        rewards,
        weights.size,
        weighted,
        selection=selection,
        groups=groups,
        rollouts=rollouts,
        rollout_reward=rollout_reward,
    )


def majority_at_k(
    rewards: npt.ArrayLike, answers: Any, k: int | Sequence[int], *, groups: Any = None
) -> FloatArray:
    """Return the mean reward of the plurality answer of a k-subset, ties at random, exactly.

    An answer is worth the mean of its rewards in the group. Raises InvalidValueError for `answers`
    that are not hashable or not in the shape of the rewards; the rest is as in `max_at_k`.
    """
    return _statistics(rewards, k, _plurality, answers=answers, groups=groups)


def distinct_at_k(
    rewards: npt.ArrayLike, answers: Any, k: int | Sequence[int], *, groups: Any = None
) -> FloatArray:
    """Return the mean sum of the rewards of the different answers in a k-subset.

    That is sum_d v_d (1 - C(n - n_d, k) / C(n, k)) over the answers d, given n_d times and worth
    v_d, the mean of their rewards. The arguments are those of `majority_at_k`.
    """
    worth_of_different = partial(of_answers, distinct_chances)
    return _statistics(rewards, k, worth_of_different, answers=answers, groups=groups)


def chance_of_best(rewards: npt.ArrayLike, k: int, *, groups: Any = None) -> Any:
    """Return the chance of each sample to be the best of k of its group, in the rewards' form.

    Ties share theirs; it is 0 without a reward and in a group of fewer than k others. `rewards`,
    `groups` and errors are those of `max_at_k`.
    """
    size = as_k(k)
    layout, rows = sample_layout(rewards, groups, None, None)
    refuse_k_above(size, layout.width)
    layout.warn_of_fewer(size, "their chances are 0", depth=2)
    chances = np.zeros(rows.shape)
    for places, group in Group(rows).scored(size):
        weights = max_weights(places.shape[1], size)
        chances.ravel()[places] = selected_weights(weights, group.rewards)
    return layout.of_samples(chances)


def _order_statistic(weights: Callable[[int], OrderWeights], k: int, group: Group) -> FloatArray:
    """Return the weighted sum of the rewards in ascending order, or in that of their scores."""
    rewards = group.rewards
    place_weights = weights(k).of_group(rewards.shape[1])
    if group.scores is None:
        value = rewards @ place_weights
    else:
        value = (rewards * selected_weights(place_weights, group.scores)).sum(axis=1)
    if place_weights.any() and (place_weights >= 0).all():
        # Without scores rewards ascend: the first and the last that are used bound their mean.
        used = np.flatnonzero(place_weights)[[0, -1]] if group.scores is None else slice(None)
        # A sum that is one but for rounding bounds a mean of rewards by the rewards themselves.
        total = place_weights.sum()
        bounds = rewards[:, used] * (1.0 if abs(total - 1) < 1e-9 else total)
        value = _between(value, bounds)
    return value


def _plurality(k: int, group: Group) -> FloatArray:
    return _between(of_answers(majority_chances, k, group), group.rewards)


def _between(means: FloatArray, rewards: FloatArray) -> FloatArray:
    """Return means without what rounding took them beyond the rewards that they are made of."""
    between: FloatArray = np.clip(means, rewards.min(axis=1), rewards.max(axis=1))
    return between


def _statistics(
    rewards: npt.ArrayLike,
    k: int | Sequence[int],
    statistic: Callable[[int, Group], FloatArray],
    *,
    selection: Any = None,
    answers: Any = None,
    groups: Any = None,
    rollouts: Any = None,
    rollout_reward: RolloutReward | None = None,
) -> FloatArray:
    """Return a statistic of k samples, (...,) or for several k (..., len(k))."""
    sizes = [as_k(size) for size in (k if np.ndim(k) else [k])]  # type: ignore[union-attr]
    layout, rows = sample_layout(rewards, groups, rollouts, rollout_reward)
    if layout.places is None and len(layout.shape) == 1 and rows.size > _LONG_GROUP:
        warnings.warn(
            f"rewards: {rows.size:,} in one dimension are taken for the samples of one prompt; "
            "give `groups`, the prompt of each, or the shape (prompts, samples)",
            stacklevel=3,
        )
    scores = None if selection is None else layout.rows("selection", selection)
    codes = None if answers is None else layout.codes("answers", answers)
    largest = max(sizes, default=1)
    refuse_k_above(largest, layout.width)
    layout.warn_of_fewer(largest, "their metric is NaN", depth=3)
    values = np.full((len(rows), len(sizes)), np.nan)
    for places, group in Group(rows, scores=scores, answers=codes).scored(1):
        for column, size in enumerate(sizes):
            if size <= places.shape[1]:
                with np.errstate(over="ignore", invalid="ignore"):
                    of_groups = statistic(size, group)
                if not np.isfinite(of_groups).all():
                    raise InvalidValueError("rewards: too large, the statistic overflows")
                prompts = places[:, 0] // layout.width
                values[prompts, column] = of_groups
    restored: FloatArray = layout.of_groups(values if np.ndim(k) else values[:, 0])
    return restored


def pass_at_k(
    num_samples: npt.ArrayLike, num_correct: npt.ArrayLike, k: npt.ArrayLike
) -> FloatArray:
    """Return 1 - C(n - c, k) / C(n, k), the share of k-subsets with a correct sample.

    `num_samples` (n), `num_correct` (c) and `k` broadcast together to the shape of the result. A
    rollout of several rows counts once in n and c; `max_at_k` of 0/1 rewards takes its `rollouts`.

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
    wrong = (correct < 0) | (correct > samples)
    if wrong.any():
        raise InvalidValueError(
            f"num_correct: must lie between 0 and num_samples, got {correct[wrong].flat[0]} "
            f"of {samples[wrong].flat[0]}"
        )
    estimates = np.empty(samples.shape)
    # Often few pairs of n and k are repeated for many prompts: a table of c serves each pair.
    pairs = np.unique(np.stack([samples.ravel(), sizes.ravel()]), axis=1).T
    for count, size in pairs.tolist():
        refuse_k_above(as_k(size), count)
        of_pair = (samples == count) & (sizes == size)
        estimates[of_pair] = hit_shares(count, size)[correct[of_pair]]
    return estimates


def passes(rewards: npt.ArrayLike, threshold: float = 1.0) -> npt.NDArray[np.bool_]:
    """Return whether each reward (...) reaches the threshold, but for rounding; NaN never does.

    A reward that adds 0.7, 0.2 and 0.1 for its parts is 0.9999999999999999 in floating point. The
    slack for it is a share of the threshold alone, so that 0 never reaches a threshold above 0.
    """
    slack = _SLACK * abs(threshold)
    return np.asarray(rewards, dtype=np.float64) >= threshold - slack


def _as_integers(field: str, values: npt.ArrayLike) -> npt.NDArray[np.int64]:
    numbers = as_floats(field, values)
    is_integer = np.isfinite(numbers) & (numbers == np.floor(numbers))
    if not is_integer.all():
        raise InvalidValueError(f"{field}: must be integers, got {numbers[~is_integer].flat[0]}")
    return numbers.astype(np.int64)
