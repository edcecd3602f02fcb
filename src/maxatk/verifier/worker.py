"""One thread of a verifier with its sandboxes: zygotes that run programs, builders that build."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import NamedTuple

from maxatk.check import limited, whole
from maxatk.errors import SandboxError
from maxatk.records import Outcome, Verdict
from maxatk.verifier import outcomes
from maxatk.verifier.builder_process import Builder
from maxatk.verifier.builds import Builds, Built
from maxatk.verifier.jobs import Job
from maxatk.verifier.languages import Language
from maxatk.verifier.limits import Limits
from maxatk.verifier.sandbox_process import Isolation, new_uid
from maxatk.verifier.tasks import Tasks, answer_tasks
from maxatk.verifier.toolchain import Toolchain, toolchain
from maxatk.verifier.zygote_process import Zygote

_CLOSED = "the verifier was closed"
_ATTEMPTS = 3
_MOST_WORKERS = 4096  # each is a thread and a process or more; machines have fewer cores


def check_workers(workers: int | None) -> None:
    """Raise InvalidValueError for a number of workers that no machine has; None passes."""
    if workers is not None:
        whole("workers", workers, 1)
        limited("workers", workers, _MOST_WORKERS)


class _Flavour(NamedTuple):
    """What a zygote has loaded before it is confined; `native` ones have a larger stack."""

    modules: str = ""
    native: bool = False
    libraries: tuple[str, ...] = ()


class Worker:
    """One thread and its sandboxes, which are started when they are needed, also after a death.

    `numpy` is the folder that holds NumPy, "" without it. `started` is the isolation of the first
    zygote, or the SandboxError without one. `builds` is what all threads have built.
    """

    def __init__(self, index: int, tasks: Tasks, numpy: str, builds: Builds) -> None:
        self._uid = new_uid()
        self._tasks = tasks
        self._numpy = numpy
        self._builds = builds
        self._zygotes: dict[_Flavour, Zygote] = {}
        self._builders: dict[str, Builder] = {}  # by the path of the compiler
        self._isolation: Isolation = {}  # of the first zygote: no later one may have less
        self._stopping = False
        self.started: Future[Isolation] = Future()
        self.thread = threading.Thread(target=self._run, name=f"maxatk-{index}", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Make the thread end soon, whatever it is doing."""
        self._stopping = True
        for sandbox in [*self._zygotes.values(), *self._builders.values()]:
            sandbox.kill()

    def _run(self) -> None:
        try:
            self.started.set_result(self._running_zygote(_Flavour()).isolation)
        except Exception as error:  # whatever it is: who made the worker waits for an answer
            if not isinstance(error, SandboxError):
                error = SandboxError(f"the sandbox did not start: {error!r}")
            self.started.set_exception(error)
            return
        answer_tasks(self._tasks, self._verdict)
        for flavour in list(self._zygotes):
            self._discard(flavour)
        self._discard_builders()

    def _verdict(self, job: Job, limits: Limits) -> Verdict:
        """Verify a job, anew where a sandbox dies; infra_error after `_ATTEMPTS`."""
        reason = _CLOSED
        try:
            flavour = self._flavour_of(job)
        except SandboxError as error:  # a compiler that is not here will not come
            return outcomes.uniform(job, Outcome.INFRA_ERROR, str(error))
        for _ in range(_ATTEMPTS):
            if self._stopping:
                break
            try:
                verdict = self._attempted(job, limits, flavour)
            except Exception as error:  # a sandbox that failed may be at fault: a new one is not
                reason = f"{type(error).__name__}: {error}"
                self._discard(flavour)
                self._discard_builders()
                continue
            if verdict.scorable:
                return verdict
            reason = next(t.stderr for t in verdict.tests if t.outcome is Outcome.INFRA_ERROR)
        return outcomes.uniform(job, Outcome.INFRA_ERROR, reason)

    def _attempted(self, job: Job, limits: Limits, flavour: _Flavour) -> Verdict:
        if not flavour.native:
            return outcomes.verdict(self._running_zygote(flavour), job, limits)
        language, *checker_language = job.languages
        built = self._built(language, job.program)
        built_checker = None
        if checker_language and job.checker is not None:
            source = self._builds.with_testlib(job.checker)
            built_checker = self._built(checker_language[0], source)
        zygote = self._running_zygote(flavour)
        return outcomes.verdict(zygote, job, limits, built=built, built_checker=built_checker)

    def _flavour_of(self, job: Job) -> _Flavour:
        """Return what the zygote of a job needs; raises SandboxError without its compiler."""
        sources = (job.program, job.checker or "", *(test.check or "" for test in job.tests))
        # However it is imported. A source that only names it runs in a zygote that has it.
        needs_numpy = any("numpy" in source for source in sources)
        modules = "numpy" if self._numpy and needs_numpy else ""
        if job.language is None and job.checker_language is None:
            return _Flavour(modules)
        compiled = [language for language in job.languages if language.compiler is not None]
        libraries = [toolchain(language).libraries for language in compiled]
        return _Flavour(modules, bool(compiled), tuple(dict.fromkeys(sum(libraries, ()))))

    def _built(self, language: Language, source: str) -> Built | None:
        if language.compiler is None:
            return None
        return self._builds.built(language, source, self._running_builder)

    def _running_builder(self, tools: Toolchain) -> Builder:
        """Return the builder with this compiler, started where there is none."""
        if tools.path not in self._builders:
            header = self._builds.header_folder(tools)
            self._builders[tools.path] = Builder(
                uid=new_uid(),
                folders=tools.folders,
                readable=() if header is None else (str(header),),
            )
        if self._stopping:  # `stop` may have looked at the builders before this one was there
            raise SandboxError(_CLOSED)
        return self._builders[tools.path]

    def _running_zygote(self, flavour: _Flavour) -> Zygote:
        """Return the zygote with these modules preloaded, started where there is none."""
        if flavour in self._zygotes:
            return self._zygotes[flavour]
        zygote = Zygote(
            uid=self._uid,
            modules=flavour.modules,
            folder=self._numpy if flavour.modules else "",
            native=flavour.native,
            libraries=flavour.libraries,
        )
        self._zygotes[flavour] = zygote
        self._isolation = self._isolation or zygote.isolation
        lost = [
            layer
            for layer, holds in self._isolation.items()
            if holds is True and zygote.isolation.get(layer) is not True
        ]
        if lost:
            self._discard(flavour)
            raise SandboxError(f"a later sandbox lacks layers of the first: {', '.join(lost)}")
        if self._stopping:  # `stop` may have looked at the zygotes before this one was there
            raise SandboxError(_CLOSED)
        return zygote

    def _discard(self, flavour: _Flavour) -> None:
        zygote = self._zygotes.pop(flavour, None)
        if zygote is not None:
            zygote.close()

    def _discard_builders(self) -> None:
        while self._builders:
            self._builders.popitem()[1].close()
