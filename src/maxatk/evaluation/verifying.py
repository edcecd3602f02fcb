"""Verify submissions in a thread of their own, so that sampling does not wait for it."""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

from maxatk.evaluation.store import Store
from maxatk.evaluation.submissions import Submission, program_key
from maxatk.records import Problem, Score, Verdict
from maxatk.verifier import Verifier, problem_job

UnitProgress = Callable[[int, int, str], None]
"""Called as progress(done, total, unit), from the sampling and from the verification thread."""

Verified = tuple[Submission, Verdict]

BATCH = 256
_WAITING = 8  # batches in the queue before the sampler has to wait
# Every verdict takes the interpreter's lock a few times. The sampler gives it up only this often
# (seconds; usually 0.005), and verification would wait for that each time: it took 1.7 times as
# long.
_SWITCH_INTERVAL = 1e-4


class VerifyingThread:
    """A context manager that verifies batches in the order given and hands over their verdicts.

    `found` is called in the thread with verdicts as they come, each beside its submission. An
    error of the verifier or of `found` is raised by the next `put`, or on leaving the context.
    Leaving it normally waits for the queue; leaving it with an error drops what is queued.
    """

    def __init__(
        self,
        verifier: Verifier,
        problems: Mapping[str, Problem],
        found: Callable[[Sequence[Verified]], None],
    ) -> None:
        self._verifier, self._problems, self._found = verifier, problems, found
        self._queue: queue.Queue[Sequence[Submission] | None] = queue.Queue(_WAITING)
        self._error: BaseException | None = None
        self._dropping = False
        self._thread = threading.Thread(target=self._work, name="maxatk-verify", daemon=True)

    def put(self, batch: Sequence[Submission]) -> None:
        """Queue submissions; waits for room."""
        self._raise_error()
        for start in range(0, len(batch), BATCH):
            self._queue.put(batch[start : start + BATCH])

    def __enter__(self) -> VerifyingThread:
        self._switch_interval = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_INTERVAL)
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._dropping = error is not None
        self._queue.put(None)
        self._thread.join()
        sys.setswitchinterval(self._switch_interval)
        if error is None:
            self._raise_error()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        # It goes on emptying the queue after an error: a sampler in `put` must not wait forever.
        while (batch := self._queue.get()) is not None:
            if self._error is None and not self._dropping:
                try:
                    self._verify(batch)
                except BaseException as error:
                    self._error = error

    def _verify(self, batch: Sequence[Submission]) -> None:
        jobs = [problem_job(f.program, self._problems[f.sample.problem_id]) for f in batch]
        early: dict[int, Verdict] = {}  # verified before one that precedes it in the batch
        handed = 0
        for index, verdict in self._verifier.verify_stream(jobs):
            early[index] = verdict
            ready = []
            while handed in early:
                ready.append((batch[handed], early.pop(handed)))
                handed += 1
            if ready:
                self._found(ready)


@contextlib.contextmanager
def scoring(
    verifier: Verifier,
    scores: Store[Score],
    problems: Mapping[str, Problem],
    *,
    total: int,
    progress: UnitProgress | None,
) -> Iterator[Callable[[Sequence[Submission]], None]]:
    """Yield a function that queues submissions, whose scores are appended in the order given.

    Those that have a score already are left out. Errors as `VerifyingThread`.
    """

    def report() -> None:
        if progress is not None:
            progress(len(scores.records), total, "scores")

    def store(found: Sequence[Verified]) -> None:
        scores.append(_score(submission, verdict) for submission, verdict in found)
        report()

    report()
    with VerifyingThread(verifier, problems, store) as thread:
        yield lambda batch: thread.put(
            [f for f in batch if (f.sample.problem_id, f.sample.sample) not in scores.records]
        )


@contextlib.contextmanager
def verifier_or_default(verifier: Verifier | None) -> Iterator[Verifier]:
    """Yield the verifier that was passed in, which stays open, or one of its own."""
    if verifier is not None:
        yield verifier
        return
    with Verifier() as own:
        yield own


def _score(found: Submission, verdict: Verdict) -> Score:
    return Score.from_verdict(
        verdict,
        problem_id=found.sample.problem_id,
        sample=found.sample.sample,
        program=program_key(found.program),
    )
