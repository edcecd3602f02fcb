"""How many k-subsets there are: the weights of eq. (9) and of the first-order expansion.

The samples of a group are numbered j = 1..n by ascending reward. Every count is divided by C(n, k)
from the start, as a running product of fractions: any n works, and the smallest weights underflow
to zero. Training asks for the same n and k at every step, so results are kept, read-only.
"""

from __future__ import annotations

import functools

import numpy as np

from maxatk.objectives.checks import FloatArray

_KEPT = 16  # results of each function, of 8 n bytes


@functools.lru_cache(_KEPT)
def max_weights(n: int, k: int) -> FloatArray:
    """Return C(j-1, k-1) / C(n, k), (n,), w_jj of eq. (9): the k-subsets whose largest is j."""
    weights = np.zeros(n)
    # The largest of all is the largest of k/n of the subsets; from j to j - 1 the share falls by
    # C(j-2, k-1) / C(j-1, k-1) = (j - k) / (j - 1).
    j = np.arange(n, k, -1)
    falling = np.concatenate([[k / n], (j - k) / (j - 1)])
    weights[k - 1 :] = np.cumprod(falling)[::-1]
    weights.flags.writeable = False
    return weights


@functools.lru_cache(_KEPT)
def pair_weights(n: int, k: int) -> FloatArray:
    """Return C(j-2, k-2) / C(n, k) for j = 1..n, shape (n,): w_ij of eq. (9) for any i < j."""
    weights: FloatArray = max_weights(n, k) * (k - 1) / np.maximum(np.arange(n), 1)
    weights.flags.writeable = False
    return weights


def triple_weights(n: int, k: int) -> FloatArray:
    """Return C(j-3, k-3) / C(n, k) for j = 1..n, shape (n,): the last count of appendix E."""
    return pair_weights(n, k) * max(k - 2, 0) / np.maximum(np.arange(-1, n - 1), 1)


@functools.lru_cache(2)  # 8 n k bytes each
def shares_below(n: int, k: int) -> FloatArray:
    """Return C(l, q) C(n-l, k-q) / C(n, k), (n+1, k+1): the k-subsets with q of the l lowest.

    A row is a running product of fractions, taken in logarithms from its largest entry.
    """
    low = np.arange(n + 1)[:, None]
    q = np.arange(k)
    fractions = (low - q) * (k - q) / ((q + 1.0) * np.maximum(n - low - k + q + 1, 1))
    # A subset has at least as many of the lowest as do not fit among the highest, at most all.
    fewest = np.maximum(low - (n - k), 0)
    most = np.minimum(low, k)
    possible = (q >= fewest) & (q < most)
    logs = np.zeros((n + 1, k + 1))
    np.cumsum(np.log(np.where(possible, fractions, 1.0)), axis=1, out=logs[:, 1:])
    members = np.arange(k + 1)
    logs[(members < fewest) | (members > most)] = -np.inf
    shares: FloatArray = np.exp(logs - logs.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    shares.flags.writeable = False
    return shares


def hit_shares(n: int, k: int) -> FloatArray:
    """Return 1 - C(n-c, k) / C(n, k) for c = 0..n, (n+1,): the subsets that hold one of c."""
    # A subset holds one of the c highest where its largest is one of them: a sum of positive terms.
    shares = np.concatenate([[0.0], np.cumsum(max_weights(n, k)[::-1])])
    shares[n - k + 1 :] = 1.0  # no k-subset fits into the others
    capped: FloatArray = np.minimum(shares, 1.0)
    return capped


def shares_of_draws(n: int, rates: FloatArray) -> FloatArray:
    """Return the chance of 0..n successes in n draws at each rate, (rates, n+1)."""
    log_factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    hits = np.arange(n + 1)
    misses = n - hits
    with np.errstate(divide="ignore", invalid="ignore"):  # rates of 0 and 1, 0 log 0 = 0
        right = np.where(hits > 0, hits * np.log(rates)[:, None], 0.0)
        wrong = np.where(misses > 0, misses * np.log1p(-rates)[:, None], 0.0)
    log_ways = log_factorials[n] - log_factorials[hits] - log_factorials[misses]
    chances: FloatArray = np.exp(log_ways + right + wrong)
    return chances


def sums_before(values: FloatArray) -> FloatArray:
    """Return at each place the sum of the values before it on the last axis; same shape."""
    sums = np.zeros_like(values)
    np.cumsum(values[..., :-1], axis=-1, out=sums[..., 1:])
    return sums


def sums_after(values: FloatArray) -> FloatArray:
    """Return at each place the sum of the values after it on the last axis; same shape."""
    return sums_before(values[..., ::-1])[..., ::-1]
