"""Groups of samples in the order that the formulas want, without those that have no score.

The functions are the formulas of credits that look at the rewards of the whole group: they have no
k and no order weights, and return credit minus baseline, (P, n).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from maxatk.objectives.checks import FloatArray
from maxatk.objectives.order import OrderWeights
from maxatk.objectives.rule import RuleOf, advantages_of, rule_of

Places: TypeAlias = npt.NDArray[np.intp]


@dataclasses.dataclass(frozen=True)
class Group:
    """Groups of one size in ascending order, of the rewards or of the scores that select.

    `rewards`, `scores` (None: the rewards select), `answers` (codes of classes, or None) and
    `deltas` are (P, n). `deltas` are the clamped ratios minus one; on-policy they may be a single
    0 of shape (1, 1). `weights` is None for a statistic that has no order weights, `beta` the
    inverse temperature of the entropic one.
    """

    rewards: FloatArray
    deltas: FloatArray = dataclasses.field(default_factory=lambda: np.zeros((1, 1)))
    k: int = 1
    weights: OrderWeights | None = None
    scores: FloatArray | None = None
    answers: npt.NDArray[np.intp] | None = None
    beta: float = 1.0
    _kept: dict[RuleOf, FloatArray] = dataclasses.field(default_factory=dict)

    @property
    def order(self) -> OrderWeights:
        """Return the order weights, for the formulas that are only used with them."""
        assert self.weights is not None
        return self.weights

    @property
    def ratios(self) -> FloatArray:
        """Return the clamped ratios, (P, n), for the formulas that are only used with them."""
        return 1 + self.deltas

    @property
    def gains(self) -> FloatArray:
        """Return the rewards above that of the first sample, the lowest: (P, n)."""
        return self.rewards - self.rewards[:, :1]

    @property
    def equal(self) -> npt.NDArray[np.bool_]:
        """Return which groups have equal rewards, (P, 1)."""
        equal: npt.NDArray[np.bool_] = self.rewards[:, :1] == self.rewards[:, -1:]
        if self.scores is not None:  # the rewards do not ascend
            equal = (self.rewards == self.rewards[:, :1]).all(axis=1, keepdims=True)
        return equal

    @functools.cached_property
    def centred_rewards(self) -> FloatArray:
        """Return the rewards minus their mean, (P, n)."""
        return centred(self.rewards)

    def on_policy(self, baseline: RuleOf) -> FloatArray:
        """Return the advantages (P, n) of a baseline of `rule` where every ratio is one."""
        if baseline not in self._kept:
            rule = rule_of(self.order, baseline, self.rewards.shape[-1])
            self._kept[baseline] = advantages_of(self.rewards, self.scores, rule)
        return self._kept[baseline]

    def scored_places(self, least: int) -> Iterator[Places]:
        """Yield the flat places (P', m), in order, of the groups with each m >= least.

        One array for every number m of scored samples: mostly a single one, m = n. The order of
        ties of the rewards is left open, since no advantage depends on it; that of scores is that
        of the samples.
        """
        missing, keys = np.isnan(self.rewards), self.rewards
        kind: Literal["stable"] | None = None if self.scores is None else "stable"
        if self.scores is not None:
            missing = missing | np.isnan(self.scores)
            keys = np.where(missing, np.nan, self.scores)
        prompts, n = keys.shape
        places = np.argsort(keys, axis=-1, kind=kind)  # NaN goes last
        places += np.arange(0, prompts * n, n)[:, None]
        if n < least:
            return
        if not missing.any():
            yield places
            return
        scored = n - missing.sum(axis=-1)
        for count in np.unique(scored):
            if count >= least:
                yield places[scored == count, :count]

    def at(self, places: Places) -> Group:
        """Return the groups made of the samples at flat places (P', m)."""
        return Group(
            self.rewards.ravel()[places],
            self.deltas if self.deltas.size == 1 else self.deltas.ravel()[places],
            self.k,
            self.weights,
            None if self.scores is None else self.scores.ravel()[places],
            None if self.answers is None else self.answers.ravel()[places],
            self.beta,
        )

    def in_order(self, order: Places) -> Group:
        """Return the groups, with ratios, in an order (P, n) of their places and without ties."""
        return dataclasses.replace(
            self,
            rewards=np.take_along_axis(self.rewards, order, 1),
            deltas=np.take_along_axis(self.deltas, order, 1),
            scores=np.broadcast_to(np.arange(float(order.shape[1])), order.shape),
            _kept={},
        )


def reward_leave_one_out(group: Group) -> FloatArray:
    """Return the rewards minus the mean of the other samples' rewards (RLOO)."""
    n = group.rewards.shape[-1]
    above: FloatArray = group.centred_rewards * (n / (n - 1))
    return above


def best(group: Group) -> FloatArray:
    """Return the reward of the best samples, 0 for the others."""
    return np.where(_is_best(group), group.rewards, 0.0)


def best_mean(group: Group) -> FloatArray:
    """Return BoN-max-mean of appendix A: reward minus mean for the best samples, else 0."""
    return np.where(_is_best(group), group.centred_rewards, 0.0)


def best_second(group: Group) -> FloatArray:
    """Return BoN-max-second of appendix A: reward minus the second best distinct value, or 0."""
    is_best = _is_best(group)
    second = np.where(is_best, -np.inf, group.rewards).max(axis=-1, keepdims=True)
    gap = group.rewards - np.where(np.isfinite(second), second, group.rewards[:, -1:])
    return np.where(is_best, gap, 0.0)


def entropic_remove_one(group: Group) -> FloatArray:
    """Return log mean e^(b r) / b of all minus that of the others, b the inverse temperature.

    The others' sum is put together from both sides of the sample: nothing cancels.
    """
    n = group.rewards.shape[-1]
    shifted = group.beta * (group.rewards - group.rewards[:, -1:])
    before, after = (
        np.logaddexp.accumulate(
            np.pad(x, [(0, 0), (1, 0)], constant_values=-np.inf)[:, :-1], axis=1
        )
        for x in (shifted, shifted[:, ::-1])
    )
    others = np.logaddexp(before, after[:, ::-1])
    whole = np.logaddexp(others[:, :1], shifted[:, :1])
    value: FloatArray = (whole - others - np.log(n / (n - 1))) / group.beta
    return value


def entropic_mean(group: Group) -> FloatArray:
    """Return (e^(b r) / sum e^(b r) - 1/n) / b: RS-GRPO, whose convention is n times this."""
    weights = np.exp(group.beta * (group.rewards - group.rewards[:, -1:]))
    shares: FloatArray = weights / weights.sum(axis=-1, keepdims=True)
    relative: FloatArray = centred(shares) / group.beta
    return relative


def _is_best(group: Group) -> npt.NDArray[np.bool_]:
    top: npt.NDArray[np.bool_] = group.rewards == group.rewards[:, -1:]
    return top


def centred(values: FloatArray) -> FloatArray:
    """Return values (P, n) minus their mean over the group."""
    difference: FloatArray = values - values.mean(axis=-1, keepdims=True)
    return difference


def root_sum_of_squares(values: FloatArray) -> FloatArray:
    """Return the root of the sum of squares on the last axis, (..., n) to (..., 1).

    The squares are those of the values over the largest of them: none overflows or underflows.
    """
    largest = np.abs(values).max(axis=-1, keepdims=True)
    shares = values / np.where(largest == 0, 1.0, largest)
    root: FloatArray = largest * np.sqrt(np.einsum("...i,...i->...", shares, shares)[..., None])
    return root
