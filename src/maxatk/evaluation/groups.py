"""Results by a field of the problems' `meta`, such as the difficulty."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from maxatk.errors import InvalidValueError, unknown_name
from maxatk.evaluation.results import only_problems

WITHOUT = "(none)"
"""The group of the problems that do not have the field."""


def results_by(results: Mapping[str, Any], field: str) -> dict[str, dict[str, Any]]:
    """Return the results over the problems of every value of a field, the values in order.

    Raises InvalidValueError where the results hold no `meta`, or none of it has the field.
    """
    per_problem = results["per_problem"]
    meta = per_problem.get("meta")
    if meta is None:
        raise InvalidValueError(
            f"by: {field!r}: the results hold no `meta` of the problems; give the problems a field "
            "`meta` and evaluate or score them again"
        )
    check_by(meta, field)
    groups: dict[Any, list[str]] = {}
    for problem_id, fields in zip(per_problem["ids"], meta, strict=True):
        groups.setdefault(fields.get(field, WITHOUT), []).append(problem_id)
    return {str(v): only_problems(results, groups[v]) for v in sorted(groups, key=_order)}


def check_by(meta: Iterable[Mapping[str, Any]], field: str | None) -> None:
    """Raise InvalidValueError where the `meta` of no problem has the field; None is no field."""
    if field is None:
        return
    names = {name for fields in meta for name in fields}
    if not names:
        raise InvalidValueError(f"by: {field!r}: the problems have no `meta`")
    if field not in names:
        raise unknown_name("by", field, names)


def _order(value: Any) -> tuple[int, float, str]:
    is_number = isinstance(value, (int, float))
    return (value == WITHOUT, float(value) if is_number else 0.0, "" if is_number else str(value))
