"""Results of some of the problems: of a list of ids, or by the values of a field of their meta."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from maxatk.errors import InvalidValueError, unknown_name
from maxatk.evaluation.means import means_of
from maxatk.evaluation.results import PROBLEM_COLUMNS, PerProblem, Results

_WITHOUT = "(none)"  # the group of the problems that do not have the field


def only_problems(results: Results, problem_ids: Sequence[str]) -> Results:
    """Return results with the metrics and the values of these problems alone, in this order.

    The counts of samples, entropy and diversity stay those of the whole run.
    """
    rows = {problem_id: row for row, problem_id in enumerate(results.ids)}
    kept = [rows[problem_id] for problem_id in problem_ids]
    columns = combined([results.per_problem], lambda found: tuple(found[0][row] for row in kept))
    counts = dataclasses.replace(results.counts, problems=len(kept))
    metrics = means_of(columns.values)
    return dataclasses.replace(results, metrics=metrics, per_problem=columns, counts=counts)


def combined(
    parts: Sequence[PerProblem], column: Callable[[list[tuple[Any, ...]]], tuple[Any, ...]]
) -> PerProblem:
    """Return what `column` makes of the columns of all parts, of those that all parts have."""

    def of_all(found: list[Any]) -> Any:
        return None if any(each is None for each in found) else column(found)

    values: dict[str, dict[int, Any]] = {}
    for metric, by_k in parts[0].values.items():
        found = {k: of_all([p.values.get(metric, {}).get(k) for p in parts]) for k in by_k}
        values[metric] = {k: joined for k, joined in found.items() if joined is not None}
    own = {name: of_all([getattr(part, name) for part in parts]) for name in PROBLEM_COLUMNS}
    return PerProblem(**own, values={metric: by_k for metric, by_k in values.items() if by_k})


def results_by(results: Results, field: str) -> dict[str, Results]:
    """Return the results by every value of a `meta` field; raises InvalidValueError without it."""
    meta = results.per_problem.meta or ()
    check_by(meta, field)
    groups: dict[str, list[str]] = {}
    for problem_id, fields in zip(results.ids, meta, strict=True):
        groups.setdefault(str(fields.get(field, _WITHOUT)), []).append(problem_id)
    return {value: only_problems(results, groups[value]) for value in sorted(groups, key=_order)}


def _order(value: str) -> tuple[int, float, str]:
    with contextlib.suppress(ValueError):
        return 0, float(value), ""
    return 1 + (value == _WITHOUT), 0.0, value


def check_by(meta: Iterable[Mapping[str, Any]], field: str | None) -> None:
    """Raise InvalidValueError where the `meta` of no problem has the field; None is no field."""
    names = {name for fields in meta for name in fields}
    if field is not None and not names:
        raise InvalidValueError(
            f"by: {field!r}: the problems have no `meta`; give them one, and evaluate or score them"
        )
    if field is not None and field not in names:
        raise unknown_name("by", field, names)
