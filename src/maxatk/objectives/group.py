"""Groups of samples in the order that the formulas want, without those that have no score."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from maxatk.objectives.checks import FloatArray
from maxatk.objectives.order import OrderWeights

Places: TypeAlias = npt.NDArray[np.intp]


@dataclasses.dataclass(frozen=True)
class Group:
    """Groups of one size in ascending order: rewards and deltas (P, n), k and order weights.

    `deltas` are the clamped ratios minus one; on-policy they may be a single 0 of shape (1, 1).
    `weights` is None for a statistic that has no order weights.
    """

    rewards: FloatArray
    deltas: FloatArray
    k: int
    weights: OrderWeights | None = None

    @property
    def order(self) -> OrderWeights:
        """Return the order weights, for the formulas that are only used with them."""
        assert self.weights is not None
        return self.weights

    @property
    def gains(self) -> FloatArray:
        """Return the rewards above the group's lowest, (P, n): never negative."""
        return self.rewards - self.rewards[:, :1]


@dataclasses.dataclass(frozen=True)
class RawAdvantage:
    """Credit minus baseline before the scale, (P, n), and its slope in the own delta, (P, n).

    `values` has the own ratio removed; `values + deltas * slopes` has it included.
    """

    values: FloatArray
    slopes: FloatArray


def sorted_groups(scores: FloatArray, least: int) -> Iterator[Places]:
    """Yield the flat places (P', m), ascending by score, of the groups with each m >= least.

    One array for every number m of scored samples: mostly a single one, m = n. The order of ties
    is left open, since no advantage depends on it.
    """
    prompts, n = scores.shape
    places = np.argsort(scores, axis=-1)  # NaN goes last
    places += np.arange(0, prompts * n, n)[:, None]
    missing = np.isnan(scores)
    if not missing.any():
        if n >= least:
            yield places
        return
    scored = n - missing.sum(axis=-1)
    for count in np.unique(scored):
        if count >= least:
            yield places[scored == count, :count]


def taken(values: FloatArray, places: Places) -> FloatArray:
    """Return the values at flat places; a single value stands for all places."""
    return values if values.size == 1 else values.ravel()[places]
