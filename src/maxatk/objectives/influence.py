"""The advantages of a statistic that is any function of k samples, subset by subset."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import numpy as np

from maxatk.check import require
from maxatk.errors import InvalidValueError, unknown_name
from maxatk.objectives.checks import FloatArray, as_k, refuse_k_above
from maxatk.objectives.group import Group

Rest = Literal["replace_one", "remove_one"]


def influence(
    statistic: Callable[[Sequence[Any]], float],
    rewards: Sequence[Sequence[Any]],
    baseline: Rest = "replace_one",
    *,
    k: int | None = None,
    draws: int = 256,
    seed: int = 0,
) -> FloatArray:
    """Return the advantages (P, n) of any statistic of k samples, unbiased for its gradient.

    Args:
        statistic: Maps k samples (k - 1 for "remove_one"), in any order, to a number.
        rewards: P groups of n samples, of whatever `statistic` takes.
        baseline: "replace_one" subtracts the mean over replacing the sample by each of the other
            k - 1 (for k = 1 of the group), "remove_one" the statistic of the k - 1.
        k: Size of the subsets; None for the whole group.
        draws: Subsets that are drawn a group where there are more; fewer are all taken.
        seed: Of the draws.

    It is the mean over the subsets of the statistic minus the baseline, in O(k^2) calls a subset
    for "replace_one" and O(k) for "remove_one".

    Raises InvalidValueError for groups of different sizes, k > n and an unknown baseline.
    """
    if baseline not in get_args(Rest):
        raise unknown_name("baseline", str(baseline), get_args(Rest))
    groups = [list(group) for group in rewards]
    sizes = {len(group) for group in groups}
    if len(sizes) != 1:
        raise InvalidValueError(f"rewards: groups must have one size, got {sorted(sizes)}")
    n = sizes.pop()
    size = n if k is None else as_k(k)
    refuse_k_above(size, n)
    if n == 1 and baseline == "replace_one":
        raise InvalidValueError("rewards: in groups of one sample there is none to replace it by")
    rng = np.random.default_rng(seed)
    result = np.zeros((len(groups), n))
    for row, group in zip(result, groups, strict=True):
        subsets: Sequence[Sequence[int]]
        if math.comb(n, size) <= as_k(draws, field="draws"):
            subsets = list(itertools.combinations(range(n), size))
        else:
            subsets = [rng.choice(n, size, replace=False).tolist() for _ in range(draws)]
        for subset in subsets:
            whole = statistic([group[i] for i in subset])
            for i in subset:
                others = [group[j] for j in subset if j != i]
                if baseline == "remove_one":
                    rest = statistic(others)
                else:
                    donors = others or [group[j] for j in range(n) if j != i]
                    replaced = [statistic([*others, donor]) for donor in donors]
                    rest = sum(replaced) / len(replaced)
                row[i] += (whole - rest) / len(subsets)
    return result


def leave_one_out(statistic: Callable[..., float], group: Group) -> FloatArray:
    """Return `influence` of a statistic of k rewards, or of k rewards and their answers: (P, n)."""
    columns = [group.rewards] if group.answers is None else [group.rewards, group.answers]

    def of_samples(samples: Sequence[Any]) -> float:
        found = statistic(*map(list, zip(*samples, strict=True)))
        real = isinstance(found, (int, float, np.number)) and math.isfinite(found)
        require(real, "method: what the statistic returns", "a finite number", found)
        return float(found)

    rows = zip(*(column.tolist() for column in columns), strict=True)
    return influence(of_samples, [list(zip(*row, strict=True)) for row in rows], k=group.k)
