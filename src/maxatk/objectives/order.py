"""Statistics of k samples that are weighted sums of their ascending rewards.

Weights w of a k-subset are weights W of the whole group of n: the mean over all k-subsets of
sum_m w_m r_(m) is sum_j W_j r_(j), with W_j = sum_m w_m C(j-1, m-1) C(n-j, k-m) / C(n, k).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from maxatk.errors import InvalidValueError, unknown_name
from maxatk.objectives.checks import FloatArray, as_k, is_number
from maxatk.objectives.subsets import max_weights


@dataclasses.dataclass(frozen=True)
class OrderWeights:
    """Weights of the ascending rewards of k samples: one vector, or a mixture of max@k over k.

    `values` (k,) weigh the lowest to the highest reward of a k-subset. `maxima` are pairs (k, p)
    and stand for the sum of p max@k. `by_rank` stands for weights 1/rank on the whole group,
    rank 1 the best. Exactly one of the three is given; the constructors below give it.

    Raises InvalidValueError for weights that are empty or not finite.
    """

    values: tuple[float, ...] = ()
    maxima: tuple[tuple[int, float], ...] = ()
    by_rank: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", _as_weights(self.values))
        if bool(self.values) + bool(self.maxima) + self.by_rank != 1:
            raise InvalidValueError(
                f"weights: must be a sequence of at least one number, got {self.values!r}"
            )

    @property
    def size(self) -> int:
        """Return the largest k, hence the fewest samples that the statistic exists for."""
        return max((len(self.values), 1, *(k for k, _ in self.maxima)))

    @classmethod
    def max(cls, k: int) -> OrderWeights:
        """Return the weights of max@k."""
        return cls(maxima=((as_k(k), 1.0),))

    @classmethod
    def min(cls, k: int) -> OrderWeights:
        """Return the weights of min@k, which is pass^k for 0/1 rewards."""
        return cls((1.0,) + (0.0,) * (as_k(k) - 1))

    @classmethod
    def mean(cls, k: int) -> OrderWeights:
        """Return the weights of the mean of k."""
        return cls((1 / as_k(k),) * k)

    @classmethod
    def top(cls, m: int, *, of: int) -> OrderWeights:
        """Return the weights of the mean of the m largest of k, 1 <= m <= k."""
        k = as_k(of, field="of")
        if as_k(m, field="top") > k:
            raise InvalidValueError(f"top: must be from 1 to of={k}, got {m}")
        return cls((0.0,) * (k - m) + (1 / m,) * m)

    @classmethod
    def quantile(cls, q: float, *, of: int) -> OrderWeights:
        """Return the weights of the quantile q of k, 0 <= q <= 1, interpolated as NumPy does."""
        k = as_k(of, field="of")
        if not (is_number(q) and 0 <= q <= 1):
            raise InvalidValueError(f"quantile: must be from 0 to 1, got {q!r}")
        place = q * (k - 1)
        return cls(tuple(max(0.0, 1 - abs(place - m)) for m in range(k)))

    @classmethod
    def cvar(
        cls, share: float, *, of: int, tail: Literal["upper", "lower"] = "upper"
    ) -> OrderWeights:
        """Return the weights of the mean of a tail: that share of k, the last one in part."""
        k = as_k(of, field="of")
        if not (is_number(share) and 0 < share <= 1):
            raise InvalidValueError(f"cvar: must be above 0 and at most 1, got {share!r}")
        if tail not in ("upper", "lower"):
            raise unknown_name("tail", str(tail), ("upper", "lower"))
        ascending = [min(max(share * k - m, 0.0), 1.0) / (share * k) for m in range(k)]
        return cls(tuple(reversed(ascending) if tail == "upper" else ascending))

    @classmethod
    def mixture(cls, shares: Mapping[int, float]) -> OrderWeights:
        """Return the weights of the sum of p max@k over {k: p}."""
        if not isinstance(shares, Mapping) or not shares:
            raise InvalidValueError(f"mixture: must map each k to its share, got {shares!r}")
        weights = _as_weights(tuple(shares.values()))
        return cls(maxima=tuple(zip(map(as_k, shares), weights, strict=True)))

    @classmethod
    def any_k(cls, upto: int) -> OrderWeights:
        """Return the weights of the mean of max@1 to max@k: for a k that is not known yet."""
        upto = as_k(upto, field="upto")
        return cls(maxima=tuple((k, 1 / upto) for k in range(1, upto + 1)))

    @classmethod
    def harmonic(cls, upto: int | None = None) -> OrderWeights:
        """Return the weights of the sum of max@k / k, k up to `upto` or the size of the group.

        Over the whole group that is 1 / rank from the top. For 0/1 rewards the sum is the
        expansion of the log-likelihood of success (MaxRL, 2602.02710, theorem 1) to order n.
        """
        if upto is None:
            return cls(by_rank=True)
        return cls(maxima=tuple((k, 1 / k) for k in range(1, as_k(upto, field="upto") + 1)))

    def parts(self, n: int) -> Iterator[FloatArray]:
        """Yield the weight vectors (k,) that the statistic of a group of n is the sum of."""
        if self.by_rank:
            yield 1 / np.arange(n, 0, -1)
        elif self.values:
            yield np.array(self.values)
        for k, share in self.maxima:
            part = np.zeros(k)
            part[-1] = share
            yield part

    def of_group(self, n: int) -> FloatArray:
        """Return the weights W (n,) of the whole group in ascending order, n >= size."""
        whole = np.zeros(n)
        for part in self.parts(n):
            whole += lifted(part, n)
        return whole


def lifted(weights: FloatArray, n: int) -> FloatArray:
    """Return the weights (n,) of a group whose k-subsets are weighed by `weights` (k,).

    A k-subset of k + 1 samples leaves one out, each as likely as another: that lifts k to k + 1
    by a convex combination of neighbours, in which nothing cancels and nothing overflows.
    O(n (n - k)), and O(n) for a maximum. Where there are no k-subsets the weights are 0.
    """
    k = len(weights)
    whole, places = np.zeros(n), np.arange(n)
    if not 0 < k <= n:
        return whole
    if not weights[:-1].any():
        top: FloatArray = weights[-1] * max_weights(n, k)
        return top
    whole[:k] = weights
    for size in range(k, n):
        head = (size - places[: size + 1]) * whole[: size + 1]
        head[1:] += places[1 : size + 1] * whole[:size]
        whole[: size + 1] = head / (size + 1)
    return whole


def _as_weights(values: Sequence[float]) -> tuple[float, ...]:
    try:
        weights = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        raise InvalidValueError(f"weights: must be numbers, got {values!r}") from None
    for weight in weights:
        if not math.isfinite(weight):
            raise InvalidValueError(f"weights: must be finite, got {weight}")
    return weights
