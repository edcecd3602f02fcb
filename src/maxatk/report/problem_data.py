"""The problems as data of the page: their values at every k, and what a script shows of each."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from maxatk.report.drilldown import ProblemDetail
from maxatk.report.runs import Comparison

_METRIC = "max@k"


def problem_data(comparison: Comparison, details: Sequence[ProblemDetail]) -> str:
    """Return the JSON that `problems.js` reads, fit to stand in a script element.

    "ids", "models" and "ks"; "values" by model, k and problem; "details" of every problem, or of
    none.
    """
    data = {
        "ids": comparison.problem_ids,
        "models": [run.name for run in comparison.runs],
        "ks": comparison.ks,
        "values": [
            [
                [None if value is None else round(value, 4) for value in values[str(k)]]
                for k in comparison.ks
            ]
            for run in comparison.runs
            for values in [run.results["per_problem"][_METRIC]]
        ],
        "details": [_without_empty(dataclasses.asdict(detail)) for detail in details],
    }
    # Nothing in a text may end the element, nor begin a comment in it.
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _without_empty(value: Any) -> Any:
    """Return JSON without the texts that are empty and the values that are None."""
    if isinstance(value, dict):
        kept = {key: _without_empty(inner) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if inner not in ("", None)}
    if isinstance(value, (list, tuple)):
        return [_without_empty(inner) for inner in value]
    return value
