"""Advantages of any statistic of k samples, by calling it on subsets of the group."""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from maxatk.check import is_list, one_of, require, returned_number, shown
from maxatk.errors import InvalidValueError
from maxatk.objectives.checks import FloatArray, as_k, refuse_k_above
from maxatk.objectives.group import Group

Statistic: TypeAlias = Callable[[Sequence[Any]], float]
Without: TypeAlias = Literal["replace_one", "remove_one"]


def influence(
    statistic: Statistic,
    rewards: Sequence[Sequence[Any]],
    baseline: Without = "replace_one",
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
            k - 1 (for k = 1 of the group), "remove_one" the statistic of the k - 1: O(k^2) and O(k)
            calls a subset.
        k: Size of the subsets; None for the whole group.
        draws: Subsets that are drawn a group where there are more; fewer are all taken.
        seed: Of the draws.

    Raises InvalidValueError for groups of different sizes, k > n, an unknown baseline, and a
    statistic that is no function or gives no finite number.
    """
    one_of("baseline", baseline, get_args(Without))
    require(callable(statistic), "statistic", "a function of a list of samples", statistic)
    is_seed = isinstance(seed, numbers.Integral) and seed >= 0
    require(is_seed, "seed", "an integer of 0 or more", seed)
    are_groups = is_list(rewards) and all(is_list(group) for group in rewards)
    require(are_groups, "rewards", "groups of samples, a list of lists", rewards)
    groups = [list(group) for group in rewards]
    sizes = {len(group) for group in groups}
    if len(sizes) != 1:
        raise InvalidValueError(f"rewards: groups must have one size, got {sorted(sizes)}")
    n = sizes.pop()
    size = n if k is None else as_k(k)
    refuse_k_above(size, n)
    if n == 1 and baseline == "replace_one":
        raise InvalidValueError("rewards: in groups of one sample there is none to replace it by")
    most = as_k(draws, field="draws")
    rng = np.random.default_rng(seed)
    advantages = np.zeros((len(groups), n))
    for row, group in zip(advantages, groups, strict=True):
        subsets = _subsets(n, size, most, rng)
        for subset in subsets:
            of_subset = _value_of(statistic, [group[i] for i in subset])
            for i in subset:
                others = [group[j] for j in subset if j != i]
                if baseline == "remove_one":
                    without = _value_of(statistic, others)
                else:
                    # A subset of one has no others, and those of the group stand in.
                    donors = others or [group[j] for j in range(n) if j != i]
                    without = _mean_replaced(statistic, others, donors)
                row[i] += (of_subset - without) / len(subsets)
    return advantages


def _subsets(n: int, size: int, most: int, rng: np.random.Generator) -> Sequence[Sequence[int]]:
    """Return all subsets of that size of n samples, or `most` drawn ones where there are more."""
    if math.comb(n, size) <= most:
        return list(itertools.combinations(range(n), size))
    return [rng.choice(n, size, replace=False).tolist() for _ in range(most)]


def _mean_replaced(statistic: Statistic, others: list[Any], donors: list[Any]) -> float:
    """Return the mean of the statistic of the others with each of the donors."""
    replaced = [_value_of(statistic, [*others, donor]) for donor in donors]
    return sum(replaced) / len(replaced)


def _value_of(statistic: Statistic, samples: list[Any]) -> float:
    """Return the statistic of samples; raise InvalidValueError for what is no finite number."""
    returned: Any = statistic(samples)
    value = returned_number(returned)
    if value is None or math.isnan(value):
        field = "statistic: what it returns"
        raise InvalidValueError(f"{field}: must be a finite number, got {shown(returned)}")
    return value


def leave_one_out(function: Callable[..., float], group: Group) -> FloatArray:
    """Return `influence` of a function of k rewards, or of k rewards and their answers: (P, n)."""
    columns = [group.rewards.tolist()]
    if group.answers is not None:
        columns.append(group.answers.tolist())

    def of_samples(samples: Sequence[Any]) -> float:
        arguments = [list(column) for column in zip(*samples, strict=True)]
        return function(*arguments)

    # A sample is its reward, or its reward and its answer.
    groups = [list(zip(*rows, strict=True)) for rows in zip(*columns, strict=True)]
    return influence(of_samples, groups, k=group.k)
