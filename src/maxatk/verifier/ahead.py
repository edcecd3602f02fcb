"""Programs that are verified while the caller still does other work."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator

from maxatk.records import Verdict
from maxatk.verifier.jobs import Job, Pair, as_jobs
from maxatk.verifier.worker import Batch

# Every verdict takes the interpreter's lock a few times. Another thread that computes gives it up
# only this often (seconds; usually 0.005), and verification would wait for that each time.
_SWITCH_INTERVAL = 1e-4


@contextlib.contextmanager
def quick_turns() -> Iterator[None]:
    """Let threads take turns quickly inside, so that verification keeps pace with computing."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class Ahead:
    """Programs that the workers of a verifier take before anybody waits for their verdicts.

    `Verifier.ahead` makes one. It is a context manager for one thread: leaving it drops the
    programs that no worker has taken.
    """

    def __init__(self, put: Callable[[Iterable[Job], Batch], None]) -> None:
        self._put = put
        self._batch = Batch()
        self._started: set[Job] = set()

    def start(self, item: Job | Pair) -> None:
        """Hand a program to the workers; raises as `Verifier.verify_many`."""
        (job,) = as_jobs([item], "tokens")
        if job not in self._started:
            self._put([job], self._batch)
            self._started.add(job)

    def verify_many(self, items: Iterable[Job | Pair]) -> list[Verdict]:
        """Return the verdicts of programs in their order, as `Verifier.verify_many` does.

        It waits for those that were started and starts the others. What was started before and is
        not among them is dropped: every verdict serves one call. Raises as `Verifier.verify_many`.
        """
        jobs = as_jobs(items, "tokens")
        for job in jobs:
            self.start(job)
        missing, verdicts = set(jobs), {}
        while missing:
            job, verdict = self._batch.done.get()
            verdicts[job] = verdict
            missing.discard(job)
        self._drop()
        return [verdicts[job] for job in jobs]

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *_: object) -> None:
        self._drop()

    def _drop(self) -> None:
        self._batch.abandoned.set()
        self._batch, self._started = Batch(), set()
