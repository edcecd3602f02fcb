"""The workers of the pool: threads that hand programs to their zygotes and return verdicts."""

from __future__ import annotations

import contextlib
import importlib.util
import queue
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

from maxatk.errors import SandboxError
from maxatk.records import Outcome, Verdict
from maxatk.verifier import outcomes
from maxatk.verifier.jobs import Job, Limits, Pair, as_jobs
from maxatk.verifier.zygote_process import Isolation, Zygote, new_uid

CLOSED = "the verifier was closed"

_ATTEMPTS = 3
_IMPORTS_NUMPY = re.compile(r"^[ \t]*(?:import|from)[ \t]+numpy\b", re.MULTILINE)
# Every verdict takes the interpreter's lock a few times. Another thread that computes gives it up
# only this often (seconds; usually 0.005), and verification would wait for that each time.
_SWITCH_INTERVAL = 1e-4


class Task(NamedTuple):
    """One program that waits for a worker; who wants its verdict may cancel it until then."""

    verdict: Future[Verdict]
    job: Job
    limits: Limits

    def answer(self, found: Callable[[Job, Limits], Verdict]) -> None:
        """Set the verdict that a function finds, unless nobody wants it any more."""
        if self.verdict.set_running_or_notify_cancel():
            self.verdict.set_result(found(self.job, self.limits))


def infra_error(job: Job, message: str) -> Verdict:
    """Return the verdict of infra_error for every test."""
    return outcomes.uniform(job, Outcome.INFRA_ERROR, message)


class Worker:
    """One thread and its zygotes, restarted whenever they die; one of them has NumPy loaded.

    `started` is the isolation of its first zygote, or the SandboxError without one.
    """

    def __init__(self, index: int, tasks: queue.SimpleQueue[Task | None], numpy: str) -> None:
        self._uid, self._tasks, self._numpy = new_uid(), tasks, numpy
        self._zygotes: dict[str, Zygote] = {}  # by what they have preloaded
        self._isolation: Isolation = {}  # of the first zygote: no later one may have less
        self._stopping = False
        self.started: Future[Isolation] = Future()
        self.thread = threading.Thread(target=self._run, name=f"maxatk-{index}", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Make the thread end soon, whatever it is doing."""
        self._stopping = True
        for zygote in list(self._zygotes.values()):
            zygote.kill()

    def _run(self) -> None:
        try:
            self.started.set_result(self._running_zygote().isolation)
        except Exception as error:  # whatever it is: who made the worker waits for an answer
            ours = isinstance(error, SandboxError)
            failed = error if ours else SandboxError(f"the sandbox did not start: {error!r}")
            self.started.set_exception(failed)
            return
        while (task := self._tasks.get()) is not None:
            task.answer(self._verdict)
        for flavour in list(self._zygotes):
            self._discard(flavour)

    def _verdict(self, job: Job, limits: Limits) -> Verdict:
        reason = CLOSED
        sources = (job.program, job.checker or "")
        flavour = "numpy" if self._numpy and any(map(_IMPORTS_NUMPY.search, sources)) else ""
        for _ in range(_ATTEMPTS):
            if self._stopping:
                break
            try:
                verdict = outcomes.verdict(self._running_zygote(flavour), job, limits)
            except Exception as error:  # a thread that dies here would leave its caller waiting
                reason = f"{type(error).__name__}: {error}"
                self._discard(flavour)
                continue
            if verdict.scorable:
                return verdict
            reason = next(t.stderr for t in verdict.tests if t.outcome is Outcome.INFRA_ERROR)
        return infra_error(job, reason)

    def _running_zygote(self, flavour: str = "") -> Zygote:
        if flavour not in self._zygotes:
            folder = self._numpy if flavour else ""
            zygote = Zygote(uid=self._uid, modules=flavour, folder=folder)
            self._zygotes[flavour] = zygote
            self._isolation = self._isolation or zygote.isolation
            held = [name for name, holds in self._isolation.items() if holds is True]
            lost = [name for name in held if zygote.isolation.get(name) is not True]
            if lost:
                self._discard(flavour)
                raise SandboxError(f"a later sandbox lacks layers of the first: {', '.join(lost)}")
            if self._stopping:
                raise SandboxError(CLOSED)
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

    def __init__(self, put: Callable[[Job], Future[Verdict]]) -> None:
        self._put = put
        self._verdicts: dict[Job, Future[Verdict]] = {}

    def start(self, item: Job | Pair) -> None:
        """Hand a program to the workers; raises as `Verifier.verify_many`."""
        (job,) = as_jobs([item])
        if job not in self._verdicts:
            self._verdicts[job] = self._put(job)

    def verify_many(self, items: Iterable[Job | Pair]) -> list[Verdict]:
        """Return the verdicts of programs in their order, as `Verifier.verify_many` does.

        What was started before and is not among them is dropped: every verdict serves one call.
        """
        jobs = as_jobs(items)
        for job in jobs:
            self.start(job)
        verdicts = [self._verdicts[job].result() for job in jobs]
        self._drop()
        return verdicts

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *_: object) -> None:
        self._drop()

    def _drop(self) -> None:
        for verdict in self._verdicts.values():
            verdict.cancel()
        self._verdicts = {}
