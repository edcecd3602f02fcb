"""Turn what a sandbox brought back into a verdict: the only place where outcomes are decided."""

from __future__ import annotations

import dataclasses
import os
import signal

from maxatk.records import Outcome, TestCase, TestResult, Verdict
from maxatk.verifier import compare as rules
from maxatk.verifier.inside import protocol, values
from maxatk.verifier.jobs import Job, expected_value, payload
from maxatk.verifier.worker import Zygote, ZygoteDiedError

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


def judge(zygote: Zygote, job: Job, limits: Limits) -> Verdict:
    """Judge one job on one zygote; raises ZygoteDiedError where the zygote fails."""
    source = job.program.encode("utf-8", "surrogatepass")
    if len(source) > _MAX_SOURCE:
        return uniform(job, Outcome.COMPILE_ERROR, f"the source is longer than {_MAX_SOURCE} bytes")
    payloads = [payload(test, job.entry_point) for test in job.tests]
    table = b"".join(protocol.TEST.pack(len(data), kind, name) for kind, name, data in payloads)
    body = b"".join([table, source, *(data for _, _, data in payloads)])
    request = (
        len(job.tests), limits.max_timeouts, len(source), limits.cpu, limits.wall, _COMPILE_SECONDS,
        limits.memory, limits.output,
    )  # fmt: skip
    deadline = _COMPILE_SECONDS + _SLACK_SECONDS + len(job.tests) * limits.wall
    status, results = zygote.run(request, body, deadline=deadline)
    return _verdict(job, limits, status, results)


def uniform(job: Job, outcome: Outcome, message: str = "") -> Verdict:
    """Return the verdict that gives every test the same outcome."""
    return Verdict((TestResult(outcome, stderr=message),) * len(job.tests))


def _verdict(job: Job, limits: Limits, status: int, results: bytes) -> Verdict:
    code = os.waitstatus_to_exitcode(status)
    if code == protocol.EXIT_COMPILE_ERROR:
        message = results[: protocol.STDERR_BYTES].decode("utf-8", "replace")
        return uniform(job, Outcome.COMPILE_ERROR, message)
    size = protocol.RECORD.size * len(job.tests)
    if code < 0 and not results:  # died before the first test: compiling killed it
        return uniform(job, Outcome.COMPILE_ERROR, f"compiling the program failed ({_cause(code)})")
    if code != 0 or len(results) < size:
        raise ZygoteDiedError(f"the process of the program died ({_cause(code)})")
    table = results[:size]
    offset = len(table)
    tests = []
    for test, record in zip(job.tests, protocol.RECORD.iter_unpack(table), strict=True):
        out, err = record[-2:]
        output, complaint = results[offset : offset + out], results[offset + out :][:err]
        offset += out + err
        tests.append(_result(test, job.compare or "tokens", limits, record, output, complaint))
    return Verdict(tuple(tests))


def _cause(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


def _result(
    test: TestCase,
    compare: str,
    limits: Limits,
    record: tuple[int, int, float, float, int, int, int],
    output: bytes,
    complaint: bytes,
) -> TestResult:
    status, ending, cpu, wall, memory = record[:5]
    outcome = _failure(status, ending, cpu, limits)
    if outcome is None:
        equal = _matches(test, compare, output)
        outcome = Outcome.PASSED if equal else Outcome.WRONG_ANSWER
    return TestResult(outcome, cpu, wall, memory, complaint.decode("utf-8", "replace"))


def _matches(test: TestCase, compare: str, output: bytes) -> bool:
    if test.check is not None:
        return True  # the checker's exit status has said so
    if test.call is None:
        return rules.rule(compare)(output, test.output or "")
    try:
        return bool(values.decode(output) == expected_value(test))
    except (ValueError, RecursionError):
        return False


def _failure(status: int, ending: int, cpu: float, limits: Limits) -> Outcome | None:
    """Return why a test failed before any comparison, or None where it ended well."""
    if ending == protocol.NOT_STARTED:
        return Outcome.NOT_RUN
    if ending in (protocol.CPU_LIMIT, protocol.WALL_LIMIT) or cpu > limits.cpu:
        return Outcome.TIME_LIMIT
    if ending == protocol.OUTPUT_FULL:
        return Outcome.OUTPUT_LIMIT
    code = os.waitstatus_to_exitcode(status)
    if code == 0:
        return None
    if code in (protocol.EXIT_REJECTED, protocol.EXIT_BAD_VALUE):
        return Outcome.WRONG_ANSWER
    if code == protocol.EXIT_MEMORY:
        return Outcome.MEMORY_LIMIT
    if code == -signal.SIGKILL:  # none of ours: the kernel had no memory left
        return Outcome.INFRA_ERROR
    return Outcome.RUNTIME_ERROR
