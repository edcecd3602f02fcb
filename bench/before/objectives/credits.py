"""The max@k credit of every sample, on-policy and with the two off-policy corrections.

A group here is sorted: rewards ascend on the last axis, and the ratios go with them. The credit
c_i is what multiplies rho_i grad log pi(y_i) in the gradient of max@k: the weight of eq. (9) or
(10) with the sample's own ratio removed, so that a surrogate that carries rho_i counts it once.

Every correction weighs a (k-1)-subset J of the other samples by some omega(J):

    none: 1        first_order: 1 + sum of delta over J        exact: product of rho over J

and c_i = (1/C(n,k)) sum_J omega(J) max(r_i, max J). What the sample's own delta_i adds is linear
too: the weight with the own ratio in it is c_i + delta_i slope_i, where the slope is c_i itself
for the products and the on-policy credit for the first-order expansion.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import numpy as np

from before.objectives.checks import FloatArray
from before.objectives.subsets import (
    max_weights,
    pair_weights,
    sums_after,
    sums_before,
    triple_weights,
    weight_matrix,
)
from before.objectives.symmetric import joined_sums, prefix_means

SHORT = 64
"""Up to this many samples a product with a triangular matrix is faster than a running sum."""

Correction: TypeAlias = Literal["none", "first_order", "exact"]


@dataclasses.dataclass(frozen=True)
class Group:
    """Groups of one size in ascending order: rewards (P, n), deltas (P, n) and k <= n.

    `deltas` are the clamped ratios minus one; on-policy they may be a single 0 of shape (1, 1).
    k is not looked at by the credits that have no use for it.
    """

    rewards: FloatArray
    deltas: FloatArray
    k: int

    @property
    def gains(self) -> FloatArray:
        """Return the rewards above the group's lowest, (P, n): never negative."""
        return self.rewards - self.rewards[:, :1]

    def climbed(self, weights: FloatArray) -> FloatArray:
        """Return the weighted steps of the rewards up to each sample, summed: (P, n).

        `weights` are (n,) or (P, n), one for the step up to each sample; the first is not used.
        """
        flat, steps = self.rewards.ravel(), np.empty(self.rewards.shape)
        # As one long row, which is faster than P short ones; the joints are overwritten.
        np.subtract(flat[1:], flat[:-1], out=steps.ravel()[1:])
        steps[:, 0] = 0.0
        if weights.ndim == 1 and len(weights) <= SHORT:
            return steps @ np.triu(np.repeat(weights[:, None], len(weights), axis=1))
        steps *= weights
        np.cumsum(steps, axis=-1, out=steps)
        return steps


@dataclasses.dataclass(frozen=True)
class Credit:
    """The credits of a group's rewards, those of a constant reward of one, and their slopes.

    All are (P, n), or (1, 1) where one number stands for every sample.
    """

    values: FloatArray
    units: FloatArray
    slopes: FloatArray
    unit_slopes: FloatArray


def on_policy_credits(group: Group) -> Credit:
    """Return eq. (9), O(n): the lowest sample's sum, then w_jj (r_{j+1} - r_j) more at each step.

    By Pascal's rule that is what two neighbours differ by. Groups of up to `SHORT` samples go
    through the matrix w_ij of eq. (9) instead.
    """
    n, k = group.rewards.shape[-1], group.k
    if n <= SHORT:
        values = group.rewards @ weight_matrix(n, k)
    else:
        weights, shared = max_weights(n, k), pair_weights(n, k)
        values = group.climbed(np.concatenate([[0.0], weights[:-1]]))
        values += (group.rewards[:, 1:] @ shared[1:] + group.rewards[:, 0] * weights[0])[:, None]
    units = np.full((1, 1), k / n)
    return Credit(values, units, values, units)


def first_order_credits(group: Group) -> Credit:
    """Return the expansion of section 3.3 and appendix E with the own delta_i set to 0, O(n)."""
    rewards, deltas, k = group.rewards, group.deltas, group.k
    n = rewards.shape[-1]
    pair, triple, earlier = pair_weights(n, k), triple_weights(n, k), sums_before(deltas)
    diagonal = max_weights(n, k) + pair * earlier
    others = sums_after(rewards * (pair * (1 + deltas) + triple * earlier))
    # The sums of delta over the samples before j > i count i itself, which must not be there.
    values = rewards * diagonal + others - deltas * sums_after(rewards * triple)
    rest = deltas.sum(axis=-1, keepdims=True) - deltas
    units = k / n + (k * (k - 1) / (n * max(n - 1, 1))) * rest
    plain = on_policy_credits(group)
    return Credit(values, units, plain.values, plain.units)


def exact_credits(group: Group) -> Credit:
    """Return eq. (10) exactly, the own ratio removed: O(n k), see `symmetric.joined_sums`.

    The credits of the rewards above the group's lowest and those of a constant reward are computed
    apart and put together: without a sign in it, neither sum cancels.
    """
    gains = group.gains
    both = np.stack([gains, np.ones_like(gains)])
    values, units = joined_sums(both, 1 + group.deltas, group.k)
    values = values + group.rewards[:, :1] * units
    return Credit(values, units, values, units)


def on_policy_masses(group: Group) -> FloatArray:
    """Return C(j-1, k-1) / C(n, k), (n,): the weight of the (k-1)-subsets before sample j."""
    return max_weights(group.rewards.shape[-1], group.k)


def first_order_masses(group: Group) -> FloatArray:
    """Return the weight 1 + sum of delta of the (k-1)-subsets before each sample, (P, n)."""
    n = group.rewards.shape[-1]
    return max_weights(n, group.k) + pair_weights(n, group.k) * sums_before(group.deltas)


def exact_masses(group: Group) -> FloatArray:
    """Return the weight rho(J) of the (k-1)-subsets J before each sample, (P, n)."""
    weights = max_weights(group.rewards.shape[-1], group.k)
    masses: FloatArray = weights * prefix_means(1 + group.deltas, group.k - 1)
    return masses


CREDITS: Mapping[Correction, Callable[[Group], Credit]] = {
    "none": on_policy_credits,
    "first_order": first_order_credits,
    "exact": exact_credits,
}
"""The credits by the name of the correction."""

MASSES: Mapping[Correction, Callable[[Group], FloatArray]] = {
    "none": on_policy_masses,
    "first_order": first_order_masses,
    "exact": exact_masses,
}
"""(1/C(n,k)) times the sum of omega(J) over the (k-1)-subsets J of the samples before each one."""
