"""The verifier: a pool of threads, each with a zygote of its own, that judges programs."""

from __future__ import annotations

import collections
import dataclasses
import os
import queue
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType

from maxatk.errors import InvalidValueError, SandboxError
from maxatk.records import Outcome, TestCase, Verdict
from maxatk.verifier import judge as judging
from maxatk.verifier.jobs import Job, Pair, as_jobs
from maxatk.verifier.worker import Isolation, Zygote, new_uid

Progress = Callable[[int, int], object]
"""Called with the number of programs judged so far and the number of all."""

REQUIRED_LAYERS = ("seccomp", "rlimits", "imports_work", "proved_no_fork", "proved_no_socket")
_ATTEMPTS = 3


class Verifier:
    """Judges untrusted Python programs in sandboxes; one process tree a worker.

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
        _require_linux()
        self._limits = judging.Limits(
            time_limit, memory_limit, output_limit, stop_after_timeouts or 0
        )
        self._pid = os.getpid()
        self._closed = False
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        started: queue.SimpleQueue[Isolation | SandboxError] = queue.SimpleQueue()
        self._workers = [_Worker(index, self._tasks, started) for index in range(workers)]
        reports = [started.get() for _ in self._workers]
        self.isolation = self._accept(reports, unsafe=unsafe)

    @property
    def limits(self) -> dict[str, float]:
        """Return the limits of a test where a job names none: CPU seconds and bytes."""
        time_limit, memory_limit, output_limit = self._settings
        return {
            "time_limit_s": time_limit,
            "memory_limit_bytes": memory_limit,
            "output_limit_bytes": output_limit,
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
    ) -> Verdict:
        """Judge one program; `time_limit` in CPU seconds and `memory_limit` in bytes a test.

        Raises InvalidValueError for arguments that are not allowed, SandboxError when closed.
        """
        job = Job(program, tuple(tests), compare, time_limit, memory_limit, entry_point)
        return self.verify_many([job])[0]

    def verify_many(
        self,
        items: Iterable[Job | Pair],
        *,
        compare: str = "tokens",
        progress: Progress | None = None,
    ) -> list[Verdict]:
        """Judge many programs and return their verdicts in the same order.

        `items` are (program, tests) pairs or `Job`s; identical ones are judged once. Raises
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
        """Yield (index, verdict) as programs are judged; closing the iterator drops the rest.

        Raises InvalidValueError for arguments that are not allowed, SandboxError when closed.
        """
        self._check_usable()
        indices: dict[Job, list[int]] = collections.defaultdict(list)
        for index, job in enumerate(as_jobs(items, compare)):
            indices[job].append(index)
        batch = _Batch()
        for job in indices:
            self._tasks.put(_Task(job, self._limits.for_job(job), batch))
        return self._collect(batch, indices)

    def close(self) -> None:
        """Kill every process below and end the threads; programs in flight become infra_error."""
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
    limits: judging.Limits
    batch: _Batch

    def fail(self, message: str) -> None:
        """Answer with infra_error for every test."""
        self.batch.done.put((self.job, judging.uniform(self.job, Outcome.INFRA_ERROR, message)))


class _Worker:
    """One thread and its zygote, which is restarted whenever it dies."""

    def __init__(
        self,
        index: int,
        tasks: queue.SimpleQueue[_Task | None],
        started: queue.SimpleQueue[Isolation | SandboxError],
    ) -> None:
        self._uid = new_uid()
        self._tasks, self._started = tasks, started
        self._zygote: Zygote | None = None
        self._stopping = False
        self.thread = threading.Thread(target=self._run, name=f"maxatk-{index}", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Make the thread end soon, whatever it is doing."""
        self._stopping = True
        zygote = self._zygote
        if zygote is not None:
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
        self._discard()

    def _answer(self, task: _Task) -> None:
        reason = "the verifier was closed"
        for _ in range(_ATTEMPTS):
            if self._stopping:
                break
            try:
                verdict = judging.judge(self._running_zygote(), task.job, task.limits)
            except SandboxError as error:
                reason = str(error)
                self._discard()
                continue
            if verdict.scorable:
                task.batch.done.put((task.job, verdict))
                return
            reason = "a test was killed from outside; the machine may be out of memory"
        task.fail(reason)

    def _running_zygote(self) -> Zygote:
        if self._zygote is None:
            self._zygote = Zygote(uid=self._uid)
        return self._zygote

    def _discard(self) -> None:
        zygote, self._zygote = self._zygote, None
        if zygote is not None:
            zygote.close()


def _drain(tasks: queue.SimpleQueue[_Task | None]) -> None:
    while True:
        try:
            task = tasks.get_nowait()
        except queue.Empty:
            return
        if task is not None:
            task.fail("the verifier was closed")


def _require_linux() -> None:
    if sys.platform != "linux":
        raise SandboxError(
            f"the verifier needs Linux, this is {sys.platform}: run it in a Linux container or "
            "virtual machine (Docker's defaults are enough)"
        )
    if not sys.executable:
        raise SandboxError("sys.executable is empty: the verifier cannot start an interpreter")
