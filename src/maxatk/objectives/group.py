"""Groups of samples in order, without unscored ones, and the credits that have no order weights."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from maxatk.objectives.checks import FloatArray
from maxatk.objectives.order import OrderWeights
from maxatk.objectives.rule import RuleOf, advantages_of, rule_of

Places: TypeAlias = npt.NDArray[np.intp]

_UNUSED = OrderWeights.max(1)


@dataclasses.dataclass(frozen=True)
class Group:
    """Groups of one size in ascending order, of rewards or of scores that select, all (P, n)."""

    rewards: FloatArray
    # The clamped ratios minus one, or (1, 1) on-policy.
    deltas: FloatArray = dataclasses.field(default_factory=lambda: np.zeros((1, 1)))
    k: int = 1
    weights: OrderWeights = _UNUSED
    scores: FloatArray | None = None  # None where the rewards select
    answers: Places | None = None  # codes of the classes
    beta: float = 1.0  # the inverse temperature
    _kept: dict[RuleOf, FloatArray] = dataclasses.field(default_factory=dict)

    @property
    def equal(self) -> npt.NDArray[np.bool_]:
        """Return which groups have equal rewards, (P, 1)."""
        same: npt.NDArray[np.bool_] = self.rewards[:, :1] == self.rewards[:, -1:]
        if self.scores is not None:  # the rewards do not ascend
            same = (self.rewards == self.rewards[:, :1]).all(axis=1, keepdims=True)
        return same

    @functools.cached_property
    def centred_rewards(self) -> FloatArray:
        """Return the rewards minus their mean, (P, n)."""
        return centred(self.rewards)

    def on_policy(self, baseline: RuleOf) -> FloatArray:
        """Return the advantages (P, n) of a baseline of `rule` where every ratio is one."""
        if baseline not in self._kept:
            rule = rule_of(self.weights, baseline, self.rewards.shape[-1])
            self._kept[baseline] = advantages_of(self.rewards, self.scores, rule)
        return self._kept[baseline]

    def scored(self, least: int) -> Iterator[tuple[Places, Group]]:
        """Yield the groups with each number m >= least of scored samples, and their flat places.

        The places are (P', m): mostly a single array, m = n. Tied scores keep their order.
        """
        keys, scores = self.rewards, self.scores
        if scores is not None:
            keys = np.where(np.isnan(keys), np.nan, scores)
        missing, (prompts, n) = np.isnan(keys), keys.shape
        places = np.argsort(keys, axis=-1, kind=None if scores is None else "stable")  # NaN last
        places += np.arange(0, prompts * n, n)[:, None]
        if n >= least and not missing.any():
            yield places, self.at(places)
            return
        counts = n - missing.sum(axis=-1)
        for count in np.unique(counts[counts >= least]):
            own = places[counts == count, :count]
            yield own, self.at(own)

    def at(self, places: Places) -> Group:
        """Return the groups made of the samples at flat places (P', m)."""
        deltas = self.deltas if self.deltas.size == 1 else self.deltas.ravel()[places]
        scores = None if self.scores is None else self.scores.ravel()[places]
        answers = None if self.answers is None else self.answers.ravel()[places]
        rewards = self.rewards.ravel()[places]
        return Group(rewards, deltas, self.k, self.weights, scores, answers, self.beta)


def leave_one_out(group: Group) -> FloatArray:
    """Return the rewards minus the mean of the other samples' rewards (RLOO)."""
    n = group.rewards.shape[-1]
    above: FloatArray = group.centred_rewards * (n / (n - 1))
    return above


def of_best(group: Group, values: FloatArray) -> FloatArray:
    """Return values (P, n) of the samples with the best reward, 0 for the others (appendix A)."""
    return np.where(group.rewards == group.rewards[:, -1:], values, 0.0)


def best_second(group: Group) -> FloatArray:
    """Return BoN-max-second of appendix A: reward minus the second best distinct value, or 0."""
    top = group.rewards[:, -1:]
    second = np.where(group.rewards == top, -np.inf, group.rewards).max(axis=-1, keepdims=True)
    return of_best(group, group.rewards - np.where(np.isfinite(second), second, top))


def entropic_remove_one(group: Group) -> FloatArray:
    """Return log mean e^(b r) / b of all minus that of the others, b the inverse temperature."""
    n = group.rewards.shape[-1]
    shifted = group.beta * (group.rewards - group.rewards[:, -1:])
    before, after = (  # the others on both sides of the sample, so that nothing cancels
        np.logaddexp.accumulate(
            np.pad(x, [(0, 0), (1, 0)], constant_values=-np.inf)[:, :-1], axis=1
        )
        for x in (shifted, shifted[:, ::-1])
    )
    others = np.logaddexp(before, after[:, ::-1])
    whole = np.logaddexp(others[:, :1], shifted[:, :1])
    above: FloatArray = (whole - others - np.log(n / (n - 1))) / group.beta
    return above


def entropic_mean(group: Group) -> FloatArray:
    """Return (e^(b r) / sum e^(b r) - 1/n) / b: RS-GRPO, whose convention is n times this."""
    weights = np.exp(group.beta * (group.rewards - group.rewards[:, -1:]))
    return centred(weights / weights.sum(axis=-1, keepdims=True)) / group.beta


def centred(values: FloatArray) -> FloatArray:
    """Return values (P, n) minus their mean over the group."""
    difference: FloatArray = values - values.mean(axis=-1, keepdims=True)
    return difference


def root_sum_of_squares(values: FloatArray) -> FloatArray:
    """Return the root of the sum of squares on the last axis, (..., n) to (..., 1)."""
    largest = np.abs(values).max(axis=-1, keepdims=True)
    shares = values / np.where(largest == 0, 1.0, largest)  # whose squares stay within floats
    root: FloatArray = largest * np.sqrt(np.einsum("...i,...i->...", shares, shares)[..., None])
    return root
