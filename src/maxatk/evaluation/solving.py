"""Solve one problem: draw programs and verify them as they come, until one passes every test."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maxatk.errors import InvalidValueError
from maxatk.evaluation.backends import ModelSettings, load_backend
from maxatk.evaluation.sampling import Request, SamplingSettings
from maxatk.evaluation.submissions import submission
from maxatk.evaluation.verifying import (
    Verified,
    VerifyingThread,
    verifier_or_default,
    verify_batch,
)
from maxatk.records import Problem
from maxatk.verifier import Progress, Verifier, problem_job

DRAWN_AT_ONCE = 8  # samples under way at a time: few, so that an easy problem is done soon


@dataclasses.dataclass(frozen=True)
class Solution:
    """The best program found for a problem, and what was tried.

    `program` is the first with the highest reward, sample `sample`; both are None, as is
    `reward`, where no sample could be verified. `rewards` are those of all verified samples in the
    order of their indices, None where the verifier itself failed; `outcomes` counts theirs.
    """

    problem_id: str
    program: str | None
    sample: int | None
    reward: float | None
    passed: int
    total: int
    rewards: tuple[float | None, ...]
    outcomes: dict[str, int]

    @property
    def solved(self) -> bool:
        """Whether the program passes every test."""
        return self.reward is not None and self.reward >= 1

    def to_json(self) -> dict[str, Any]:
        """Return the solution as a JSON object."""
        row = dataclasses.asdict(self)
        return {**row, "solved": self.solved, "samples": len(self.rewards)}


def solve(
    model: str | Path,
    problem: Problem,
    *,
    n: int = 64,
    settings: SamplingSettings | None = None,
    model_settings: ModelSettings | None = None,
    verifier: Verifier | None = None,
    keep_going: bool = False,
    progress: Progress | None = None,
) -> Solution:
    """Draw up to `n` programs for a problem, verify each, and return the best.

    Verification runs beside sampling. Once a program passes every test no more are drawn, unless
    `keep_going`; the program returned does not depend on how fast the verifier was.

    Args:
        model: As in `evaluate`.
        problem: What is to be solved.
        n: The most programs drawn.
        settings: As in `evaluate`, without its `samples`, which `n` is.
        model_settings: As in `evaluate`; 8 samples at a time where None.
        verifier: As in `evaluate`.
        keep_going: Draw all `n`, even after a program has passed every test.
        progress: Called with (verified, n).

    Raises InvalidValueError (n, settings, the problem's comparison rule), MissingFileError
    (model), MissingDependencyError (backend), ServerError.
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise InvalidValueError(f"n: must be an integer of 1 or more, got {n!r}")
    problem_job("", problem)
    settings = dataclasses.replace(settings or SamplingSettings(), samples=n)
    sampler = load_backend(str(model), model_settings or ModelSettings(batch_size=DRAWN_AT_ONCE))
    sampler.check({problem.id: problem.prompt}, settings)
    verified: list[Verified] = []

    def found(batch: Sequence[Verified]) -> None:
        verified.extend(batch)
        if progress is not None:
            progress(len(verified), n)

    with (
        verifier_or_default(verifier) as opened,
        VerifyingThread(
            lambda batch: verify_batch(batch, opened, {problem.id: problem}, found),
            ahead=sampler.batch_size,
        ) as thread,
    ):
        drawn = sampler.sample([Request(problem.id, problem.prompt, range(n))], settings)
        with contextlib.closing(drawn):
            for samples in drawn:
                thread.put([submission(s, problem, opened.program_of) for s in samples])
                if not keep_going and any(v.reward == 1 for _, v in list(verified)):
                    break
    return _best(problem, verified)


def _best(problem: Problem, verified: Sequence[Verified]) -> Solution:
    scored = [(found, verdict) for found, verdict in verified if verdict.reward is not None]
    # The first of the best: max keeps the first of equals.
    best = max(scored, key=lambda pair: pair[1].reward or 0.0, default=None)
    return Solution(
        problem_id=problem.id,
        program=best[0].program if best else None,
        sample=best[0].sample.sample if best else None,
        reward=best[1].reward if best else None,
        passed=best[1].passed if best else 0,
        total=len(problem.tests),
        rewards=tuple(v.reward for _, v in verified),
        outcomes=dict(sorted(Counter(str(v.outcome) for _, v in verified).items())),
    )
