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

from maxatk.objectives.checks import FloatArray
from maxatk.objectives.subsets import (
    max_weights,
    pair_weights,
    sums_after,
    sums_before,
    triple_weights,
)
from maxatk.objectives.symmetric import joined_sums, prefix_means

Correction: TypeAlias = Literal["none", "first_order", "exact"]


@dataclasses.dataclass(frozen=True)
class Group:
    """Groups of one size in ascending order: rewards (P, n), deltas (P, n) and k <= n.

    `deltas` are the clamped ratios minus one, zero on-policy. k is not looked at by the credits
    that have no use for it.
    """

    rewards: FloatArray
    deltas: FloatArray
    k: int

    @property
    def gains(self) -> FloatArray:
        """Return the rewards above the group's lowest, (P, n): never negative."""
        return self.rewards - self.rewards[:, :1]


@dataclasses.dataclass(frozen=True)
class Credit:
    """The credits of a group's gains, those of a constant reward of one, and their slopes.

    All are (P, n). Credits are linear in the rewards, so those of the rewards themselves are
    `values + lowest * units`; computing them this way keeps every sum free of cancellation when
    rewards are negative.
    """

    values: FloatArray
    units: FloatArray
    slopes: FloatArray
    unit_slopes: FloatArray

    def shifted(self, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the credits and slopes (P, n) of the gains plus a constant (P, 1)."""
        return self.values + shift * self.units, self.slopes + shift * self.unit_slopes


def on_policy_credits(group: Group) -> Credit:
    """Return eq. (9): a diagonal term and a suffix sum, O(n)."""
    gains, k = group.gains, group.k
    n = gains.shape[-1]
    values = gains * max_weights(n, k) + sums_after(gains * pair_weights(n, k))
    units = np.full_like(gains, k / n)
    return Credit(values, units, values, units)


def first_order_credits(group: Group) -> Credit:
    """Return the expansion of section 3.3 and appendix E with the own delta_i set to 0, O(n)."""
    gains, deltas, k = group.gains, group.deltas, group.k
    n = gains.shape[-1]
    pair, triple, earlier = pair_weights(n, k), triple_weights(n, k), sums_before(deltas)
    diagonal = max_weights(n, k) + pair * earlier
    others = sums_after(gains * (pair * (1 + deltas) + triple * earlier))
    # The sums of delta over the samples before j > i count i itself, which must not be there.
    values = gains * diagonal + others - deltas * sums_after(gains * triple)
    rest = deltas.sum(axis=-1, keepdims=True) - deltas
    units = k / n + (k * (k - 1) / (n * max(n - 1, 1))) * rest
    plain = on_policy_credits(group)
    return Credit(values, units, plain.values, plain.units)


def exact_credits(group: Group) -> Credit:
    """Return eq. (10) exactly, the own ratio removed: O(n k), see `symmetric.joined_sums`."""
    gains = group.gains
    both = np.stack([gains, np.ones_like(gains)])
    values, units = joined_sums(both, 1 + group.deltas, group.k)
    return Credit(values, units, values, units)


def on_policy_masses(group: Group) -> FloatArray:
    """Return C(j-1, k-1) / C(n, k), (1, n): the weight of the (k-1)-subsets before sample j."""
    return max_weights(group.rewards.shape[-1], group.k)[None]


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
