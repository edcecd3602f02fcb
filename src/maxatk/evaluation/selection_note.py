"""What to say beside the numbers of problems that a model's own rewards chose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

SELECTED_BY = "selected_by"
"""The field of a problem's `meta` that says by which model and how the problem was chosen."""


def selection_note(meta: Iterable[Mapping[str, Any]] | None) -> str | None:
    """Return what to say beside numbers over such problems, None where no model chose any.

    `meta` is that of the problems, as `Results.per_problem` and `Problem` have it.
    """
    rules = {str(fields[SELECTED_BY]): None for fields in meta or () if SELECTED_BY in fields}
    if not rules:
        return None
    return (
        f"problems chosen by a model's own rewards ({'; '.join(rules)}): they favour that model at "
        "large k, or handicap it where it solved none, and say nothing of problems in general"
    )
