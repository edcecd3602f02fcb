"""Groups of samples in the order that the formulas want, without those that have no score."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from maxatk.objectives.checks import FloatArray
from maxatk.objectives.order import OrderWeights

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

    @property
    def order(self) -> OrderWeights:
        """Return the order weights, for the formulas that are only used with them."""
        assert self.weights is not None
        return self.weights

    @property
    def codes(self) -> npt.NDArray[np.intp]:
        """Return the answers, for the formulas that are only used with them."""
        assert self.answers is not None
        return self.answers

    @property
    def gains(self) -> FloatArray:
        """Return the rewards above that of the first sample, the lowest: (P, n)."""
        return self.rewards - self.rewards[:, :1]

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
        rewards, answers = self.rewards.ravel()[places], self.answers
        return dataclasses.replace(
            self,
            rewards=rewards,
            deltas=self.deltas if self.deltas.size == 1 else self.deltas.ravel()[places],
            scores=None if self.scores is None else self.scores.ravel()[places],
            answers=None if answers is None else answers.ravel()[places],
        )


@dataclasses.dataclass(frozen=True)
class RawAdvantage:
    """Credit minus baseline before the scale, (P, n), and its slope in the own delta, (P, n).

    `values` has the own ratio removed; `values + deltas * slopes` has it included.
    """

    values: FloatArray
    slopes: FloatArray
