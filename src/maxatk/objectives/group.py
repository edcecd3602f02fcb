"""Groups of samples in the order that the formulas want, without those that have no score."""

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
    deltas: FloatArray
    k: int
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
