"""Several evaluations over different problems as one: the seeds of a study, or parts of a set."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from maxatk.errors import InvalidValueError
from maxatk.evaluation import results
from maxatk.evaluation.means import Columns, diversity_of, entropy_of, means_of
from maxatk.evaluation.problem_groups import combined


def pool_results(parts: Mapping[str, results.Results]) -> results.Results:
    """Return the results over the problems of all parts, which are results by name.

    A problem's id becomes `part/id`. Metrics are those at the k that every part has. Where all have
    the same problems, as seeds have, a problem counts once, with its mean over the parts. The
    manifest has the settings that all parts share. Raises InvalidValueError without parts.
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
    averaged = {metric: _averaged(by_k, times) for metric, by_k in per_problem.values.items()}
    return results.Results(
        metrics=means_of(averaged),
        interval=found[0].interval,
        per_problem=per_problem,
        counts=_counts([part.counts for part in found], times),
        entropy=_entropy([part.entropy for part in found]),
        diversity=diversity_of(per_problem),
        manifest={"settings": _shared([part.recorded("settings") or {} for part in found])},
    )


def same_problems(parts: Sequence[results.Results]) -> bool:
    """Return whether the parts are known to be over the same problems, in the same order."""
    known = [(part.recorded("settings.problems"), part.ids) for part in parts]
    return known[0][0] is not None and all(which == known[0] for which in known)


def _averaged(columns: Columns, times: int) -> Columns:
    values = np.array(list(columns.values()), dtype=np.float64).reshape(len(columns), times, -1)
    means = np.ma.masked_invalid(values).mean(axis=1).filled(np.nan)
    return dict(zip(columns, means, strict=True))


def _counts(parts: Sequence[results.Counts], times: int) -> results.Counts:
    outcomes = sum((Counter(part.outcomes) for part in parts), Counter[str]())
    reasons = sum((Counter(part.reasons) for part in parts), Counter[str]())
    return results.Counts(
        problems=sum(part.problems for part in parts) // times,
        samples=sum(part.samples for part in parts),
        unscored=sum(part.unscored for part in parts),
        outcomes=dict(sorted(outcomes.items())),
        zeroed=sum(part.zeroed for part in parts),
        reasons=dict(reasons),
    )


def _entropy(parts: Sequence[results.Entropy | None]) -> results.Entropy | None:
    """Return the entropy over the samples of all parts, None where one does not know it."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    means = [(p.samples, p.token_mean, p.tokens_mean, p.sequence.mean) for p in known]
    samples, token, tokens, sequence = np.array(means, dtype=np.float64).T
    together = _histogram([part.sequence.histogram for part in known])
    return entropy_of(samples, token, tokens, sequence, together)


def _histogram(parts: Sequence[results.Histogram]) -> results.Histogram:
    width = max(part.width for part in parts)
    counts = Counter[int]()
    for part in parts:
        together = round(width / part.width)
        for place, count in enumerate(part.counts):
            counts[place // together] += count
    return results.Histogram(width, tuple(counts[place] for place in range(max(counts) + 1)))


def _shared(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the settings that are equal in all parts; problems are all of them together."""
    problems = [part["problems"] for part in parts if "problems" in part]
    together = {
        "count": sum(one["count"] for one in problems),
        "sha256": "+".join(one["sha256"] for one in problems),
    }
    shared = {key: v for key, v in parts[0].items() if all(part.get(key) == v for part in parts)}
    return {**shared, "problems": together} if problems else shared
