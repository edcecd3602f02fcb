"""Solve one problem: draw programs and verify them as they come, until one passes every test."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from maxatk.errors import InvalidValueError
from maxatk.evaluation.backends import ModelSettings, load_backend
from maxatk.evaluation.sampling import Request, SamplingSettings
from maxatk.evaluation.submissions import Submission, submission
from maxatk.evaluation.verifying import (
    BY_TESTS,
    Verified,
    VerifyingThread,
    reward_batch,
    reward_or_tests,
    verifier_or_default,
    verify_batch,
)
from maxatk.records import Problem, Score, Verdict
from maxatk.verifier import Progress, Verifier, problem_job

Attempt = tuple[Submission, Score]

DRAWN_AT_ONCE = 8  # samples under way at a time: few, so that an easy problem is done soon


@dataclasses.dataclass(frozen=True)
class Solution:
    """The best sample found for a problem, and what was tried.

    `program` is the program in the first sample with the highest reward, `completion` all that it
    says, `sample` its index; they are None, as is `reward`, where no sample could be verified.
    `passed` of its `total` tests passed, both 0 where something else rewards. `rewards` are those
    of all verified samples in the order of their indices, None where the verifier itself failed;
    `outcomes` counts theirs.
    """

    problem_id: str
    program: str | None
    completion: str | None
    sample: int | None
    reward: float | None
    passed: int
    total: int
    rewards: tuple[float | None, ...]
    outcomes: dict[str, int]

    @property
    def solved(self) -> bool:
        """Whether the reward is 1 or more: with tests, whether the program passes every one."""
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
    reward: Any = BY_TESTS,
    keep_going: bool = False,
    progress: Progress | None = None,
) -> Solution:
    """Draw up to `n` programs for a problem, verify each, and return the best.

    Verification runs beside sampling. Once a program passes every test, or has a reward of 1 or
    more, no more are drawn, unless `keep_going`; the program returned does not depend on how fast
    the verifier was.

    Args:
        model: As in `evaluate`.
        problem: What is to be solved.
        n: The most programs drawn.
        settings: As in `evaluate`, without its `samples`, which `n` is.
        model_settings: As in `evaluate`; 8 samples at a time where None.
        verifier: As in `evaluate`.
        reward: As in `evaluate`.
        keep_going: Draw all `n`, even after a program has passed every test.
        progress: Called with (verified, n).

    Raises InvalidValueError (n, settings, the problem's comparison rule), MissingFileError
    (model), MissingDependencyError (backend), ServerError.
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise InvalidValueError(f"n: must be an integer of 1 or more, got {n!r}")
    if reward == BY_TESTS:
        problem_job("", problem)
    settings = dataclasses.replace(settings or SamplingSettings(), samples=n)
    attempts: list[Attempt] = []

    def found(batch: Sequence[Attempt]) -> None:
        attempts.extend(batch)
        if progress is not None:
            progress(len(attempts), n)

    with verifier_or_default(verifier) as opened:
        attempt = _attempting(problem, reward, opened, found)  # refuses before the model is loaded
        running = model_settings or ModelSettings(batch_size=DRAWN_AT_ONCE)
        sampler = load_backend(str(model), running)
        sampler.check({problem.id: problem.prompt}, settings)
        with VerifyingThread(attempt, ahead=sampler.batch_size) as thread:
            drawn = sampler.sample([Request(problem.id, problem.prompt, range(n))], settings)
            with contextlib.closing(drawn):
                for samples in drawn:
                    thread.put([submission(s, problem, opened.program_of) for s in samples])
                    if not keep_going and any(_is_solution(score) for _, score in list(attempts)):
                        break
    return _best(problem.id, attempts, total=len(problem.tests) if reward == BY_TESTS else 0)


def _attempting(
    problem: Problem, reward: Any, verifier: Verifier, found: Callable[[Sequence[Attempt]], None]
) -> Callable[[Sequence[Submission]], None]:
    """Return what verifies or rewards a batch of submissions and hands `found` their scores."""
    problems = {problem.id: problem}
    rewarded = reward_or_tests(reward, problems, verifier)

    def scored(batch: Sequence[Verified]) -> None:
        found([(f, _score(f, verdict)) for f, verdict in batch])

    def attempt(batch: Sequence[Submission]) -> None:
        if rewarded is None:
            verify_batch(batch, verifier, problems, scored)
        else:
            found(list(zip(batch, reward_batch(batch, rewarded, problems), strict=True)))

    return attempt


def _score(found: Submission, verdict: Verdict) -> Score:
    sample = found.sample
    return Score.from_verdict(verdict, problem_id=sample.problem_id, sample=sample.sample)


def _is_solution(score: Score) -> bool:
    return score.reward is not None and score.reward >= 1


def _best(problem_id: str, attempts: Sequence[Attempt], *, total: int) -> Solution:
    scored = [(found, score, score.reward) for found, score in attempts if score.reward is not None]
    # The first of the best: max keeps the first of equals.
    best = max(scored, key=lambda attempt: attempt[2], default=None)
    return Solution(
        problem_id=problem_id,
        program=best[0].program if best else None,
        completion=best[0].sample.completion if best else None,
        sample=best[0].sample.sample if best else None,
        reward=best[2] if best else None,
        passed=best[1].passed if best else 0,
        total=total,
        rewards=tuple(score.reward for _, score in attempts),
        outcomes=dict(sorted(Counter(str(score.outcome) for _, score in attempts).items())),
    )
