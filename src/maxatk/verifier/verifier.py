"""The verifier: a pool of threads, each with a sandbox of its own, that verifies programs.

queue of tasks                  from verify_many, verify_stream and ahead
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
from concurrent.futures import Future, as_completed
from typing import Any, Protocol, TypeVar

from maxatk.check import positive
from maxatk.errors import SandboxError
from maxatk.records import TestCase, Verdict
from maxatk.verifier import layers
from maxatk.verifier.extract import extract_code
from maxatk.verifier.jobs import Job, Limits, Pair, as_jobs
from maxatk.verifier.worker import CLOSED, Ahead, Task, Worker, infra_error, numpy_folder
from maxatk.verifier.zygote_process import Isolation

Progress = Callable[[int, int], object]
"""Called with the number of programs verified so far and the number of all."""

VerifierT = TypeVar("VerifierT", bound="AnyVerifier")


class AnyVerifier(Protocol):
    """What a run needs of a verifier: one of this machine, or one whose programs run on a cluster.

    `isolation` says which layers hold, `shards` what each shard of a cluster said of its node.
    """

    isolation: Mapping[str, Any]
    shards: Sequence[Mapping[str, Any]] = ()
    _limits: Limits

    def verdicts(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Verdict]]:
        """Yield the verdicts of jobs that are all different, as they are done."""

    def ahead(self) -> Ahead | None:
        """Return where programs are started before their verdicts are wanted, None without one."""

    def close(self) -> None:
        """End every process of it."""

    @property
    def limits(self) -> dict[str, Any]:
        """Return the limits of a test where a job names none, as manifests hold them."""
        return self._limits.described()

    def described(self) -> dict[str, Any]:
        """Return what the manifest of a run says of where its programs ran."""
        shards = {"shards": list(self.shards)} if self.shards else {}
        return {"isolation": dict(self.isolation), **shards}

    def program_of(self, completion: str, entry_point: str | None) -> str:
        """Return the program in a completion, as `extract_code` finds it with these limits."""
        repair = self._limits.repair_truncated
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
        """Verify one program; the arguments are those of a `Job`.

        Raises InvalidValueError for arguments that are not allowed, SandboxError when closed.
        """
        job = Job(program, tuple(tests), compare, time_limit, memory_limit, entry_point, checker)
        return self.verify_many([job])[0]

    def verify_many(
        self, items: Iterable[Job | Pair], *, progress: Progress | None = None
    ) -> list[Verdict]:
        """Verify (program, tests) pairs or `Job`s; return their verdicts in the same order.

        Raises InvalidValueError for arguments that are not allowed, SandboxError when closed.
        """
        jobs = as_jobs(items)
        verdicts: dict[int, Verdict] = {}
        for index, verdict in self.verify_stream(jobs):
            verdicts[index] = verdict
            if progress is not None:
                progress(len(verdicts), len(jobs))
        return [verdicts[index] for index in range(len(jobs))]

    def verify_stream(self, items: Iterable[Job | Pair]) -> Iterator[tuple[int, Verdict]]:
        """Yield (index, verdict) as programs are verified, equal ones once.

        Closing the iterator drops the rest. Raises as `verify_many`.
        """
        indices: dict[Job, list[int]] = collections.defaultdict(list)
        for index, job in enumerate(as_jobs(items)):
            indices[job].append(index)
        found = self.verdicts(list(indices))
        return ((index, verdict) for job, verdict in found for index in indices[job])

    def __enter__(self: VerifierT) -> VerifierT:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Verifier(AnyVerifier):
    """Verifies untrusted Python programs in sandboxes, for several threads at once.

    Use it as a context manager or call `close`. `workers` programs are verified at once, by default
    one for each usable core; `unsafe` starts it even where required layers do not hold; the others
    are those of `Limits`. Raises SandboxError where programs cannot be isolated, InvalidValueError
    for a value that is not allowed.
    """

    def __init__(
        self,
        *,
        workers: int | None = None,
        time_limit: float = Limits.time_limit,
        memory_limit: int = Limits.memory_limit,
        output_limit: int = Limits.output_limit,
        stop_after_timeouts: int | None = Limits.stop_after_timeouts,
        repair_truncated: bool = Limits.repair_truncated,
        unsafe: bool = False,
    ) -> None:
        self._limits = Limits(
            time_limit, memory_limit, output_limit, stop_after_timeouts, repair_truncated
        )
        positive("workers", workers)
        layers.require_linux()
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._closed = False
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._workers: list[Worker] = []
        try:
            self.isolation = self._start(workers or len(os.sched_getaffinity(0)), unsafe=unsafe)
        except BaseException:
            self.close()
            raise

    def _start(self, workers: int, *, unsafe: bool) -> Isolation:
        numpy = numpy_folder()
        try:
            for index in range(workers):
                self._workers.append(Worker(index, self._tasks, numpy))
        except RuntimeError as error:
            raise SandboxError(f"a worker cannot be started: {error}") from error
        accepted: list[Isolation] = []
        for report in [worker.started.result() for worker in self._workers]:
            if report not in accepted:  # one warning for all that lack the same
                layers.accept(report, unsafe=unsafe)
                accepted.append(report)
        return accepted[0]

    def verdicts(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Verdict]]:
        """Yield the verdicts of jobs that are all different, as they are done."""
        return _as_completed({self._put(job): job for job in jobs})

    def ahead(self) -> Ahead | None:
        """Return where programs are started before their verdicts are wanted, None without one."""
        return Ahead(self._put)

    def _put(self, job: Job) -> Future[Verdict]:
        with self._lock:  # once closed, nobody would take a task out of the queue
            if self._closed:
                raise SandboxError("this Verifier is closed; make a new one")
            if os.getpid() != self._pid:
                raise SandboxError("this Verifier was made before a fork; make one in each process")
            task = Task(Future(), job, self._limits.for_job(job))
            self._tasks.put(task)
        return task.verdict

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
        while not self._tasks.empty():
            if (task := self._tasks.get()) is not None:
                task.answer(lambda job, _: infra_error(job, CLOSED))


def _as_completed(jobs: dict[Future[Verdict], Job]) -> Iterator[tuple[Job, Verdict]]:
    try:
        for verdict in as_completed(jobs):
            yield jobs[verdict], verdict.result()
    finally:
        for verdict in jobs:
            verdict.cancel()


@dataclasses.dataclass(frozen=True)
class VerifierSettings:
    """How recipes and commands give the workers and `Limits` of a verifier, memory in MiB.

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
    time_limit: float = Limits.time_limit
    memory_limit_mb: int = Limits.memory_limit >> 20
    stop_after_timeouts: int | None = Limits.stop_after_timeouts
    repair_truncated: bool = Limits.repair_truncated

    def __post_init__(self) -> None:
        positive("workers", self.workers)
        positive("memory_limit_mb", self.memory_limit_mb)
        self.limits()

    def limits(self) -> Limits:
        """Return the limits of a test where a job names none."""
        return Limits(
            self.time_limit,
            self.memory_limit_mb << 20,
            stop_after_timeouts=self.stop_after_timeouts,
            repair_truncated=self.repair_truncated,
        )

    def open(self) -> Verifier:
        """Return a verifier with these settings; close it, or use it in a with statement."""
        return Verifier(workers=self.workers, **dataclasses.asdict(self.limits()))
