"""Advantages of a statistic that is any function of a group."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, get_args

import numpy as np

from maxatk.errors import InvalidValueError, unknown_name
from maxatk.objectives.checks import FloatArray, as_k, refuse_k_above

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
        statistic: Maps k samples (k - 1 for "remove_one") to a number.
        rewards: P groups of n samples, of whatever `statistic` takes.
        baseline: "replace_one" subtracts the mean over replacing the sample by each of the other
            k - 1, "remove_one" the statistic of the k - 1.
        k: Size of the subsets; None for the whole group.
        draws: Subsets that are drawn a group where there are more; fewer are all taken.
        seed: Of the draws.

    Each subset gives its members the statistic minus the baseline; the mean over the subsets is
    returned. For k = 1 the other samples of the group replace the one. The cost is O(k^2) calls a
    subset for "replace_one" and O(k) for "remove_one". The statistic should not depend on the
    order of the samples.

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
    rng = np.random.default_rng(seed)
    result = np.zeros((len(groups), n))
    for row, group in zip(result, groups, strict=True):
        subsets = list(_subsets(n, size, as_k(draws, field="draws"), rng))
        for subset in subsets:
            whole = statistic([group[i] for i in subset])
            for i in subset:
                others = [group[j] for j in subset if j != i]
                if baseline == "remove_one":
                    rest = statistic(others)
                else:
                    donors = others or [group[j] for j in range(n) if j != i]
                    replaced = [statistic([*others, donor]) for donor in donors]
                    rest = sum(replaced) / len(replaced) if replaced else whole
                row[i] += (whole - rest) / len(subsets)
    return result


def _subsets(n: int, k: int, draws: int, rng: np.random.Generator) -> Iterable[Sequence[int]]:
    if math.comb(n, k) <= draws:
        return itertools.combinations(range(n), k)
    return (rng.choice(n, k, replace=False).tolist() for _ in range(draws))
