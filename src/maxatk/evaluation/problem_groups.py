"""Results of some of the problems: of a list of ids, or by the values of a field of their meta."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from maxatk.check import one_of
from maxatk.errors import InvalidValueError
from maxatk.evaluation.means import means_of
from maxatk.evaluation.results import PROBLEM_COLUMNS, Counts, PerProblem, Results

_WITHOUT = "(none)"  # the group of the problems without the field, or with null for it


def only_problems(results: Results, problem_ids: Sequence[str]) -> Results:
    """Return results with the metrics and the values of these problems alone, in this order.

    Outcomes, the ways in which samples ended, entropy and diversity stay those of the whole run.
    """
    row_of = {problem_id: row for row, problem_id in enumerate(results.ids)}
    kept = [row_of[problem_id] for problem_id in problem_ids]

    def rows_kept(columns: list[tuple[Any, ...]]) -> tuple[Any, ...]:
        (column,) = columns
        return tuple(column[row] for row in kept)

    per_problem = combined([results.per_problem], rows_kept)
    return dataclasses.replace(
        results,
        metrics=means_of(per_problem.values, per_problem.extremes),
        per_problem=per_problem,
        counts=_counts_of(per_problem, results.counts),
    )


def _counts_of(per_problem: PerProblem, whole: Counts) -> Counts:
    """Return the counts of some problems of a run that has `whole` counts.

    Why samples lack a reward is known of the run alone, and told where these are all that do.
    """
    samples = sum(per_problem.samples)
    unscored = samples - sum(per_problem.scored)
    zeroed = whole.zeroed if per_problem.zeroed is None else sum(per_problem.zeroed)
    has_all = (unscored, zeroed) == (whole.unscored, whole.zeroed)
    return dataclasses.replace(
        whole,
        problems=len(per_problem.ids),
        samples=samples,
        unscored=unscored,
        zeroed=zeroed,
        reasons=whole.reasons if has_all else {},
    )


def combined(
    parts: Sequence[PerProblem], join: Callable[[list[tuple[Any, ...]]], tuple[Any, ...]]
) -> PerProblem:
    """Return the columns that all parts have, each made by `join` of that column of every part."""

    def joined(columns: list[Any]) -> Any:
        return None if any(column is None for column in columns) else join(columns)

    values: dict[str, dict[int, Any]] = {}
    for metric, by_k in parts[0].values.items():
        for k in by_k:
            column = joined([part.values.get(metric, {}).get(k) for part in parts])
            if column is not None:
                values.setdefault(metric, {})[k] = column
    fields = {name: joined([getattr(part, name) for part in parts]) for name in PROBLEM_COLUMNS}
    return PerProblem(**fields, values=values)


def results_by(results: Results, field: str) -> dict[str, Results]:
    """Return the results by every value of a `meta` field; raises InvalidValueError without it."""
    meta = results.per_problem.meta or ()
    check_by(meta, field)
    groups: dict[str, list[str]] = {}
    for problem_id, fields in zip(results.ids, meta, strict=True):
        value = fields.get(field)
        group = _WITHOUT if value is None else str(value)
        groups.setdefault(group, []).append(problem_id)
    values = sorted(groups, key=_numbers_then_texts)
    return {value: only_problems(results, groups[value]) for value in values}


def _numbers_then_texts(value: str) -> tuple[int, float, str]:
    """Return a key that sorts numbers by size, then texts, and no value last."""
    with contextlib.suppress(ValueError):
        return 0, float(value), ""
    return (2 if value == _WITHOUT else 1), 0.0, value


def check_by(meta: Iterable[Mapping[str, Any]], field: str | None) -> None:
    """Raise InvalidValueError where the `meta` of no problem has the field; None is no field."""
    names = {name for fields in meta for name in fields}
    if field is not None and not names:
        raise InvalidValueError(
            f"by: {field!r}: the problems have no `meta`; give them one, and evaluate or score them"
        )
    if field is not None:
        one_of("by", field, names)
