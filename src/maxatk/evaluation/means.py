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
from maxatk.statistics.intervals import FloatArray, mean_interval

Columns = Mapping[int, Sequence[float | None]]
"""The values of a metric: k -> one of every problem, None or NaN where there is none."""


def means_of(values: Mapping[str, Columns]) -> dict[str, dict[int, Mean]]:
    """Return the mean over problems of every metric and k, all of the same resamples."""
    columns = [column for by_k in values.values() for column in by_k.values()]
    table = np.array(columns, dtype=np.float64).T
    found = mean_interval(table)
    # A reward above 1 shows that 1 is no ceiling: then every value can still rise.
    ceiling = np.inf if (table > CEILING).any() else CEILING
    ends = (map(number_or_none, end) for end in (found.mean, found.low, found.high))
    counts = (count.tolist() for count in (found.problems, (table < ceiling).sum(axis=0)))
    means = map(Mean, *ends, *counts)
    return {metric: {k: next(means) for k in by_k} for metric, by_k in values.items()}


def entropy_of(
    samples: FloatArray,
    token: FloatArray,
    tokens: FloatArray,
    sequence: FloatArray,
    histogram: Histogram,
) -> Entropy:
    """Return the entropy over parts of so many samples, from the means in each part: (parts,)."""

    def mean(values: FloatArray, weights: FloatArray) -> float:
        return round(float(np.average(values, weights=weights)), 6)

    return Entropy(
        samples=int(samples.sum()),
        token_mean=mean(token, samples * tokens),
        tokens_mean=mean(tokens, samples),
        sequence=SequenceEntropy(mean(sequence, samples), histogram),
    )


def diversity_of(per_problem: PerProblem) -> Diversity:
    """Return the means over problems of the columns that say how much samples differ."""
    columns = {f.name: getattr(per_problem, f.name) for f in dataclasses.fields(Diversity)}
    known = {name: column for name, column in columns.items() if column is not None}
    return Diversity(**{name: round(float(np.mean(of)), 6) for name, of in known.items()})


def number_or_none(value: float) -> float | None:
    """Return a number as results hold it, rounded to six places; None for NaN."""
    return None if np.isnan(value) else round(float(value), 6)
