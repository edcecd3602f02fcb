"""Run a program on the inputs of its tests, on one zygote, and read what became of each."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Sequence

from maxatk.records import Outcome, TestResult
from maxatk.verifier.builds import Built
from maxatk.verifier.inside import protocol
from maxatk.verifier.languages import Language
from maxatk.verifier.limits import Limits
from maxatk.verifier.payloads import MAX_SOURCE, Payload, Printed
from maxatk.verifier.sandbox_process import SandboxDiedError
from maxatk.verifier.zygote_process import Zygote

_COMPILE_SECONDS = 10.0
_SLACK_SECONDS = 30.0  # what a loaded machine may need beyond the limits, before we call it dead
# What a program's own process can die of; it can send no signal, so any other came from outside.
OWN_SIGNALS = {
    signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV,
    signal.SIGSYS, signal.SIGPIPE, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF,
    signal.SIGXCPU, signal.SIGXFSZ,
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class ProgramRun:
    """One run of the program, as its process reported it.

    `status` is the wait status of the process, `ending` what ended it (see `protocol`), `cpu` and
    `wall` are seconds, `memory` bytes. `printed` is where its output lies, empty unless it ended
    well; `complaint` is an excerpt of its standard error.
    """

    status: int
    ending: int
    cpu: float
    wall: float
    memory: int
    printed: Printed
    complaint: str

    def result(self, outcome: Outcome, remark: str = "", got: str = "") -> TestResult:
        """Return the test's result; the remark stands where the program wrote nothing to stderr."""
        stderr = self.complaint or remark
        if outcome is Outcome.INFRA_ERROR:
            cause = _cause(os.waitstatus_to_exitcode(self.status))
            stderr = f"a test was killed from outside ({cause}); the machine may be out of memory"
        return TestResult(outcome, self.cpu, self.wall, self.memory, stderr, got)


class CompileError(Exception):
    """The source does not compile within its limits; `outcome` is what that means for its tests."""

    def __init__(self, message: str, outcome: Outcome = Outcome.COMPILE_ERROR) -> None:
        super().__init__(message)
        self.outcome = outcome


@dataclasses.dataclass(frozen=True)
class Program:
    """What a zygote runs: a source in Python, or what was built of one in another language."""

    language: Language
    source: str
    built: Built | None

    def entry_and_bytes(self) -> tuple[int, bytes]:
        """Return how it is entered, and its bytes; raises CompileError."""
        if self.built is None:
            source = self.source.encode("utf-8", "surrogatepass")
            if len(source) > MAX_SOURCE:
                raise CompileError(f"the source is longer than {MAX_SOURCE} bytes")
            return protocol.ENTER_PYTHON, source
        if self.built.outcome is not None:
            raise CompileError(self.built.message, self.built.outcome)
        return self.built.entry, self.built.data

    def with_memory_status(self, runs: list[ProgramRun]) -> list[ProgramRun]:
        """Return runs with the status of a lack of memory where the program named that itself."""
        compiler = self.language.compiler
        if compiler is None or not compiler.no_memory:
            return runs
        text = compiler.no_memory.decode()
        return [
            dataclasses.replace(run, status=protocol.EXIT_MEMORY << 8)
            if run.status != 0 and text in run.complaint
            else run
            for run in runs
        ]


def run_program(
    zygote: Zygote,
    program: Program,
    payloads: Sequence[Payload],
    limits: Limits,
    most_printed: int,
) -> list[ProgramRun]:
    """Run a program on all payloads; raises CompileError, SandboxDiedError."""
    entry, data = program.entry_and_bytes()
    table = b"".join(
        [protocol.TEST.pack(payload.size, payload.kind, payload.name_size) for payload in payloads]
    )
    parts: list[bytes | Printed] = [table, data]
    for payload in payloads:
        parts += payload.parts
    request = (
        len(payloads), limits.stop_after_timeouts or 0, len(data), limits.time_limit,
        limits.wall, limits.idle, _COMPILE_SECONDS, limits.memory_limit, limits.output_limit,
        most_printed, entry,
    )  # fmt: skip
    deadline = _COMPILE_SECONDS + _SLACK_SECONDS + len(payloads) * limits.wall
    status, cpu = zygote.run(request, parts, deadline=deadline)
    runs = _read_runs(zygote, os.waitstatus_to_exitcode(status), cpu, len(payloads))
    return program.with_memory_status(runs)


def _read_runs(zygote: Zygote, code: int, cpu: float, count: int) -> list[ProgramRun]:
    """Read `count` runs out of the results file.

    `code` and `cpu` (seconds) are of the process that compiled the program and forked its tests.
    """
    if code == protocol.EXIT_COMPILE_ERROR:
        message = zygote.printed(Printed(0, protocol.STDERR_BYTES))
        raise CompileError(message.decode("utf-8", "replace"))
    offset = protocol.RESULT.size * count
    records = zygote.printed(Printed(0, offset))
    if code < 0 and not records and (-code in OWN_SIGNALS or cpu >= _COMPILE_SECONDS):
        # Compiling killed it: an end from outside would be of another signal, and early.
        raise CompileError(f"compiling the program failed ({_cause(code)})")
    if code != 0 or len(records) < offset:
        raise SandboxDiedError(f"the process of the program died ({_cause(code)})")
    runs = []
    for record in protocol.RESULT.iter_unpack(records):
        status, ending, cpu, wall, memory, stdout_bytes, stderr_bytes = record
        stdout = Printed(offset, stdout_bytes)
        stderr = Printed(offset + stdout_bytes, stderr_bytes)
        complaint = zygote.printed(stderr).decode("utf-8", "replace")
        runs.append(ProgramRun(status, ending, cpu, wall, memory, stdout, complaint))
        offset += stdout_bytes + stderr_bytes
    return runs


def _cause(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
