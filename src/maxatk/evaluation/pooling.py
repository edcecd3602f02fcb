"""Several evaluations over different problems as one: the seeds of a study, or parts of a set."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from maxatk.errors import InvalidValueError
from maxatk.evaluation import results
from maxatk.evaluation.histograms import merged_histogram
from maxatk.evaluation.means import Columns, diversity_of, entropy_of, means_of
from maxatk.evaluation.problem_groups import combined

_Value = TypeVar("_Value")


def pool_results(parts: Mapping[str, results.Results]) -> results.Results:
    """Return the results over the problems of all parts, which are results by name.

    A problem's id becomes `part/id`. Metrics are those at the k that every part has. Where all have
    the same problems, as seeds have, a problem counts once, with its mean over the parts. The
    manifest has the settings that all parts share. Raises InvalidValueError without parts, and for
    parts whose samples pass from different rewards, or with different columns for the reward.
    """
    if not parts:
        raise InvalidValueError("parts: must hold at least one results object")
    pooled = list(parts.values())
    columns = combined([part.per_problem for part in pooled], _end_to_end)
    ids = tuple(f"{name}/{problem_id}" for name, part in parts.items() for problem_id in part.ids)
    per_problem = dataclasses.replace(columns, ids=ids)
    repeats = len(pooled) if same_problems(pooled) else 1
    means = {metric: _averaged(by_k, repeats) for metric, by_k in per_problem.values.items()}
    return results.Results(
        metrics=means_of(means, per_problem.extremes),
        interval=pooled[0].interval,
        threshold=_that_of_all("threshold", [part.passes_from for part in pooled]),
        column=_that_of_all("column", [part.column for part in pooled]),
        per_problem=per_problem,
        counts=_counts([part.counts for part in pooled], repeats),
        finish_reasons=_finish_reasons([part.finish_reasons for part in pooled]),
        entropy=_entropy([part.entropy for part in pooled]),
        diversity=diversity_of(per_problem),
        manifest={"settings": _shared([part.recorded("settings") or {} for part in pooled])},
    )


def _that_of_all(field: str, values: Sequence[_Value]) -> _Value:
    """Return the value that all parts have, without which their metrics are no one quantity."""
    first = values[0]
    for value in values:
        if value != first:
            raise InvalidValueError(
                f"{field}: must be the same in all parts, got {first!r} and {value!r}"
            )
    return first


def _end_to_end(columns: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(itertools.chain(*columns))


def same_problems(parts: Sequence[results.Results]) -> bool:
    """Return whether the parts are known to be over the same problems, in the same order."""
    first = parts[0]
    problems = first.recorded("settings.problems")
    return problems is not None and all(
        part.recorded("settings.problems") == problems and part.ids == first.ids for part in parts
    )


def _averaged(columns: Columns, repeats: int) -> Columns:
    """Return the mean of every problem over its repeats, for every k.

    A column has the values of all problems in the first part, then those in the second, and so on.
    The mean of a problem is over the parts in which it has a value, NaN where it has none in any.
    """
    values = np.array(list(columns.values()), dtype=np.float64)
    by_part = values.reshape(len(columns), repeats, -1)  # (ks, parts, problems)
    # Masked, so that the mean over parts leaves out what is NaN without a warning.
    means = np.ma.masked_invalid(by_part).mean(axis=1).filled(np.nan)  # (ks, problems)
    return dict(zip(columns, means, strict=True))


def _counts(parts: Sequence[results.Counts], repeats: int) -> results.Counts:
    outcomes = Counter[str]()
    reasons = Counter[str]()
    for part in parts:
        outcomes += Counter(part.outcomes)
        reasons += Counter(part.reasons)
    return results.Counts(
        problems=sum(part.problems for part in parts) // repeats,
        samples=sum(part.samples for part in parts),
        unscored=sum(part.unscored for part in parts),
        outcomes=dict(sorted(outcomes.items())),
        zeroed=sum(part.zeroed for part in parts),
        reasons=dict(reasons),
    )


def _finish_reasons(parts: Sequence[Mapping[str, int] | None]) -> dict[str, int] | None:
    """Return how often the samples of all parts ended in each way, None where one has no record."""
    total = Counter[str]()
    for part in parts:
        if part is None:
            return None
        total += Counter(part)
    return dict(sorted(total.items()))


def _entropy(parts: Sequence[results.Entropy | None]) -> results.Entropy | None:
    """Return the entropy over the samples of all parts, None where one does not know it."""
    entropies = [part for part in parts if part is not None]
    if len(entropies) < len(parts):
        return None
    return entropy_of(
        samples=np.array([entropy.samples for entropy in entropies], dtype=np.float64),
        token=np.array([entropy.token_mean for entropy in entropies], dtype=np.float64),
        tokens=np.array([entropy.tokens_mean for entropy in entropies], dtype=np.float64),
        sequence=np.array([entropy.sequence.mean for entropy in entropies], dtype=np.float64),
        histogram=merged_histogram([entropy.sequence.histogram for entropy in entropies]),
    )


def _shared(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the settings that are equal in all parts; problems are all of them together."""
    first = parts[0]
    shared = {
        name: value
        for name, value in first.items()
        if all(part.get(name) == value for part in parts)
    }
    problems = [part["problems"] for part in parts if "problems" in part]
    if problems:
        shared["problems"] = {
            "count": sum(problem_set["count"] for problem_set in problems),
            "sha256": "+".join(problem_set["sha256"] for problem_set in problems),
        }
    return shared
