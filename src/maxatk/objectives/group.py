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
from maxatk.objectives.rule import advantages_of, rule_of, selected_of, steps_of

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

    @functools.cached_property
    def credits(self) -> FloatArray:
        """Return the on-policy credits (P, n), those of eq. (9) for a maximum."""
        return self.on_policy("none")

    @functools.cached_property
    def steps(self) -> FloatArray:
        """Return the first reward and the steps between neighbours, (P, n)."""
        return steps_of(self.rewards)

    def on_policy(self, baseline: str) -> FloatArray:
        """Return the advantages (P, n) of a name in `RULES` where every ratio is one."""
        rule = rule_of(self.order, baseline, self.rewards.shape[-1])
        if self.scores is not None and (self.scores[:, 1:] == self.scores[:, :-1]).any():
            return selected_of(self.rewards, self.scores, rule)
        return advantages_of(self.steps, rule)

    @property
    def equal(self) -> npt.NDArray[np.bool_]:
        """Return which groups have equal rewards, (P, 1)."""
        equal: npt.NDArray[np.bool_] = self.rewards[:, :1] == self.rewards[:, -1:]
        if self.scores is not None:  # the rewards do not ascend
            equal = (self.rewards == self.rewards[:, :1]).all(axis=1, keepdims=True)
        return equal

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
        return Group(
            self.rewards.ravel()[places],
            self.deltas if self.deltas.size == 1 else self.deltas.ravel()[places],
            self.k,
            self.weights,
            None if self.scores is None else self.scores.ravel()[places],
            None if self.answers is None else self.answers.ravel()[places],
            self.beta,
        )


@dataclasses.dataclass(frozen=True)
class RawAdvantage:
    """Credit minus baseline before the scale, (P, n), and its slope in the own delta, (P, n).

    `values` has the own ratio removed; `values + deltas * slopes` has it included.
    """

    values: FloatArray
    slopes: FloatArray
