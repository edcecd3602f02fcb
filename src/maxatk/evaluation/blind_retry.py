"""The best of k tries that are each made once more after a failed visible test, without feedback.

It needs no new samples: a second try that is told nothing is an independent sample of the problem.
A table of models that are told what failed has to stand beside it, since choosing by the visible
tests alone may be worth as much.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from maxatk.statistics.intervals import FloatArray

VISIBLE_TESTS = "visible_tests"  # the column of stored scores with the share of them that passed


def retried_max_at_k(rewards: FloatArray, visible: FloatArray, ks: Sequence[int]) -> FloatArray:
    """Return the expected best reward of k tries, each with one blind retry, without bias: (P, K).

    A try is worth y(i, j) = v_i r_i + (1 - v_i) r_j for two independent samples i and j of rewards
    r, where v_i is 1 if i passes all visible tests. For k = 1 the estimate is the mean over the
    ordered pairs of distinct samples, 1 / (n (n - 1)) sum_{i != j} y(i, j). For any k it is the
    mean of the largest of y(i_1, j_1), ..., y(i_k, j_k) over all 2k distinct samples in any order.

    That mean is sum_l x_l (F(x_l) - F(x_(l-1))) over the different rewards x_1 < x_2 < ..., where
    F(x) is the share of the choices in which no try is above x. Of the n samples let A pass the
    visible tests with a reward of at most x, C fail them with one of at most x, and D fail them
    with one above x. If the first samples of the k tries are a, c and d of these, c + d tries draw
    a second one, out of the A - a + C - c samples left of at most x:

        F(x) = sum_{a + c + d = k} binom(A, a) binom(C, c) binom(D, d) / binom(n, k)
                                 * binom(A - a + C - c, c + d) / binom(n - k, c + d)

    Args:
        rewards: (P, n), NaN where there is none.
        visible: The share of the visible tests that each sample passes, (P, n), NaN where unknown.
        ks: The numbers of tries.

    A sample without a reward or a share is left out. A problem with fewer than 2k others has NaN.
    """
    values = np.full((len(rewards), len(ks)), np.nan)
    for problem, (row, shares) in enumerate(zip(rewards, visible, strict=True)):
        usable = ~(np.isnan(row) | np.isnan(shares))
        for column, k in enumerate(ks):
            if 2 * k <= usable.sum():
                values[problem, column] = _of_problem(row[usable], shares[usable] >= 1, k)
    return values


def _of_problem(rewards: FloatArray, passes: npt.NDArray[np.bool_], k: int) -> float:
    levels = np.unique(rewards)
    chances = []
    for level in levels[:-1]:
        at_most = rewards <= level
        chances.append(
            _chance_of_none_above(
                passing=int((passes & at_most).sum()),
                failing=int((~passes & at_most).sum()),
                failing_above=int((~passes & ~at_most).sum()),
                samples=len(rewards),
                k=k,
            )
        )
    chances.append(1.0)  # none is above the highest reward
    return float(levels @ np.diff(chances, prepend=0.0))


def _chance_of_none_above(
    *, passing: int, failing: int, failing_above: int, samples: int, k: int
) -> float:
    """Return F(x) of `retried_max_at_k`, whose A, C and D are the first three numbers."""
    log_factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, samples + 1)))])

    def log_binomial(n: npt.ArrayLike, m: npt.ArrayLike) -> FloatArray:
        """Return log binom(n, m), -inf where m is not from 0 to n."""
        n, m = np.broadcast_arrays(n, m)
        possible = (m >= 0) & (m <= n)
        n = np.where(possible, n, 0)
        m = np.where(possible, m, 0)
        logs = log_factorials[n] - log_factorials[m] - log_factorials[n - m]
        return np.where(possible, logs, -np.inf)

    # Every a and c at once: (k + 1, k + 1). Where c + d would be less than c, the term is 0.
    a = np.arange(k + 1)[:, None]
    c = np.arange(k + 1)[None, :]
    second = k - a  # tries that draw a second sample, c + d
    log_first = (
        log_binomial(passing, a)
        + log_binomial(failing, c)
        + log_binomial(failing_above, second - c)
        - log_binomial(samples, k)
    )
    log_second = log_binomial(passing - a + failing - c, second) - log_binomial(samples - k, second)
    return float(np.exp(log_first + log_second).sum())
