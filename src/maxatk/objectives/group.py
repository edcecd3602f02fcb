"""Groups of samples in ascending order, without those that could not be scored."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from maxatk.objectives.checks import FloatArray
from maxatk.objectives.order import OrderWeights
from maxatk.objectives.rule import MakeRule, advantages_of, rule_of

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
    # A scale and a fallback ask for the same advantages as the baseline.
    _advantages: dict[MakeRule, FloatArray] = dataclasses.field(default_factory=dict)

    @property
    def equal(self) -> npt.NDArray[np.bool_]:
        """Return which groups have equal rewards, (P, 1)."""
        ends_are_equal: npt.NDArray[np.bool_] = self.rewards[:, :1] == self.rewards[:, -1:]
        if self.scores is None:  # the rewards ascend
            return ends_are_equal
        all_are_equal: npt.NDArray[np.bool_]
        all_are_equal = (self.rewards == self.rewards[:, :1]).all(axis=1, keepdims=True)
        return all_are_equal

    @functools.cached_property
    def centred_rewards(self) -> FloatArray:
        """Return the rewards minus their mean, (P, n)."""
        return centred(self.rewards)

    def on_policy(self, make_rule: MakeRule) -> FloatArray:
        """Return the advantages (P, n) of a baseline of `rule` where every ratio is one."""
        if make_rule not in self._advantages:
            rule = rule_of(self.weights, make_rule, self.rewards.shape[-1])
            self._advantages[make_rule] = advantages_of(self.rewards, self.scores, rule)
        return self._advantages[make_rule]

    def scored(self, least: int) -> Iterator[tuple[Places, Group]]:
        """Yield the groups with each number m >= least of scored samples, and their flat places.

        The places are (P', m): mostly a single array, m = n. Tied scores keep their order.
        """
        keys = self.rewards
        if self.scores is not None:
            keys = np.where(np.isnan(self.rewards), np.nan, self.scores)
        missing = np.isnan(keys)
        prompts, n = keys.shape
        # NaN comes last. Tied rewards are worth the same in any order, tied scores are not.
        places = np.argsort(keys, axis=-1, kind=None if self.scores is None else "stable")
        places += np.arange(0, prompts * n, n)[:, None]
        if n >= least and not missing.any():
            yield places, self.at(places)
            return
        counts = n - missing.sum(axis=-1)
        for count in np.unique(counts[counts >= least]):
            scored_places = places[counts == count, :count]
            yield scored_places, self.at(scored_places)

    def at(self, places: Places) -> Group:
        """Return the groups made of the samples at flat places (P', m)."""
        return Group(
            rewards=self.rewards.ravel()[places],
            deltas=self.deltas if self.deltas.size == 1 else self.deltas.ravel()[places],
            k=self.k,
            weights=self.weights,
            scores=None if self.scores is None else self.scores.ravel()[places],
            answers=None if self.answers is None else self.answers.ravel()[places],
            beta=self.beta,
        )


def centred(values: FloatArray) -> FloatArray:
    """Return values (P, n) minus their mean over the group."""
    difference: FloatArray = values - values.mean(axis=-1, keepdims=True)
    return difference


def root_sum_of_squares(values: FloatArray) -> FloatArray:
    """Return the root of the sum of squares on the last axis, (..., n) to (..., 1)."""
    largest = np.abs(values).max(axis=-1, keepdims=True)
    shares = values / np.where(largest == 0, 1.0, largest)  # whose squares stay within floats
    squares = np.einsum("...i,...i->...", shares, shares)[..., None]
    root: FloatArray = largest * np.sqrt(squares)
    return root
