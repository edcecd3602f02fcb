"""The workers of the pool: threads that hand programs to their zygotes and return verdicts."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import queue
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from maxatk.errors import SandboxError
from maxatk.records import Outcome, Verdict
from maxatk.verifier import outcomes
from maxatk.verifier.jobs import Job, Limits, Pair, as_jobs
from maxatk.verifier.zygote_process import Isolation, Zygote, new_uid

_ATTEMPTS = 3
_IMPORTS_NUMPY = re.compile(r"^[ \t]*(?:import|from)[ \t]+numpy\b", re.MULTILINE)
# Every verdict takes the interpreter's lock a few times. Another thread that computes gives it up
# only this often (seconds; usually 0.005), and verification would wait for that each time.
_SWITCH_INTERVAL = 1e-4


@dataclasses.dataclass
class Batch:
    """Where the verdicts of one call are collected."""

    done: queue.SimpleQueue[tuple[Job, Verdict]] = dataclasses.field(
        default_factory=queue.SimpleQueue
    )
    abandoned: threading.Event = dataclasses.field(default_factory=threading.Event)


@dataclasses.dataclass(frozen=True)
class Task:
    """One program of a batch, waiting for a worker."""

    job: Job
    limits: Limits
    batch: Batch

    def fail(self, message: str) -> None:
        """Answer with infra_error for every test."""
        self.batch.done.put((self.job, outcomes.uniform(self.job, Outcome.INFRA_ERROR, message)))


class Worker:
    """One thread and its zygotes, restarted whenever they die; one of them has NumPy loaded."""

    def __init__(
        self,
        index: int,
        tasks: queue.SimpleQueue[Task | None],
        started: queue.SimpleQueue[Isolation | Exception],
        numpy: str,
    ) -> None:
        self._uid = new_uid()
        self._tasks, self._started = tasks, started
        self._numpy = numpy
        self._zygotes: dict[str, Zygote] = {}  # by what they have preloaded
        self._isolation: Isolation = {}  # of the first zygote: no later one may have less
        self._stopping = False
        self.thread = threading.Thread(target=self._run, name=f"maxatk-{index}", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Make the thread end soon, whatever it is doing."""
        self._stopping = True
        for zygote in list(self._zygotes.values()):
            zygote.kill()

    def _run(self) -> None:
        try:
            self._started.put(self._running_zygote().isolation)
        except Exception as error:  # whatever it is: who made the worker waits for an answer
            self._started.put(error)
            return
        while (task := self._tasks.get()) is not None:
            if not task.batch.abandoned.is_set():
                self._answer(task)
        for flavour in list(self._zygotes):
            self._discard(flavour)

    def _answer(self, task: Task) -> None:
        reason = "the verifier was closed"
        sources = (task.job.program, task.job.checker or "")
        flavour = "numpy" if self._numpy and any(map(_IMPORTS_NUMPY.search, sources)) else ""
        for _ in range(_ATTEMPTS):
            if self._stopping:
                break
            try:
                zygote = self._running_zygote(flavour)
                verdict = outcomes.verdict(zygote, task.job, task.limits)
            except Exception as error:  # a thread that dies here would leave its caller waiting
                reason = f"{type(error).__name__}: {error}"
                self._discard(flavour)
                continue
            if verdict.scorable:
                task.batch.done.put((task.job, verdict))
                return
            reason = next(t.stderr for t in verdict.tests if t.outcome is Outcome.INFRA_ERROR)
        task.fail(reason)

    def _running_zygote(self, flavour: str = "") -> Zygote:
        if flavour not in self._zygotes:
            folder = self._numpy if flavour else ""
            zygote = Zygote(uid=self._uid, modules=flavour, folder=folder)
            self._zygotes[flavour] = zygote
            self._isolation = self._isolation or zygote.isolation
            lost = [
                name
                for name, held in self._isolation.items()
                if held is True and zygote.isolation.get(name) is not True
            ]
            if lost:
                self._discard(flavour)
                raise SandboxError(f"a later sandbox lacks layers of the first: {', '.join(lost)}")
            if self._stopping:
                raise SandboxError("the verifier was closed")
        return self._zygotes[flavour]

    def _discard(self, flavour: str) -> None:
        zygote = self._zygotes.pop(flavour, None)
        if zygote is not None:
            zygote.close()


def numpy_folder() -> str:
    """Return the folder that NumPy is imported from on this host, or an empty string."""
    found = importlib.util.find_spec("numpy")
    return str(Path(found.origin).parents[1]) if found and found.origin else ""


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
        (job,) = as_jobs([item])
        if job not in self._started:
            self._put([job], self._batch)
            self._started.add(job)

    def verify_many(self, items: Iterable[Job | Pair]) -> list[Verdict]:
        """Return the verdicts of programs in their order, as `Verifier.verify_many` does.

        It waits for those that were started and starts the others. What was started before and is
        not among them is dropped: every verdict serves one call. Raises as `Verifier.verify_many`.
        """
        jobs = as_jobs(items)
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
