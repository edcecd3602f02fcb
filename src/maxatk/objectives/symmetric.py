"""Products of ratios over all subsets of one size, in polynomial time.

Eq. (10) sums rho(I) max(I) over all k-subsets I, rho(I) being the product of the ratios in I.
With the samples in ascending order of reward the position j of the largest one splits the sum,

    F = (1/C(n,k)) sum_I rho(I) max(I) = sum_j w_j r_j rho_j a_{j-1}^{k-1},

w_j = C(j-1, k-1) / C(n, k), and a_j^m the mean of rho(J) over the m-subsets J of the first j
samples: an elementary symmetric polynomial over C(j, m). It obeys

    a_j^m = (1 - m/j) a_{j-1}^m + (m/j) rho_j a_{j-1}^{m-1},

a convex combination for every m <= j: nothing overflows unless the ratios do, nothing cancels.
"""

from __future__ import annotations

import numpy as np

from maxatk.objectives.checks import FloatArray
from maxatk.objectives.subsets import max_weights, shares_below

TABLE_BYTES = 1 << 28  # of a table of prefix means; more prompts than fit are taken in blocks
ROW_BYTES = 1 << 18  # of a row where no table is kept: two of them should fit the cache


def prefix_means(ratios: FloatArray, size: int) -> FloatArray:
    """Return before each sample the mean of rho(J) over the `size`-subsets J of earlier samples.

    `ratios` (P, n) are positive; the result has their shape, and 0 where fewer than `size`
    samples come before. O(n size) time and O(size) memory a prompt.
    """
    prompts, n = ratios.shape
    block = max(1, ROW_BYTES // (8 * (size + 1)))
    means = np.zeros((n, prompts))
    for first in range(0, prompts, block):
        part = slice(first, first + block)
        columns = np.ascontiguousarray(ratios[part].T)
        rows = _empty_rows(2, size + 1, columns.shape[1])
        for j in range(n):
            if j:
                _step(rows[(j - 1) % 2], rows[j % 2], columns[j - 1], j, n)
            means[j, part] = rows[j % 2][size]
    result: FloatArray = means.T
    return result


def log_means(log_ratios: FloatArray, size: int) -> FloatArray:
    """Return the logarithm of the mean of rho(J) over all `size`-subsets J, (P, n) to (P,).

    The recurrence of this module in logarithms: products far beyond floats have one too.
    """
    prompts, n = log_ratios.shape
    columns = np.ascontiguousarray(log_ratios.T)
    row = np.full((size + 1, prompts), -np.inf)
    row[0] = 0.0
    for j in range(1, n + 1):
        reach = _reach(j, n + 1, size)
        share = np.arange(reach.start, reach.stop)[:, None] / j
        with np.errstate(divide="ignore"):  # of all j samples, all are in
            without = row[reach] + np.log1p(-share)
        within = row[reach.start - 1 : reach.stop - 1] + np.log(share) + columns[j - 1]
        row[reach] = np.logaddexp(without, within)
    means: FloatArray = row[size]
    return means


def joined_sums(rewards: FloatArray, ratios: FloatArray, k: int) -> FloatArray:
    """Return dF/drho_i = (1/C(n,k)) sum over (k-1)-subsets J of the others of rho(J) max(J + i).

    `rewards` (R, P, n) are R vectors >= 0, ascending on the last axis, that share the ratios
    (P, n); the result has their shape. rho_i times it is the weight of grad log pi(y_i) in
    eq. (10), exactly: F is linear in each ratio. One pass down the recurrence of this module and
    its adjoint back up give all n derivatives, in O(n k) time and memory a prompt.
    """
    _, prompts, n = rewards.shape
    block = max(1, TABLE_BYTES // (8 * n * k))
    sums = np.empty_like(rewards)
    weights = max_weights(n, k)[:, None, None]
    for first in range(0, prompts, block):
        part = slice(first, first + block)
        columns = np.ascontiguousarray(ratios[part].T)
        table = _table(columns[:-1], k - 1)
        seeds = weights * rewards[:, part].transpose(2, 0, 1)
        sums[:, part] = _adjoint(table, seeds, columns).transpose(1, 2, 0)
    return sums


def stepwise_sums(
    steps: FloatArray, ratios: FloatArray, pay: FloatArray, charge: FloatArray
) -> FloatArray:
    """Return what the steps of a k-subset's weights pay and charge each sample: (P, n).

    `steps` (P, n-1) lie between neighbours of the ratios (P, n). For the step above the l lowest
    samples, a subset with q of them pays pay[q] to a member above the step and charges
    charge[q-1] to one below it, weighed by the other members' ratios, all over C(n, k). With
    E(l, q) = C(l,q) C(n-l,k-q) / C(n,k) times the mean products of ratios of q lowest and k-q
    highest, these are derivatives of sums of E by the ratios of one side: one reverse pass a
    side, O(n k) in time and memory a prompt.
    """
    prompts, n = ratios.shape
    k = len(pay)
    shares = shares_below(n, k)
    paid = shares[:, :-1] * pay
    charged = shares[:, 1:] * charge
    block = max(1, TABLE_BYTES // (16 * (n + 1) * (k + 1)))
    sums = np.empty_like(ratios)
    for first in range(0, prompts, block):
        part = slice(first, first + block)
        columns = np.ascontiguousarray(ratios[part].T)
        gaps = np.ascontiguousarray(steps[part].T)
        low = _table(columns, k)
        high = _table(columns[::-1], k)  # the highest m samples, from the top
        # What the means of one side are multiplied by: the share, the means of the other side, of
        # the sizes that fill a subset up, and the step between the two sides.
        above = [
            (paid[n - m][:, None] * low[n - m, :-1] * gaps[n - m - 1])[::-1] for m in range(1, n)
        ]
        below = [charged[m][:, None] * high[n - m, -2::-1] * gaps[m - 1] for m in range(1, n)]
        received = _pulled(high, above, columns[::-1])[::-1]
        deducted = _pulled(low, below, columns)
        sums[part] = (received - deducted).T
    return sums


def _table(columns: FloatArray, size: int) -> FloatArray:
    """Return the means over m-subsets of the first j samples, (n+1, size+1, P) by j and m."""
    n, prompts = columns.shape
    table = _empty_rows(n + 1, size + 1, prompts)
    for j in range(1, n + 1):
        _step(table[j - 1], table[j], columns[j - 1], j, n + 1)
    return table


def _pulled(table: FloatArray, seeds: list[FloatArray], columns: FloatArray) -> FloatArray:
    """Return dF/drho (n, P) of F = sum_j seeds[j-1] table[j, 1:], j up to n - 1."""
    n, prompts = columns.shape
    sums = np.zeros((n, prompts))
    slopes = np.zeros(table.shape[1:])  # dF / d(the row after j samples)
    for j in range(n - 1, 0, -1):  # the recurrence of this module, backwards
        slopes[1:] += seeds[j - 1]
        share = slopes[1:] * (np.arange(1, len(slopes)) / j)[:, None]
        share[j:] = 0.0  # there are no subsets of more than j samples
        sums[j - 1] = np.einsum("mp,mp->p", share, table[j - 1, :-1])
        slopes[1:] -= share
        slopes[:-1] += share * columns[j - 1]
    return sums


def _empty_rows(count: int, sizes: int, prompts: int) -> FloatArray:
    """Return `count` rows (sizes, prompts) of means over no sample, the longer axis contiguous."""
    # Zeros, not empty: the mean over more samples than there are is read before it is written.
    if sizes <= prompts:
        rows = np.zeros((count, sizes, prompts))
    else:
        rows = np.zeros((count, prompts, sizes)).transpose(0, 2, 1)
    rows[:, 0] = 1.0
    return rows


def _reach(j: int, n: int, size: int) -> slice:
    """Return the sizes m >= 1 whose mean over the first j samples matters for F."""
    # No more than j samples can be in; the n - 1 - j that follow must be able to fill the rest.
    return slice(max(1, size - (n - 1 - j)), min(j, size) + 1)


def _step(before: FloatArray, after: FloatArray, ratio: FloatArray, j: int, n: int) -> None:
    """Fill `after`, the means over the first j samples, from those over the first j - 1."""
    reach = _reach(j, n, len(before) - 1)
    old = before[reach]
    new = after[reach]
    # new = old + m/j (ratio old of m - 1 - old), in place: this is the innermost loop.
    np.multiply(before[reach.start - 1 : reach.stop - 1], ratio, out=new)
    new -= old
    new *= np.arange(reach.start, reach.stop)[:, None] / j
    new += old


def _adjoint(table: FloatArray, seeds: FloatArray, columns: FloatArray) -> FloatArray:
    """Return dF/drho (n, R, P) of F = sum_j seeds_j rho_j table[j - 1, -1], last sample first."""
    n, sizes, prompts = table.shape
    flow = seeds * columns[:, None]
    slopes = _empty_rows(seeds.shape[1], sizes, prompts)  # dF / d(the row after j samples)
    slopes[:, 0] = 0.0
    slopes[:, -1] = flow[-1]
    scratch = np.empty_like(slopes)
    sums: FloatArray = seeds * table[:, None, -1]
    for j in range(n - 1, 0, -1):  # `_step` backwards
        reach = _reach(j, n, sizes - 1)
        shifted = slice(reach.start - 1, reach.stop - 1)
        share = scratch[:, reach]
        np.multiply(slopes[:, reach], np.arange(reach.start, reach.stop)[:, None] / j, out=share)
        sums[j - 1] += np.einsum("rmp,mp->rp", share, table[j - 1, shifted])
        slopes[:, reach] -= share
        share *= columns[j - 1]
        slopes[:, shifted] += share
        slopes[:, -1] += flow[j - 1]
    return sums
