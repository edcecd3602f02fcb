"""Turn what a sandbox brought back into a verdict: the only place where outcomes are decided."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Sequence

from maxatk.records import Outcome, TestCase, TestResult, Verdict
from maxatk.verifier import rules
from maxatk.verifier.inside import protocol
from maxatk.verifier.jobs import Job, checker_payload, expected_value, payload
from maxatk.verifier.zygote_process import Zygote, ZygoteDiedError

_COMPILE_SECONDS = 10.0
_MAX_SOURCE = 1 << 20
_SLACK_SECONDS = 30.0  # what a loaded machine may need beyond the limits, before we call it dead


@dataclasses.dataclass(frozen=True)
class Limits:
    """What one test may use: CPU seconds, bytes of memory and of output.

    After `max_timeouts` time-outs of one program its other tests are not run (0: never stop).
    """

    cpu: float
    memory: int
    output: int
    max_timeouts: int = 0

    @property
    def wall(self) -> float:
        """Return the wall limit in seconds, so generous that it only catches sleepers."""
        return 10 * self.cpu + 5.0

    def for_job(self, job: Job) -> Limits:
        """Return these limits with those that the job sets itself."""
        return dataclasses.replace(
            self,
            cpu=self.cpu if job.time_limit is None else job.time_limit,
            memory=self.memory if job.memory_limit is None else job.memory_limit,
        )


_KILLED = "a test was killed from outside; the machine may be out of memory"
_CHECKER_LIMITS = Limits(cpu=10.0, memory=1 << 30, output=1 << 20)


@dataclasses.dataclass(frozen=True)
class _Ran:
    """What one test came to, and what it printed (nothing unless it ended by itself)."""

    status: int
    ending: int
    cpu: float
    wall: float
    memory: int
    output: bytes
    complaint: str

    def result(self, outcome: Outcome, remark: str = "") -> TestResult:
        """Return the test's result; the remark stands where the program wrote nothing to stderr."""
        text = _KILLED if outcome is Outcome.INFRA_ERROR else self.complaint or remark
        return TestResult(outcome, self.cpu, self.wall, self.memory, text)


class _CompileError(Exception):
    """The source does not compile within its limits."""


def verdict(zygote: Zygote, job: Job, limits: Limits) -> Verdict:
    """Verify one job on one zygote; raises ZygoteDiedError where the zygote fails."""
    payloads = [payload(test, job.entry_point) for test in job.tests]
    try:
        ran = _run(zygote, job.program, payloads, limits)
    except _CompileError as error:
        return uniform(job, Outcome.COMPILE_ERROR, str(error))
    if job.checker is not None:
        return _ask_checker(zygote, job, job.checker, limits, ran)
    compare = job.compare or "tokens"
    return Verdict(
        tuple(
            found.result(_failure(found, limits) or _comparison(test, compare, found.output))
            for test, found in zip(job.tests, ran, strict=True)
        )
    )


def uniform(job: Job, outcome: Outcome, message: str = "") -> Verdict:
    """Return the verdict that gives every test the same outcome."""
    return Verdict((TestResult(outcome, stderr=message),) * len(job.tests))


def _run(
    zygote: Zygote, program: str, payloads: Sequence[tuple[int, int, bytes]], limits: Limits
) -> list[_Ran]:
    """Run a program on all payloads; raises _CompileError, ZygoteDiedError."""
    source = program.encode("utf-8", "surrogatepass")
    if len(source) > _MAX_SOURCE:
        raise _CompileError(f"the source is longer than {_MAX_SOURCE} bytes")
    table = b"".join(protocol.TEST.pack(len(data), kind, name) for kind, name, data in payloads)
    body = b"".join([table, source, *(data for _, _, data in payloads)])
    request = (
        len(payloads), limits.max_timeouts, len(source), limits.cpu, limits.wall, _COMPILE_SECONDS,
        limits.memory, limits.output,
    )  # fmt: skip
    deadline = _COMPILE_SECONDS + _SLACK_SECONDS + len(payloads) * limits.wall
    status, results = zygote.run(request, body, deadline=deadline)
    return _parse(os.waitstatus_to_exitcode(status), results, len(payloads))


def _parse(code: int, results: bytes, count: int) -> list[_Ran]:
    if code == protocol.EXIT_COMPILE_ERROR:
        raise _CompileError(results[: protocol.STDERR_BYTES].decode("utf-8", "replace"))
    offset = protocol.RESULT.size * count
    if code < 0 and not results:  # died before the first test: compiling killed it
        raise _CompileError(f"compiling the program failed ({_cause(code)})")
    if code != 0 or len(results) < offset:
        raise ZygoteDiedError(f"the process of the program died ({_cause(code)})")
    ran = []
    for record in protocol.RESULT.iter_unpack(results[:offset]):
        status, ending, cpu, wall, memory, out, err = record
        output, complaint = results[offset : offset + out], results[offset + out :][:err]
        offset += out + err
        text = complaint.decode("utf-8", "replace")
        ran.append(_Ran(status, ending, cpu, wall, memory, output, text))
    return ran


def _cause(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


def _comparison(test: TestCase, compare: str, output: bytes) -> Outcome:
    return Outcome.PASSED if _matches(test, compare, output) else Outcome.WRONG_ANSWER


def _matches(test: TestCase, compare: str, output: bytes) -> bool:
    if test.check is not None:
        return True  # the checker's exit status has said so
    if test.call is None:
        return rules.rule(compare)(output, test.output or "")
    return rules.equal_values(output, expected_value(test), compare)


def _ask_checker(
    zygote: Zygote, job: Job, checker: str, limits: Limits, ran: Sequence[_Ran]
) -> Verdict:
    """Let the problem's checker decide about the tests that ended well.

    Only a checker that ends with exit status 0 and prints 1 passes a test. One that fails or runs
    out of a limit has not accepted the output, which the program controls: wrong_answer. One that
    does not compile is the problem's fault: infra_error.
    """
    failures = [_failure(found, limits) for found in ran]
    open_tests = [i for i, failure in enumerate(failures) if failure is None]
    results = [
        found.result(failure or Outcome.INFRA_ERROR)
        for found, failure in zip(ran, failures, strict=True)
    ]
    if not open_tests:
        return Verdict(tuple(results))
    payloads = [checker_payload(job.tests[i], ran[i].output) for i in open_tests]
    try:
        answers = _run(zygote, checker, payloads, _CHECKER_LIMITS)
    except _CompileError as error:
        remark = f"the checker does not compile: {error}"
        for i in open_tests:
            results[i] = dataclasses.replace(results[i], stderr=remark)
        return Verdict(tuple(results))
    for i, answer in zip(open_tests, answers, strict=True):
        outcome = _checkers_outcome(job.tests[i], answer)
        remark = answer.complaint or answer.output[: protocol.STDERR_BYTES].decode(
            "utf-8", "replace"
        )
        results[i] = ran[i].result(
            outcome, "" if outcome is Outcome.PASSED else f"checker: {remark}"
        )
    return Verdict(tuple(results))


def _checkers_outcome(test: TestCase, answer: _Ran) -> Outcome:
    failure = _failure(answer, _CHECKER_LIMITS)
    if failure is None:
        return _comparison(test, "checker", answer.output)
    return failure if failure is Outcome.INFRA_ERROR else Outcome.WRONG_ANSWER


def _failure(ran: _Ran, limits: Limits) -> Outcome | None:
    """Return why a test failed before any comparison, or None where it ended well."""
    ending = ran.ending
    if ending == protocol.NOT_STARTED:
        return Outcome.NOT_RUN
    if ending in (protocol.CPU_LIMIT, protocol.WALL_LIMIT) or ran.cpu > limits.cpu:
        return Outcome.TIME_LIMIT
    if ending == protocol.OUTPUT_FULL:
        return Outcome.OUTPUT_LIMIT
    code = os.waitstatus_to_exitcode(ran.status)
    if code == 0:
        return None
    if code in (protocol.EXIT_REJECTED, protocol.EXIT_BAD_VALUE):
        return Outcome.WRONG_ANSWER
    if code == protocol.EXIT_MEMORY:
        return Outcome.MEMORY_LIMIT
    if code == -signal.SIGKILL:  # none of ours: the kernel had no memory left
        return Outcome.INFRA_ERROR
    return Outcome.RUNTIME_ERROR
