"""Means over problems, as results hold them: of metrics, entropy and diversity."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from maxatk.evaluation.results import (
    CEILING,
    Diversity,
    Entropy,
    Histogram,
    Mean,
    PerProblem,
    SequenceEntropy,
)
from maxatk.statistics.intervals import FloatArray, in_unit, mean_interval

Columns = Mapping[int, Sequence[float | None]]
"""The values of a metric: k -> one of every problem, None or NaN where there is none."""


def means_of(
    values: Mapping[str, Columns], extremes: Sequence[float]
) -> dict[str, dict[int, Mean]]:
    """Return the mean over problems of every metric and k, all of the same resamples.

    `extremes` are the rewards of the samples that say whether all lie in [0, 1], as far as known:
    the values, which are means over samples, may do so where rewards do not.
    """
    cells = [(metric, k) for metric, by_k in values.items() for k in by_k]
    columns = [values[metric][k] for metric, k in cells]
    table = np.array(columns, dtype=np.float64).T  # (problems, cells)
    is_in_unit: dict[str, bool] = {}
    ceilings: dict[str, float] = {}
    for metric, by_k in values.items():
        numbers = _known_numbers(metric, by_k, extremes)
        is_in_unit[metric] = in_unit(numbers)
        # A reward above 1 shows that 1 is no ceiling: then every value can still rise.
        ceilings[metric] = np.inf if (numbers > CEILING).any() else CEILING
    bounded = np.array([is_in_unit[metric] for metric, _ in cells], dtype=np.bool_)
    interval = mean_interval(table, bounded=bounded)
    below = (table < [ceilings[metric] for metric, _ in cells]).sum(axis=0)

    means: dict[str, dict[int, Mean]] = {metric: {} for metric in values}
    for column, (metric, k) in enumerate(cells):
        means[metric][k] = Mean(
            mean=number_or_none(interval.mean[column]),
            low=number_or_none(interval.low[column]),
            high=number_or_none(interval.high[column]),
            problems=int(interval.problems[column]),
            below=int(below[column]),
        )
    return means


def _known_numbers(metric: str, by_k: Columns, extremes: Sequence[float]) -> FloatArray:
    """Return what is known of the range of a metric: its values, and the extremes of the rewards.

    The values of pass@k are chances, which lie in [0, 1] whatever the rewards are.
    """
    numbers = np.array(list(by_k.values()), dtype=np.float64).ravel()
    return numbers if metric == "pass@k" else np.append(numbers, extremes)


def entropy_of(
    samples: FloatArray,
    token: FloatArray,
    tokens: FloatArray,
    sequence: FloatArray,
    histogram: Histogram,
) -> Entropy:
    """Return the entropy of all samples, from its means in parts of them.

    Args:
        samples: How many samples each part has, (parts,); parts of one sample each are fine.
        token: The mean entropy of a token in each part, in nats: (parts,).
        tokens: The mean length of a sample in each part, in tokens: (parts,).
        sequence: The mean entropy of a completion in each part, in nats: (parts,).
        histogram: Of the entropies of the completions of all parts.
    """

    def mean(values: FloatArray, weights: FloatArray) -> float:
        return round(float(np.average(values, weights=weights)), 6)

    return Entropy(
        samples=int(samples.sum()),
        token_mean=mean(token, samples * tokens),  # a long sample has more tokens to count
        tokens_mean=mean(tokens, samples),
        sequence=SequenceEntropy(mean(sequence, samples), histogram),
    )


def diversity_of(per_problem: PerProblem) -> Diversity:
    """Return the means over problems of the columns that say how much samples differ."""
    means = {}
    for field in dataclasses.fields(Diversity):
        column = getattr(per_problem, field.name)
        if column is not None:
            means[field.name] = round(float(np.mean(column)), 6)
    return Diversity(**means)


def number_or_none(value: float) -> float | None:
    """Return a number as results hold it, rounded to six places; None for NaN."""
    return None if np.isnan(value) else round(float(value), 6)
