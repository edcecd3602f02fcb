"""What a benchmark's row becomes: a problem with its reference solution, or a reason why not."""

from __future__ import annotations

import dataclasses

from maxatk.records import Problem


@dataclasses.dataclass(frozen=True)
class SolvedProblem:
    """A problem and the source of a program known to solve it, or None where the row has none."""

    problem: Problem
    solution: str | None


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """A row that makes no problem, and why."""

    row_id: str
    reason: str
