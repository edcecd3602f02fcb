"""Solve one problem: draw programs and verify them as they come, until one passes every test."""

from __future__ import annotations

import concurrent.futures
import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maxatk.errors import InvalidValueError
from maxatk.evaluation.backends import ServerSettings, load_backend
from maxatk.evaluation.sampling import SamplingSettings
from maxatk.evaluation.submissions import Submission, submission
from maxatk.records import Problem, Verdict
from maxatk.verifier import Progress, Verifier, problem_job

BATCH = 8  # samples drawn at once: few, so that an easy problem is done soon

Verified = tuple[Submission, Verdict]


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
    backend: str = "hf",
    server: ServerSettings | None = None,
    verifier: Verifier | None = None,
    dtype: str = "auto",
    device: str | None = None,
    batch_size: int | None = BATCH,
    keep_going: bool = False,
    progress: Progress | None = None,
) -> Solution:
    """Draw up to `n` programs for a problem, verify each, and return the best.

    Verification runs beside sampling, a batch behind. Once a program passes every test no batch
    more is drawn, unless `keep_going`; the program returned does not depend on how fast the
    verifier was. `settings` without its `samples`, which `n` is; the other arguments as in
    `evaluate`.

    Raises InvalidValueError (n, settings, the problem's comparison rule), MissingFileError
    (model), MissingDependencyError (backend), ServerError.
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise InvalidValueError(f"n: must be an integer of 1 or more, got {n!r}")
    problem_job("", problem)
    settings = dataclasses.replace(settings or SamplingSettings(), samples=n)
    sampler = load_backend(
        backend, str(model), dtype=dtype, device=device, batch_size=batch_size, server=server
    )
    sampler.check({problem.id: problem.prompt}, settings)
    verifying = _Verifying(problem, verifier, n, progress)
    with verifying:
        for start in range(0, n, sampler.batch_size):
            if verifying.solved and not keep_going:
                break
            indices = range(start, min(start + sampler.batch_size, n))
            drawn = sampler.sample(problem.id, problem.prompt, list(indices), settings)
            verifying.put([submission(sample) for sample in drawn])
    return _best(problem, verifying.verified)


class _Verifying:
    """Verifies batches one after the other in a thread; leaving the context waits for them."""

    def __init__(
        self, problem: Problem, verifier: Verifier | None, n: int, progress: Progress | None
    ) -> None:
        self._problem, self._n, self._progress = problem, n, progress
        self._own = Verifier() if verifier is None else None
        self._verifier = verifier or self._own
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "maxatk-solve")
        self._batches: list[concurrent.futures.Future[list[Verified]]] = []
        self._count = 0

    def put(self, batch: Sequence[Submission]) -> None:
        self._batches.append(self._thread.submit(self._score, batch))

    @property
    def solved(self) -> bool:
        """Whether a program verified so far passes; raises what the verification raised."""
        done = [batch.result() for batch in self._batches if batch.done()]
        return any(verdict.reward == 1 for batch in done for _, verdict in batch)

    @property
    def verified(self) -> list[Verified]:
        return [verified for batch in self._batches for verified in batch.result()]

    def _score(self, batch: Sequence[Submission]) -> list[Verified]:
        assert self._verifier is not None
        verdicts = self._verifier.verify_many(
            [problem_job(found.program, self._problem) for found in batch]
        )
        self._count += len(batch)
        if self._progress is not None:
            self._progress(self._count, self._n)
        return list(zip(batch, verdicts, strict=True))

    def __enter__(self) -> _Verifying:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._thread.shutdown(wait=True, cancel_futures=kind is not None)
        if self._own is not None:
            self._own.close()


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
