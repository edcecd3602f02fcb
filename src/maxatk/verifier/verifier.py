"""The verifier: a pool of threads, each with a zygote of its own, that verifies programs."""

from __future__ import annotations

import collections
import dataclasses
import importlib.util
import os
import queue
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from maxatk.errors import InvalidValueError, SandboxError
from maxatk.records import Outcome, TestCase, Verdict
from maxatk.verifier import outcomes
from maxatk.verifier.jobs import Job, Pair, as_jobs
from maxatk.verifier.zygote_process import Isolation, Zygote, new_uid

Progress = Callable[[int, int], object]
"""Called with the number of programs verified so far and the number of all."""

REQUIRED_LAYERS = ("seccomp", "rlimits", "imports_work", "proved_no_fork", "proved_no_socket")
_ATTEMPTS = 3
_IMPORTS_NUMPY = re.compile(r"^[ \t]*(?:import|from)[ \t]+numpy\b", re.MULTILINE)


class Verifier:
    """Verifies untrusted Python programs in sandboxes; one process tree a worker.

    `time_limit` is in CPU seconds a test, `memory_limit` and `output_limit` in bytes a test.
    With `stop_after_timeouts` the tests after that many time-outs of one program are not run.
    Usable from several threads at once (and from asyncio through `asyncio.to_thread`); use it as
    a context manager or call `close`. `unsafe=True` starts even where the layers that must hold
    do not. Raises SandboxError where programs cannot be isolated, InvalidValueError for a value
    that is not allowed.
    """

    def __init__(
        self,
        *,
        workers: int = 2,
        time_limit: float = 4.0,
        memory_limit: int = 1 << 30,
        output_limit: int = 1 << 24,
        stop_after_timeouts: int | None = None,
        unsafe: bool = False,
    ) -> None:
        settings = {
            "workers": workers,
            "time_limit": time_limit,
            "memory_limit": memory_limit,
            "output_limit": output_limit,
            "stop_after_timeouts": 1 if stop_after_timeouts is None else stop_after_timeouts,
        }
        for name, value in settings.items():
            if not value > 0:
                raise InvalidValueError(f"{name}: must be positive, got {value!r}")
        require_linux()
        self._limits = outcomes.Limits(
            time_limit, memory_limit, output_limit, stop_after_timeouts or 0
        )
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._closed = False
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        started: queue.SimpleQueue[Isolation | SandboxError] = queue.SimpleQueue()
        numpy = _numpy_folder()
        self._workers = [_Worker(i, self._tasks, started, numpy) for i in range(workers)]
        reports = [started.get() for _ in self._workers]
        self.isolation = self._accept(reports, unsafe=unsafe)

    @property
    def limits(self) -> dict[str, float]:
        """Return the limits of a test where a job names none: CPU seconds and bytes."""
        return {
            "time_limit_s": self._limits.cpu,
            "memory_limit_bytes": self._limits.memory,
            "output_limit_bytes": self._limits.output,
        }

    def verify(
        self,
        program: str,
        tests: Sequence[TestCase],
        compare: str = "tokens",
        *,
        time_limit: float | None = None,
        memory_limit: int | None = None,
        entry_point: str | None = None,
        checker: str | None = None,
    ) -> Verdict:
        """Verify one program; `time_limit` in CPU seconds and `memory_limit` in bytes a test.

        `entry_point` and `checker` as in `Job`.
        Raises InvalidValueError for arguments that are not allowed, SandboxError when closed.
        """
        job = Job(program, tuple(tests), compare, time_limit, memory_limit, entry_point, checker)
        return self.verify_many([job])[0]

    def verify_many(
        self,
        items: Iterable[Job | Pair],
        *,
        compare: str = "tokens",
        progress: Progress | None = None,
    ) -> list[Verdict]:
        """Verify many programs and return their verdicts in the same order.

        `items` are (program, tests) pairs or `Job`s; identical ones are verified once. Raises
        InvalidValueError for arguments that are not allowed, SandboxError when closed.
        """
        jobs = as_jobs(items, compare)
        verdicts: dict[int, Verdict] = {}
        for index, verdict in self.verify_stream(jobs, compare=compare):
            verdicts[index] = verdict
            if progress is not None:
                progress(len(verdicts), len(jobs))
        return [verdicts[index] for index in range(len(jobs))]

    def verify_stream(
        self, items: Iterable[Job | Pair], *, compare: str = "tokens"
    ) -> Iterator[tuple[int, Verdict]]:
        """Yield (index, verdict) as programs are verified; closing the iterator drops the rest.

        Raises InvalidValueError for arguments that are not allowed, SandboxError when closed.
        """
        indices: dict[Job, list[int]] = collections.defaultdict(list)
        for index, job in enumerate(as_jobs(items, compare)):
            indices[job].append(index)
        batch = _Batch()
        with self._lock:  # once closed, nobody would take a task out of the queue
            self._check_usable()
            for job in indices:
                self._tasks.put(_Task(job, self._limits.for_job(job), batch))
        return self._collect(batch, indices)

    def close(self) -> None:
        """Kill every process below and end the threads; programs in flight become infra_error."""
        with self._lock:
            if self._closed or os.getpid() != self._pid:
                return
            self._closed = True
        for _ in self._workers:
            self._tasks.put(None)
        for worker in self._workers:
            worker.stop()
        for worker in self._workers:
            worker.thread.join()
        _drain(self._tasks)

    def __enter__(self) -> Verifier:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _collect(
        self, batch: _Batch, indices: dict[Job, list[int]]
    ) -> Iterator[tuple[int, Verdict]]:
        try:
            for _ in range(len(indices)):
                job, verdict = batch.done.get()
                for index in indices[job]:
                    yield index, verdict
        finally:
            batch.abandoned.set()

    def _check_usable(self) -> None:
        if self._closed:
            raise SandboxError("this Verifier is closed; make a new one")
        if os.getpid() != self._pid:
            raise SandboxError("this Verifier was made before a fork; make one in each process")

    def _accept(self, reports: list[Isolation | SandboxError], *, unsafe: bool) -> Isolation:
        for report in reports:
            if isinstance(report, SandboxError):
                self.close()
                raise report
        layers = next(report for report in reports if isinstance(report, dict))
        missing = {name: why for name, why in layers.items() if why is not True}
        if layers.get("user_namespace") is True:
            missing.pop("own_uid", None)  # an ordinary user has no other user to become
        missing.pop("fork_limit", None)  # dearer without it, not less safe
        fatal = [name for name in REQUIRED_LAYERS if layers.get(name) is not True]
        if fatal and not unsafe:
            self.close()
            raise SandboxError(
                "programs cannot be isolated on this machine: "
                + "; ".join(f"{name}: {missing.get(name)}" for name in fatal)
                + ". Run on Linux 5.11 or newer with seccomp enabled (in a container: its default "
                "seccomp profile is enough), or pass unsafe=True to run them without protection."
            )
        if missing:
            text = "; ".join(f"{name} ({why})" for name, why in missing.items())
            warnings.warn(f"the sandbox lacks these layers: {text}", RuntimeWarning, stacklevel=3)
        return layers


@dataclasses.dataclass
class _Batch:
    """Where the verdicts of one call are collected."""

    done: queue.SimpleQueue[tuple[Job, Verdict]] = dataclasses.field(
        default_factory=queue.SimpleQueue
    )
    abandoned: threading.Event = dataclasses.field(default_factory=threading.Event)


@dataclasses.dataclass(frozen=True)
class _Task:
    job: Job
    limits: outcomes.Limits
    batch: _Batch

    def fail(self, message: str) -> None:
        """Answer with infra_error for every test."""
        self.batch.done.put((self.job, outcomes.uniform(self.job, Outcome.INFRA_ERROR, message)))


class _Worker:
    """One thread and its zygotes, restarted whenever they die; one of them has NumPy loaded."""

    def __init__(
        self,
        index: int,
        tasks: queue.SimpleQueue[_Task | None],
        started: queue.SimpleQueue[Isolation | SandboxError],
        numpy: str,
    ) -> None:
        self._uid = new_uid()
        self._tasks, self._started = tasks, started
        self._numpy = numpy
        self._zygotes: dict[str, Zygote] = {}  # by what they have preloaded
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
        except SandboxError as error:
            self._started.put(error)
            return
        while (task := self._tasks.get()) is not None:
            if not task.batch.abandoned.is_set():
                self._answer(task)
        for flavour in list(self._zygotes):
            self._discard(flavour)

    def _answer(self, task: _Task) -> None:
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
            self._zygotes[flavour] = Zygote(uid=self._uid, modules=modules, folder=folder)
            if self._stopping:
                raise SandboxError("the verifier was closed")
        return self._zygotes[flavour]

    def _discard(self, flavour: str) -> None:
        zygote = self._zygotes.pop(flavour, None)
        if zygote is not None:
            zygote.close()


def _imports_numpy(job: Job) -> bool:
    return any(_IMPORTS_NUMPY.search(source) for source in (job.program, job.checker or ""))


def _numpy_folder() -> str:
    """Return the folder that NumPy is imported from on this host, or an empty string."""
    found = importlib.util.find_spec("numpy")
    return str(Path(found.origin).parents[1]) if found and found.origin else ""


def _drain(tasks: queue.SimpleQueue[_Task | None]) -> None:
    while True:
        try:
            task = tasks.get_nowait()
        except queue.Empty:
            return
        if task is not None:
            task.fail("the verifier was closed")


def require_linux() -> None:
    """Raise SandboxError where the verifier cannot work at all."""
    if sys.platform != "linux":
        raise SandboxError(
            f"the verifier needs Linux, this is {sys.platform}: run it in a Linux container or "
            "virtual machine (Docker's defaults are enough)"
        )
    if not sys.executable:
        raise SandboxError("sys.executable is empty: the verifier cannot start an interpreter")
