"""Turn what a sandbox brought back into a verdict: the only place where outcomes are decided."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Sequence

from maxatk.records import Outcome, TestCase, TestResult, Verdict
from maxatk.verifier import jobs, rules
from maxatk.verifier.builds import Built
from maxatk.verifier.encoded import printed_excerpt, value_excerpt
from maxatk.verifier.extract import Refusal
from maxatk.verifier.inside import protocol
from maxatk.verifier.jobs import MAX_SOURCE, Job, Limits, Payload, Printed
from maxatk.verifier.languages import Language, language_named
from maxatk.verifier.running import RunJob
from maxatk.verifier.sandbox_process import SandboxDiedError
from maxatk.verifier.zygote_process import Zygote

_COMPILE_SECONDS = 10.0
_MAX_PRINTED = 1 << 26  # bytes of all tests of a program together, or what is expected of them
_SLACK_SECONDS = 30.0  # what a loaded machine may need beyond the limits, before we call it dead
# What a program's own process can die of; it can send no signal, so any other came from outside.
_OWN_SIGNALS = {
    signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV,
    signal.SIGSYS, signal.SIGPIPE, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF,
    signal.SIGXCPU, signal.SIGXFSZ,
}  # fmt: skip
_CHECKER_LIMITS = Limits(time_limit=10.0, output_limit=1 << 20)


@dataclasses.dataclass(frozen=True)
class _TestRun:
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


class _CompileError(Exception):
    """The source does not compile within its limits; `outcome` is what that means for its tests."""

    def __init__(self, message: str, outcome: Outcome = Outcome.COMPILE_ERROR) -> None:
        super().__init__(message)
        self.outcome = outcome


@dataclasses.dataclass(frozen=True)
class _Program:
    """What a zygote runs: a source in Python, or what was built of one in another language."""

    language: Language
    source: str
    built: Built | None

    def entered(self) -> tuple[int, bytes]:
        """Return how it is entered, and its bytes; raises _CompileError."""
        if self.built is None:
            source = self.source.encode("utf-8", "surrogatepass")
            if len(source) > MAX_SOURCE:
                raise _CompileError(f"the source is longer than {MAX_SOURCE} bytes")
            return protocol.ENTER_PYTHON, source
        if self.built.outcome is not None:
            raise _CompileError(self.built.message, self.built.outcome)
        return self.built.entry, self.built.data

    def named(self, runs: list[_TestRun]) -> list[_TestRun]:
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


def verdict(
    zygote: Zygote,
    job: Job,
    limits: Limits,
    *,
    built: Built | None = None,
    built_checker: Built | None = None,
) -> Verdict:
    """Verify one job on one zygote; raises SandboxDiedError where the zygote fails.

    `built` and `built_checker` are of a program and a checker in a language that is compiled.
    """
    languages = job.languages
    try:
        payloads = [jobs.payload(test, job.entry_point) for test in job.tests]
        program = _Program(languages[0], job.program, built)
        runs = _run(zygote, program, payloads, limits, _most_printed(job, limits))
        if isinstance(job, RunJob):
            return _shown(zygote, job, limits, runs)
        if job.checker is not None:
            checker = _Program(languages[1], job.checker, built_checker)
            return _ask_checker(zygote, job, checker, limits, runs)
        return _compared(zygote, job, limits, runs)
    except _CompileError as error:
        return uniform(job, error.outcome, str(error))
    finally:
        zygote.forget()


def refused(job: Job, refusal: Refusal) -> Verdict:
    """Return the verdict on a completion without a program that is run."""
    message = "the reasoning never ends: no answer follows"
    if refusal.kind == "other_language":
        written_in = language_named(str(refusal.language)).title
        asked_for = job.languages[0].title
        message = f"the answer is a program in {written_in}, and the problem asks for {asked_for}"
    return uniform(job, Outcome(refusal.kind), message)


def _compared(zygote: Zygote, job: Job, limits: Limits, runs: Sequence[_TestRun]) -> Verdict:
    """Return the verdict by a comparison rule, or by what the checker of a check test said."""
    compare = job.compare or "tokens"
    results: list[TestResult] = []
    # An excerpt is kept once a program: verdicts wait in the host by the thousand.
    has_excerpt = False
    for test, run in zip(job.tests, runs, strict=True):
        outcome = _failure(run, limits)
        got = ""
        if outcome is None:
            # One output at a time: those of all tests together could fill the memory of the host.
            output = zygote.printed(run.printed)
            passed = _matches(test, compare, output, job.tolerance or 0.0)
            outcome = Outcome.PASSED if passed else Outcome.WRONG_ANSWER
            if not passed and not has_excerpt:
                has_excerpt = True
                got = printed_excerpt(output) if test.call is None else value_excerpt(output)
        results.append(run.result(outcome, got=got))
    return Verdict(tuple(results))


def _shown(zygote: Zygote, job: RunJob, limits: Limits, runs: Sequence[_TestRun]) -> Verdict:
    """Return what was printed where nothing is compared."""
    results = []
    for run in runs:
        outcome = _failure(run, limits)
        shown = ""
        if outcome is None:
            outcome = Outcome.ENDED
            shown = job.beginning(zygote.printed(run.printed))
        results.append(run.result(outcome, got=shown))
    return Verdict(tuple(results))


def uniform(job: Job, outcome: Outcome, message: str = "") -> Verdict:
    """Return the verdict that gives every test the same outcome."""
    return Verdict((TestResult(outcome, stderr=message),) * len(job.tests))


def _most_printed(job: Job, limits: Limits) -> int:
    """Return how many bytes all tests of a program may print together.

    Twice what is expected of them, as a power of two, so that no program learns more from it.
    """
    expected = sum(len(test.output or "") for test in job.tests)
    return max(_MAX_PRINTED, limits.output_limit, 1 << (2 * expected).bit_length())


def _run(
    zygote: Zygote,
    program: _Program,
    payloads: Sequence[Payload],
    limits: Limits,
    most_printed: int,
) -> list[_TestRun]:
    """Run a program on all payloads; raises _CompileError, SandboxDiedError."""
    entry, data = program.entered()
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
    return program.named(_read_runs(zygote, os.waitstatus_to_exitcode(status), cpu, len(payloads)))


def _read_runs(zygote: Zygote, code: int, cpu: float, count: int) -> list[_TestRun]:
    """Read `count` runs out of the results file.

    `code` and `cpu` (seconds) are of the process that compiled the program and forked its tests.
    """
    if code == protocol.EXIT_COMPILE_ERROR:
        message = zygote.printed(Printed(0, protocol.STDERR_BYTES))
        raise _CompileError(message.decode("utf-8", "replace"))
    offset = protocol.RESULT.size * count
    records = zygote.printed(Printed(0, offset))
    if code < 0 and not records and (-code in _OWN_SIGNALS or cpu >= _COMPILE_SECONDS):
        # Compiling killed it: an end from outside would be of another signal, and early.
        raise _CompileError(f"compiling the program failed ({_cause(code)})")
    if code != 0 or len(records) < offset:
        raise SandboxDiedError(f"the process of the program died ({_cause(code)})")
    runs = []
    for record in protocol.RESULT.iter_unpack(records):
        status, ending, cpu, wall, memory, stdout_bytes, stderr_bytes = record
        stdout = Printed(offset, stdout_bytes)
        stderr = Printed(offset + stdout_bytes, stderr_bytes)
        complaint = zygote.printed(stderr).decode("utf-8", "replace")
        runs.append(_TestRun(status, ending, cpu, wall, memory, stdout, complaint))
        offset += stdout_bytes + stderr_bytes
    return runs


def _cause(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


def _matches(test: TestCase, compare: str, output: bytes, tolerance: float = 0.0) -> bool:
    """Say whether the output of a run that ended well is what the test expects."""
    if test.check is not None:
        return True  # the checker's exit status has said so
    if test.call is None:
        return rules.rule(compare)(output, test.output or "")
    expected = jobs.expected_value(test)
    return rules.equal_values(output, expected, compare, tolerance=tolerance)


def _ask_checker(
    zygote: Zygote, job: Job, checker: _Program, limits: Limits, runs: Sequence[_TestRun]
) -> Verdict:
    """Let the problem's checker decide about the tests that ended well.

    Only a checker that ends with exit status 0, and in Python prints 1, passes a test: a compiled
    one follows the protocol of testlib, whose statuses say the rest. One that fails or runs out of
    a limit has not accepted the output, which the program controls: wrong_answer. One that
    does not compile is the problem's fault: infra_error.
    """
    failures = [_failure(run, limits) for run in runs]
    results = [
        run.result(failure or Outcome.PASSED) for run, failure in zip(runs, failures, strict=True)
    ]
    open_tests = [i for i, failure in enumerate(failures) if failure is None]
    if not open_tests:
        return Verdict(tuple(results))
    payloads = [jobs.checker_payload(job.tests[i], runs[i].printed) for i in open_tests]
    # Now, for the checker's results take the place of the outputs.
    excerpts = {i: printed_excerpt(zygote.printed(runs[i].printed, 4096)) for i in open_tests}
    try:
        checks = _run(zygote, checker, payloads, _CHECKER_LIMITS, _MAX_PRINTED)
    except _CompileError as error:
        return uniform(job, Outcome.INFRA_ERROR, f"the checker does not compile: {error}")
    has_excerpt = False
    for i, check in zip(open_tests, checks, strict=True):
        failure = _failure(check, _CHECKER_LIMITS)
        if failure is None and (checker.built is not None or _says_one(zygote, check)):
            continue
        outcome = failure if failure is Outcome.INFRA_ERROR else Outcome.WRONG_ANSWER
        stdout = zygote.printed(check.printed, protocol.STDERR_BYTES).decode("utf-8", "replace")
        remark = f"checker: {check.complaint or stdout}"
        results[i] = runs[i].result(outcome, remark, "" if has_excerpt else excerpts[i])
        has_excerpt = has_excerpt or bool(excerpts[i])
    return Verdict(tuple(results))


def _says_one(zygote: Zygote, check: _TestRun) -> bool:
    return rules.rule("checker")(zygote.printed(check.printed), "")


def _failure(run: _TestRun, limits: Limits) -> Outcome | None:
    """Return why a test failed before any comparison, or None where it ended well."""
    ending = run.ending
    if ending == protocol.NOT_STARTED:
        return Outcome.NOT_RUN
    if ending in (protocol.CPU_LIMIT, protocol.WALL_LIMIT) or run.cpu > limits.time_limit:
        return Outcome.TIME_LIMIT
    if ending == protocol.OUTPUT_FULL:
        return Outcome.OUTPUT_LIMIT
    code = os.waitstatus_to_exitcode(run.status)
    if code == 0:
        return None
    if code in (protocol.EXIT_REJECTED, protocol.EXIT_BAD_VALUE):
        return Outcome.WRONG_ANSWER
    if code == protocol.EXIT_MEMORY:
        return Outcome.MEMORY_LIMIT
    if code < 0 and -code not in _OWN_SIGNALS:  # such as the kernel's, for want of memory
        return Outcome.INFRA_ERROR
    return Outcome.RUNTIME_ERROR
