"""One worker of the pool: a thread that hands programs to its zygotes and returns verdicts."""

from __future__ import annotations

import dataclasses
import importlib.util
import queue
import re
import threading
from pathlib import Path

from maxatk.errors import SandboxError
from maxatk.records import Outcome, Verdict
from maxatk.verifier import outcomes
from maxatk.verifier.jobs import Job
from maxatk.verifier.zygote_process import Isolation, Zygote, new_uid

_ATTEMPTS = 3
_IMPORTS_NUMPY = re.compile(r"^[ \t]*(?:import|from)[ \t]+numpy\b", re.MULTILINE)


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
    limits: outcomes.Limits
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
        for _ in range(_ATTEMPTS):
            if self._stopping:
                break
            flavour = "numpy" if self._numpy and _imports_numpy(task.job) else ""
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
            modules = (flavour,) if flavour else ()
            folder = self._numpy if flavour else ""
            zygote = Zygote(uid=self._uid, modules=modules, folder=folder)
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


def _imports_numpy(job: Job) -> bool:
    return any(_IMPORTS_NUMPY.search(source) for source in (job.program, job.checker or ""))


def numpy_folder() -> str:
    """Return the folder that NumPy is imported from on this host, or an empty string."""
    found = importlib.util.find_spec("numpy")
    return str(Path(found.origin).parents[1]) if found and found.origin else ""
