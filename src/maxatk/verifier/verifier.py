"""The verifier: a pool of threads, each with a sandbox of its own, that verifies programs.

verify_many, verify_stream      jobs in, equal ones once; verdicts out, as they are done
ahead                           the same, begun before the caller waits
| queue of tasks
worker thread (1 ... workers)   asks again up to three times; then infra_error
| outcomes.verdict            decides every outcome; compares one output at a time
| pipe, two memory files
zygote                          a small interpreter, isolated once; a second one with NumPy
| fork
process of the program          compiles it once, waits for each test, ends late ones
| fork
test                            untrusted code; a check test has two, joined by pipes
"""

from __future__ import annotations

import collections
import dataclasses
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from maxatk.errors import InvalidValueError, SandboxError
from maxatk.records import TestCase, Verdict
from maxatk.verifier import layers, outcomes
from maxatk.verifier.ahead import Ahead
from maxatk.verifier.extract import extract_code
from maxatk.verifier.jobs import Job, Pair, as_jobs
from maxatk.verifier.worker import Batch, Task, Worker, numpy_folder
from maxatk.verifier.zygote_process import Isolation

Progress = Callable[[int, int], object]
"""Called with the number of programs verified so far and the number of all."""


class Verifier:
    """Verifies untrusted Python programs in sandboxes; one process tree a worker.

    Usable from several threads at once (and from asyncio through `asyncio.to_thread`); use it as
    a context manager or call `close`. Raises SandboxError where programs cannot be isolated,
    InvalidValueError for a value that is not allowed.

    Args:
        workers: How many programs are verified at once.
        time_limit: CPU seconds a test.
        memory_limit: Bytes a test.
        output_limit: Bytes a test, of standard output and of standard error each.
        stop_after_timeouts: Time-outs of one program after which its other tests are not run.
        repair_truncated: Whether `program_of` cuts a program that ends in the middle.
        unsafe: Whether to start even where the layers that must hold do not.
    """

    shards: Sequence[Mapping[str, Any]] = ()
    """What each shard of a cluster has said of its node; a verifier of this machine has none."""

    def described(self) -> dict[str, Any]:
        """Return what the manifest of a run says of where its programs ran."""
        shards = {"shards": list(self.shards)} if self.shards else {}
        return {"isolation": dict(self.isolation), **shards}

    def __init__(
        self,
        *,
        workers: int = 2,
        time_limit: float = 4.0,
        memory_limit: int = 1 << 30,
        output_limit: int = 1 << 24,
        stop_after_timeouts: int | None = None,
        repair_truncated: bool = False,
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
        layers.require_linux()
        self._limits = outcomes.Limits(
            time_limit, memory_limit, output_limit, stop_after_timeouts or 0
        )
        self._repair_truncated = repair_truncated
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._closed = False
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._workers: list[Worker] = []
        try:
            self.isolation = self._start(workers, unsafe=unsafe)
        except BaseException:
            self.close()
            raise

    def _start(self, workers: int, *, unsafe: bool) -> Isolation:
        started: queue.SimpleQueue[Isolation | Exception] = queue.SimpleQueue()
        numpy = numpy_folder()
        try:
            for index in range(workers):
                self._workers.append(Worker(index, self._tasks, started, numpy))
        except RuntimeError as error:
            raise SandboxError(f"a worker cannot be started: {error}") from error
        isolations: list[Isolation] = []
        for _ in self._workers:
            report = started.get()
            if isinstance(report, SandboxError):
                raise report
            if isinstance(report, Exception):
                raise SandboxError(f"the sandbox did not start: {report!r}") from report
            if report not in isolations:
                isolations.append(report)
        for isolation in isolations:
            layers.accept(isolation, unsafe=unsafe)
        return isolations[0]

    @property
    def limits(self) -> dict[str, float]:
        """Return the limits of a test where a job names none: CPU seconds and bytes.

        Those that stop after some time-outs say after how many, and those that repair truncated
        programs say so: both decide rewards.
        """
        stop = self._limits.max_timeouts
        return {
            "time_limit_s": self._limits.cpu,
            "memory_limit_bytes": self._limits.memory,
            "output_limit_bytes": self._limits.output,
            **({"stop_after_timeouts": stop} if stop else {}),
            **({"repair_truncated": True} if self._repair_truncated else {}),
        }

    def program_of(self, completion: str, entry_point: str | None) -> str:
        """Return the program in a completion, as `extract_code` finds it with these settings."""
        repair = bool(self.limits.get("repair_truncated"))
        return extract_code(completion, entry_point, repair_truncated=repair)

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
        """Verify one program.

        Raises InvalidValueError for arguments that are not allowed, SandboxError when closed.

        Args:
            program: Its source.
            tests: One or more.
            compare: The name of a comparison rule.
            time_limit: CPU seconds a test; None for the verifier's.
            memory_limit: Bytes a test; None for the verifier's.
            entry_point: The function that check tests are given.
            checker: The source of the program that decides under the rule `checker`.
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
        batch = Batch()
        self._put(indices, batch)
        return self._collect(batch, indices)

    def ahead(self) -> Ahead | None:
        """Return where programs are started before their verdicts are wanted, None without one."""
        return Ahead(self._put)

    def _put(self, jobs: Iterable[Job], batch: Batch) -> None:
        with self._lock:  # once closed, nobody would take a task out of the queue
            self._check_usable()
            for job in jobs:
                self._tasks.put(Task(job, self._limits.for_job(job), batch))

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
        self, batch: Batch, indices: dict[Job, list[int]]
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


def _drain(tasks: queue.SimpleQueue[Task | None]) -> None:
    while True:
        try:
            task = tasks.get_nowait()
        except queue.Empty:
            return
        if task is not None:
            task.fail("the verifier was closed")


@dataclasses.dataclass(frozen=True)
class VerifierSettings:
    """How programs are verified: worker processes and the limits of one test.

    Args:
        workers: Worker processes; the number of cores this process may use, if not given.
        time_limit: CPU seconds of one test; a problem's own limit wins.
        memory_limit_mb: MiB of one test; a problem's own limit wins.
        stop_after_timeouts: After so many tests that ran out of time a program's other tests are
            left out and count as failed; none is left out, if not given.
        repair_truncated: A program that ends in the middle is cut to the longest prefix of lines
            that can be parsed.
    """

    workers: int | None = None
    time_limit: float = 4.0
    memory_limit_mb: int = 1024
    stop_after_timeouts: int | None = None
    repair_truncated: bool = True

    def __post_init__(self) -> None:
        for name in ("workers", "time_limit", "memory_limit_mb", "stop_after_timeouts"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InvalidValueError(f"{name}: must be positive, got {value!r}")

    def open(self) -> Verifier:
        """Return a verifier with these settings; close it, or use it in a with statement."""
        return Verifier(
            workers=self.workers or len(os.sched_getaffinity(0)),
            time_limit=self.time_limit,
            memory_limit=self.memory_limit_mb << 20,
            stop_after_timeouts=self.stop_after_timeouts,
            repair_truncated=self.repair_truncated,
        )
