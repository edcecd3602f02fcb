"""Several evaluations over different problems as one: the seeds of a study, or parts of a set."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from maxatk.errors import InvalidValueError
from maxatk.evaluation.results import (
    Columns,
    Counts,
    Entropy,
    Histogram,
    Mean,
    Results,
    SequenceEntropy,
    combined,
    diversity_of,
    with_intervals,
)


def pool_results(parts: Mapping[str, Results]) -> Results:
    """Return the results over the problems of all parts, which are results by name.

    The id of a problem becomes `part/id`. Metrics are those at the k that every part has, with
    intervals over all problems, each of them weighing the same. Where every part has the same
    problems, as the seeds of a model of one's own, a problem counts once, with its mean over the
    parts: the same problem twice is no second problem. Of the settings in the manifest those stay
    that all parts share. Raises InvalidValueError without parts or a common k.
    """
    if not parts:
        raise InvalidValueError("parts: must hold at least one results object")
    found = list(parts.values())
    ids = tuple(f"{name}/{i}" for name, part in parts.items() for i in part.ids)
    joined = combined(
        [part.per_problem for part in found], lambda columns: tuple(itertools.chain(*columns))
    )
    per_problem = dataclasses.replace(joined, ids=ids)
    times = len(found) if same_problems(found) else 1
    return Results(
        metrics={name: _means(columns, times) for name, columns in per_problem.values.items()},
        interval=found[0].interval,
        per_problem=per_problem,
        counts=_counts([part.counts for part in found], times),
        entropy=_entropy([part.entropy for part in found]),
        diversity=diversity_of(per_problem),
        manifest={
            "settings": _shared([part.recorded("settings") or {} for part in found]),
            "parts": {name: part.manifest for name, part in parts.items()},
        },
    )


def same_problems(parts: Sequence[Results]) -> bool:
    """Return whether the parts are known to be over the same problems, in the same order."""
    known = [(part.recorded("settings.problems"), part.ids) for part in parts]
    return known[0][0] is not None and all(which == known[0] for which in known)


def _means(columns: Columns, times: int) -> dict[int, Mean]:
    """Return the means of joined columns, which hold every problem that many times."""
    if not columns:
        raise InvalidValueError("parts: the evaluations have no k in common")
    values = np.array(list(columns.values()), dtype=np.float64).T
    by_part = np.ma.masked_invalid(values.reshape(times, -1, values.shape[1]))
    means = by_part.mean(axis=0).filled(np.nan)
    return dict(zip(columns, with_intervals(means), strict=True))


def _counts(parts: Sequence[Counts], times: int) -> Counts:
    outcomes: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for part in parts:
        outcomes.update(part.outcomes)
        reasons.update(part.reasons)
    return Counts(
        problems=sum(part.problems for part in parts) // times,
        samples=sum(part.samples for part in parts),
        unscored=sum(part.unscored for part in parts),
        outcomes=dict(sorted(outcomes.items())),
        zeroed=sum(part.zeroed for part in parts),
        reasons=dict(reasons),
    )


def _entropy(parts: Sequence[Entropy | None]) -> Entropy | None:
    """Return the entropy over the samples of all parts; the median is not known any more."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    samples = [part.samples for part in known]
    tokens = [part.tokens_mean * part.samples for part in known]
    return Entropy(
        samples=sum(samples),
        token_mean=_weighted((part.token_mean for part in known), tokens),
        tokens_mean=_weighted((part.tokens_mean for part in known), samples),
        sequence=SequenceEntropy(
            mean=_weighted((part.sequence.mean for part in known), samples),
            median=None,
            histogram=_histogram([part.sequence.histogram for part in known]),
        ),
    )


def _histogram(parts: Sequence[Histogram]) -> Histogram:
    """Return the sum of histograms whose widths are powers of two."""
    width = max(part.width for part in parts)
    counts: Counter[int] = Counter()
    for part in parts:
        together = round(width / part.width)
        for place, count in enumerate(part.counts):
            counts[place // together] += count
    return Histogram(width, tuple(counts[place] for place in range(max(counts) + 1)))


def _shared(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the settings that are equal in all parts; problems are all of them together."""
    shared: dict[str, Any] = {}
    for key, value in parts[0].items():
        values = [part.get(key) for part in parts]
        if key == "problems":
            shared[key] = {
                "count": sum(part["count"] for part in values if part),
                "sha256": "+".join(part["sha256"] for part in values if part),
            }
        elif isinstance(value, Mapping) and all(isinstance(part, Mapping) for part in values):
            shared[key] = _shared([part for part in values if part is not None])
        elif all(part == value for part in values):
            shared[key] = value
    return shared


def _weighted(values: Iterable[float], weights: Sequence[float]) -> float:
    return round(float(np.average(list(values), weights=weights)), 6)
