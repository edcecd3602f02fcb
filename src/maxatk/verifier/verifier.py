"""The verifier: a pool of threads, each with sandboxes of its own, that verifies programs.

A thread asks its zygote, an interpreter that is isolated once, which forks a process a program;
that compiles it and forks a process a test.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import importlib.util
import itertools
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from maxatk.check import existing_file, require, whole
from maxatk.cores import usable_cores
from maxatk.errors import InvalidValueError, SandboxError
from maxatk.records import Problem, TestCase, Verdict
from maxatk.verifier import outcomes
from maxatk.verifier.builds import Builds
from maxatk.verifier.extract import Extracted, ProgramReader, UnfinishedThought
from maxatk.verifier.jobs import Job, ProgramAndTests, as_jobs, refuse_calls
from maxatk.verifier.languages import language_named
from maxatk.verifier.limits import Limits
from maxatk.verifier.remote import RemoteWorker, addresses, refuse_problem, start_workers
from maxatk.verifier.running import Output, run_jobs
from maxatk.verifier.server_address import ServerAddress
from maxatk.verifier.tasks import Tasks
from maxatk.verifier.toolchain import toolchain
from maxatk.verifier.worker import Worker, check_workers
from maxatk.verifier.zygote_process import accept, require_linux

Progress = Callable[[int, int], object]
"""Called with the number of programs verified so far and the number of all."""

# Every verdict takes the interpreter's lock a few times. Another thread that computes gives it up
# only this often (seconds; usually 0.005), and verification would wait for that each time.
_SWITCH_INTERVAL = 1e-4


class Verifier:
    """A context manager that verifies untrusted programs, for several threads at once.

    `workers` programs are verified at once, by default one for each usable core; `testlib` is the
    path of a testlib.h for checkers in C++; `unsafe` starts it even where required layers do not
    hold; the others are those of `Limits`. With `sandbox`, the addresses of servers (`maxatk
    serve`), programs run there, by default as many as those have cores, and a program whose server
    dies is sent to another. Raises SandboxError where programs cannot be isolated or no server
    answers, InvalidValueError for a value that is not allowed, MissingFileError without the file.
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
        unfinished_thought: UnfinishedThought = Limits.unfinished_thought,
        flags: Mapping[str, str] | None = Limits.flags,
        testlib: str | Path | None = None,
        unsafe: bool = False,
        sandbox: str | Sequence[str] = (),
    ) -> None:
        self._limits = Limits(
            time_limit,
            memory_limit,
            output_limit,
            stop_after_timeouts,
            repair_truncated,
            unfinished_thought,
            flags,
        )
        check_workers(workers)
        self._servers = [ServerAddress(url) for url in addresses(sandbox)]
        if not self._servers:
            require_linux()
        elif flags or testlib:
            raise InvalidValueError(
                "flags, testlib: are settings of the server, not of its clients"
            )
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._closed = False
        self._tasks: Tasks = queue.SimpleQueue()
        self._started: dict[Job, Future[Verdict]] = {}  # whose verdicts nobody has asked for
        self._reader = ProgramReader(
            repair_truncated=self._limits.repair_truncated,
            unfinished_thought=self._limits.unfinished_thought,
        )
        self._builds = Builds(
            {name: tuple(text.split()) for name, text in (self._limits.flags or {}).items()},
            testlib=_text_of(testlib),
        )
        self._workers: list[Worker | RemoteWorker] = []
        try:
            if self._servers:
                self._workers += start_workers(
                    self._servers, self._tasks, count=workers, limits=self._limits
                )
                self.isolation = self._workers[0].started.result()
            else:
                self._start(workers or usable_cores(), unsafe=unsafe)
        except BaseException:
            self.close()
            raise

    def _start(self, workers: int, *, unsafe: bool) -> None:
        numpy = importlib.util.find_spec("numpy")
        numpy_folder = str(Path(numpy.origin).parents[1]) if numpy and numpy.origin else ""
        try:
            for index in range(workers):
                self._workers.append(Worker(index, self._tasks, numpy_folder, self._builds))
        except RuntimeError as error:
            raise SandboxError(f"a worker cannot be started: {error}") from error
        reports = [worker.started.result() for worker in self._workers]
        self.isolation = reports[0]
        for number, report in enumerate(reports):
            if report not in reports[:number]:  # one warning for all that lack the same
                accept(report, unsafe=unsafe)

    @property
    def limits(self) -> dict[str, Any]:
        """Return the limits of a test where a job names none, as manifests hold them."""
        return self._limits.described()

    def program_of(
        self, completion: str, entry_point: str | None, language: str | None = None
    ) -> Extracted:
        """Return the program in a completion, as `extract_code` finds it with these limits.

        Where it is `refused`, a job that says so fails its tests without being run.
        """
        return self._reader.program_of(completion, entry_point, language)

    @property
    def build_seconds(self) -> float:
        """Return how many CPU seconds compilers have taken."""
        return self._builds.seconds

    def refuse_problems(self, problems: Iterable[Problem]) -> None:
        """Raise for problems whose programs or checkers cannot run here, before any work.

        InvalidValueError for an unknown language, for tests that it does not have, and for tests
        and limits that a server does not take. SandboxError where programs run on this machine
        and it has no compiler for them.
        """
        for problem in problems:
            if self._servers:
                refuse_problem(problem, self._servers)
            language = language_named(problem.language or "python")
            refuse_calls(language, (*problem.tests, *problem.visible_tests))
            checker_language = language_named(problem.checker_language or "python")
            for needed in (language, checker_language):
                if needed.compiler is not None and not self._servers:
                    toolchain(needed)

    @property
    def workers(self) -> int:
        """Return how many programs are verified at once."""
        return len(self._workers)

    @property
    def unfinished_thought(self) -> UnfinishedThought:
        """Return what becomes of a completion whose reasoning never ends."""
        return self._limits.unfinished_thought

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
        language: str | None = None,
        checker_language: str | None = None,
    ) -> Verdict:
        """Verify one program; the arguments are those of a `Job`.

        Raises InvalidValueError for arguments that are not allowed, SandboxError when closed.
        """
        job = Job(
            program,
            tests,  # type: ignore[arg-type]  # which a job makes a tuple
            compare,
            time_limit,
            memory_limit,
            entry_point,
            checker,
            language=language,
            checker_language=checker_language,
        )
        return self.verify_many([job])[0]

    def verify_many(
        self, items: Iterable[Job | ProgramAndTests], *, progress: Progress | None = None
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

    def verify_stream(
        self,
        items: Iterable[Job | ProgramAndTests],
        *,
        limits: Limits | None = None,
        at_once: int | None = None,
    ) -> Iterator[tuple[int, Verdict]]:
        """Yield (index, verdict) as programs are verified, equal ones once.

        With `limits` those count in place of the verifier's own, where a job names none. With
        `at_once` so many programs are queued at a time, so that those of other threads come in
        between. Closing the iterator drops the rest. Raises as `verify_many`.
        """
        if at_once is not None:
            whole("at_once", at_once, 1)
        indices: dict[Job, list[int]] = collections.defaultdict(list)
        for index, job in enumerate(as_jobs(items)):
            indices[job].append(index)
        queued = _Queued(indices, lambda job: self._put(job, limits))
        # Not in the generator: programs run from now on, also before the first one is asked for.
        queued.put(at_once)
        return ((index, verdict) for job, verdict in queued.as_done() for index in indices[job])

    def run(
        self,
        programs: Sequence[str],
        inputs: Sequence[str],
        *,
        most_characters: int = 10_000,
        time_limit: float | None = None,
        memory_limit: int | None = None,
        language: str | None = None,
    ) -> list[list[Output]]:
        """Run every program on every input, and return what it printed: a list for each program.

        An output shows `most_characters` at most; the limits are those of a `Job`. Raises
        InvalidValueError for arguments that are not allowed, SandboxError when closed.
        """
        jobs = run_jobs(
            programs,
            inputs,
            most_characters=most_characters,
            time_limit=time_limit,
            memory_limit=memory_limit,
            language=language,
        )
        verdicts = self.verify_many(jobs)
        return [job.outputs(verdict) for job, verdict in zip(jobs, verdicts, strict=True)]

    @contextlib.contextmanager
    def ahead(self) -> Iterator[Callable[[Job], None]]:
        """Yield a function that starts a program whose verdict is wanted later.

        Programs that nobody has asked for by the end of the block are dropped.
        """

        def start(job: Job) -> None:
            if job not in self._started:
                self._started[job] = self._put(job)

        try:
            yield start
        finally:
            while self._started:
                self._started.popitem()[1].cancel()

    def _put(self, job: Job, limits: Limits | None = None) -> Future[Verdict]:
        """Queue a job, unless it was started ahead, and return its verdict to be."""
        if os.getpid() != self._pid:
            raise SandboxError("this Verifier was made before a fork; make one in each process")
        with self._lock:  # once closed, nobody would take a task out of the queue
            if self._closed:
                raise SandboxError("this Verifier is closed; make a new one")
            started = self._started.pop(job, None)
            if started is not None:
                return started
            verdict: Future[Verdict] = Future()
            if job.refused is not None:
                verdict.set_result(outcomes.refused(job, job.refused))
                return verdict
            limits = limits or self._limits
            of_job = dataclasses.replace(
                limits,
                time_limit=job.time_limit or limits.time_limit,
                memory_limit=job.memory_limit or limits.memory_limit,
            )
            self._tasks.put((verdict, job, of_job))
        return verdict

    def __enter__(self) -> Verifier:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill every process below and end the threads; programs in flight become infra_error."""
        if os.getpid() != self._pid:  # a thread that the fork lacks may hold the lock for ever
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
        for worker in self._workers:
            worker.stop()  # the programs that still wait are then answered at once
        for _ in self._workers:
            self._tasks.put(None)
        for worker in self._workers:
            worker.thread.join()


def _text_of(testlib: str | Path | None) -> str:
    if testlib is None:
        return ""
    require(isinstance(testlib, (str, Path)), "testlib", "the path of a file", testlib)
    existing_file(Path(testlib))
    return Path(testlib).read_text(encoding="utf-8")


class _Queued:
    """Jobs of one caller: those that are queued, and those that wait until it is their turn."""

    def __init__(self, jobs: Iterable[Job], put: Callable[[Job], Future[Verdict]]) -> None:
        self._waiting = iter(jobs)
        self._put = put
        self._jobs: dict[Future[Verdict], Job] = {}
        self._done: queue.SimpleQueue[Future[Verdict]] = queue.SimpleQueue()

    def put(self, count: int | None) -> None:
        """Queue so many of the jobs that wait, or all of them."""
        for job in itertools.islice(self._waiting, count):
            verdict = self._put(job)
            self._jobs[verdict] = job
            verdict.add_done_callback(self._done.put)  # cheaper than `as_completed`

    def as_done(self) -> Iterator[tuple[Job, Verdict]]:
        """Yield jobs with their verdicts as they come, and queue the next job for each.

        Closing the iterator cancels those that are queued.
        """
        try:
            while self._jobs:
                verdict = self._done.get()
                job = self._jobs.pop(verdict)
                self.put(1)
                yield job, verdict.result()
        finally:
            for verdict in self._jobs:
                verdict.cancel()


@contextlib.contextmanager
def quick_turns() -> Iterator[None]:
    """Let threads take turns quickly inside, so that verification keeps pace with computing."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
