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
    columns = [column for by_k in values.values() for column in by_k.values()]
    table = np.array(columns, dtype=np.float64).T  # (problems, metrics x k)
    # A reward above 1 shows that 1 is no ceiling of max@k: then every value of it can still rise.
    # That of pass@k it remains, whose values are chances.
    bounded = np.zeros(len(columns), dtype=np.bool_)
    ceilings = np.full(len(columns), np.inf)
    metric_of = np.array([metric for metric, by_k in values.items() for _ in by_k])
    for metric in values:
        of_metric = metric_of == metric
        numbers = table[:, of_metric].ravel()
        if metric != "pass@k":
            numbers = np.append(numbers, extremes)
        bounded[of_metric] = in_unit(numbers)
        if not (numbers > CEILING).any():
            ceilings[of_metric] = CEILING
    interval = mean_interval(table, bounded=bounded)
    below = (table < ceilings).sum(axis=0)

    means: dict[str, dict[int, Mean]] = {}
    column = 0  # of `table`, whose columns stand in the order of `values`
    for metric, by_k in values.items():
        means[metric] = {}
        for k in by_k:
            means[metric][k] = Mean(
                mean=number_or_none(interval.mean[column]),
                low=number_or_none(interval.low[column]),
                high=number_or_none(interval.high[column]),
                problems=int(interval.problems[column]),
                below=int(below[column]),
            )
            column += 1
    return means


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
