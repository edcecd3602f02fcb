"""Statistics of k samples that are weighted sums of their ascending rewards."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from maxatk.check import is_list, is_number, one_of, require
from maxatk.errors import InvalidValueError
from maxatk.objectives.checks import FloatArray, as_k
from maxatk.objectives.subsets import max_weights

_LARGEST_SIZE = 1_000_000  # of a statistic that is written out, one weight a sample
_BETA_TERMS = 200  # more than enough for thousands of samples: it takes some root of them


@dataclasses.dataclass(frozen=True)
class OrderWeights:
    """Weights of the ascending rewards of k samples: one vector, or a mixture of max@k over k.

    Exactly one is given: `values` (k,), from the lowest to the highest reward, `maxima`, pairs
    (k, p) for the sum of p max@k, or `by_rank`, 1/rank on the whole group, rank 1 the best.

    Raises InvalidValueError for weights that are empty, not finite or all 0, and for others than
    such pairs.
    """

    values: tuple[float, ...] = ()
    maxima: tuple[tuple[int, float], ...] = ()
    by_rank: bool = False

    def __post_init__(self) -> None:
        are_pairs = is_list(self.maxima) and all(
            is_list(pair) and len(pair) == 2 for pair in self.maxima
        )
        require(are_pairs, "maxima", "a list of pairs (k, p)", self.maxima)
        require(isinstance(self.by_rank, bool), "by_rank", "True or False", self.by_rank)
        sizes = [_as_size(k) for k, _ in self.maxima]
        object.__setattr__(self, "values", _as_weights(self.values))
        shares = _as_weights([share for _, share in self.maxima])
        object.__setattr__(self, "maxima", tuple(zip(sizes, shares, strict=True)))
        forms = bool(self.values) + bool(self.maxima) + self.by_rank
        require(forms == 1, "weights", "a sequence of at least one number", self.values)
        if not self.by_rank and not any(self.values) and not any(shares):
            raise InvalidValueError("weights: must not all be 0")

    @property
    def size(self) -> int:
        """Return the largest k, hence the fewest samples that the statistic exists for."""
        return max((len(self.values), 1, *(k for k, _ in self.maxima)))

    @classmethod
    def max(cls, k: int) -> OrderWeights:
        """Return the weights of max@k."""
        return cls(maxima=((_as_size(k), 1.0),))

    @classmethod
    def min(cls, k: int) -> OrderWeights:
        """Return the weights of min@k, which is pass^k for 0/1 rewards."""
        return cls((1.0,) + (0.0,) * (_as_size(k) - 1))

    @classmethod
    def mean(cls, k: int) -> OrderWeights:
        """Return the weights of the mean of k."""
        return cls((1 / _as_size(k),) * k)

    @classmethod
    def top(cls, m: int, *, of: int) -> OrderWeights:
        """Return the weights of the mean of the m largest of k, 1 <= m <= k."""
        k = _as_size(of, field="of")
        require(_as_size(m, field="top") <= k, "top", f"from 1 to of={k}", m)
        return cls((0.0,) * (k - m) + (1 / m,) * m)

    @classmethod
    def quantile(cls, q: float, *, of: int) -> OrderWeights:
        """Return the weights of the quantile q of k, 0 <= q <= 1, interpolated as NumPy does."""
        k = _as_size(of, field="of")
        require(is_number(q) and 0 <= q <= 1, "quantile", "from 0 to 1", q)
        place = float(q) * (k - 1)  # between two ranks, each weighed by how near it is
        return cls(tuple(max(0.0, 1 - abs(place - m)) for m in range(k)))

    @classmethod
    def cvar(
        cls, share: float, *, of: int, tail: Literal["upper", "lower"] = "upper"
    ) -> OrderWeights:
        """Return the weights of the mean of a tail: that share of k, the last one in part."""
        k = _as_size(of, field="of")
        require(is_number(share) and 0 < share <= 1, "cvar", "above 0 and at most 1", share)
        one_of("tail", tail, ("upper", "lower"))
        size = float(share) * k
        ascending = [min(max(size - m, 0.0), 1.0) / size for m in range(k)]
        return cls(tuple(reversed(ascending) if tail == "upper" else ascending))

    @classmethod
    def trimmed(cls, m: int, *, of: int) -> OrderWeights:
        """Return the weights of the mean of k without the m lowest and the m highest, 2 m < k."""
        kept = _inner("trimmed", m, of)
        return cls((0.0,) * m + (1 / kept,) * kept + (0.0,) * m)

    @classmethod
    def winsorised(cls, m: int, *, of: int) -> OrderWeights:
        """Return the same as `trimmed`, those at the ends counted as the nearest that is kept."""
        weights = np.pad(np.ones(_inner("winsorised", m, of)), m)
        weights[m] += m
        weights[-m - 1] += m
        return cls(tuple(weights / of))

    @classmethod
    def harrell_davis(cls, q: float, *, of: int) -> OrderWeights:
        """Return the weights of the Harrell-Davis quantile q of k, 0 < q < 1: shares of a Beta."""
        k = _as_size(of, field="of")
        require(is_number(q) and 0 < q < 1, "harrell_davis", "above 0 and below 1", q)
        a = (k + 1) * float(q)
        b = (k + 1) * (1 - float(q))
        shares_below = [_beta_share(a, b, m / k) for m in range(k + 1)]
        return cls(tuple(np.diff(shares_below)))

    @classmethod
    def gini(cls, k: int) -> OrderWeights:
        """Return the weights of Gini's mean difference, the mean |r_i - r_j| of pairs of k >= 2."""
        k = _as_size(k)
        require(k >= 2, "gini", "an integer >= 2", k)
        return cls(tuple(2 * (2 * m - k + 1) / (k * (k - 1)) for m in range(k)))

    @classmethod
    def l_moment(cls, r: int) -> OrderWeights:
        """Return the weights of the r-th L-moment, of r samples: the mean, half of Gini's, ..."""
        r = _as_size(r, field="r")
        require(r <= 1000, "r", "at most 1,000: its weights overflow", r)
        return cls(tuple((-1) ** (r - 1 - m) * math.comb(r - 1, m) / r for m in range(r)))

    @classmethod
    def mixture(cls, shares: Mapping[int, float]) -> OrderWeights:
        """Return the weights of the sum of p max@k over {k: p}."""
        if not isinstance(shares, Mapping) or not shares:
            raise InvalidValueError(f"mixture: must map each k to its share, got {shares!r}")
        return cls(maxima=tuple(shares.items()))

    @classmethod
    def any_k(cls, upto: int) -> OrderWeights:
        """Return the weights of the mean of max@1 to max@k: for a k that is not known yet."""
        upto = _as_size(upto, field="upto")
        return cls(maxima=tuple((k, 1 / upto) for k in range(1, upto + 1)))

    @classmethod
    def harmonic(cls, upto: int | None = None) -> OrderWeights:
        """Return the weights of the sum of max@k / k, k up to `upto` or n (2602.02710, thm. 1)."""
        if upto is None:
            return cls(by_rank=True)
        return cls(maxima=tuple((k, 1 / k) for k in range(1, _as_size(upto, field="upto") + 1)))

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
        place_weights = np.zeros(n)
        for part in self.parts(n):
            place_weights += lifted(part, n)
        return place_weights


def _as_size(k: object, *, field: str = "k") -> int:
    size = as_k(k, field=field)
    require(size <= _LARGEST_SIZE, field, f"at most {_LARGEST_SIZE:,}", size)
    return size


def _inner(name: str, m: int, of: int) -> int:
    k = _as_size(of, field="of")
    if _as_size(m, field=name) > (k - 1) / 2:
        raise InvalidValueError(f"{name}: must leave one of={k} samples or more, got {m}")
    return k - 2 * m


def _beta_share(a: float, b: float, x: float) -> float:
    """Return the share of Beta(a, b) below x, by its continued fraction (DLMF 8.17.22)."""
    if x > (a + 1) / (a + b + 2):  # where the fraction of the other side converges faster
        return 1 - _beta_share(b, a, 1 - x)
    if x == 0:
        return 0.0
    fraction = 1.0
    for m in reversed(range(_BETA_TERMS)):
        even = (m + 1) * (b - m - 1) * x / ((a + 2 * m + 1) * (a + 2 * m + 2))
        odd = (a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        fraction = 1 - odd / (1 + even / fraction)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(scale + a * math.log(x) + b * math.log1p(-x)) / (a * fraction)


def lifted(weights: FloatArray, n: int) -> FloatArray:
    """Return the weights W (n,) of a group whose k-subsets are weighed by w (k,), 0 if n < k.

    W_j = sum_m w_m C(j-1, m-1) C(n-j, k-m) / C(n, k), in O(n (n - k)), and O(n) for a maximum.
    """
    k = len(weights)
    place_weights = np.zeros(n)
    if not 0 < k <= n:
        return place_weights
    if not weights[:-1].any():
        of_largest: FloatArray = weights[-1] * max_weights(n, k)
        return of_largest
    place_weights[:k] = weights
    places = np.arange(n)
    # From groups of `size` to groups of one more: a subset of `size` leaves one sample out, each
    # as likely as another. Place j keeps its weight where a later one is left out, and has that of
    # place j - 1 where an earlier one is.
    for size in range(k, n):
        moved = (size - places[: size + 1]) * place_weights[: size + 1]
        moved[1:] += places[1 : size + 1] * place_weights[:size]
        place_weights[: size + 1] = moved / (size + 1)
    return place_weights


def _as_weights(values: Sequence[float]) -> tuple[float, ...]:
    try:
        weights = tuple(map(float, values))
    except (TypeError, ValueError):
        raise InvalidValueError(f"weights: must be numbers, got {values!r}") from None
    for weight in weights:
        require(math.isfinite(weight), "weights", "finite", weight)
    return weights
