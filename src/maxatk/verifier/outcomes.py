"""Turn what a sandbox brought back into a verdict: the only place where outcomes are decided."""

from __future__ import annotations

import os
from collections.abc import Sequence

from maxatk.records import Outcome, TestCase, TestResult, Verdict
from maxatk.verifier import rules
from maxatk.verifier.builds import Built
from maxatk.verifier.calls import expected_value
from maxatk.verifier.encoded import printed_excerpt, value_excerpt
from maxatk.verifier.extract import Refusal
from maxatk.verifier.inside import protocol
from maxatk.verifier.jobs import Job
from maxatk.verifier.languages import language_named
from maxatk.verifier.limits import Limits
from maxatk.verifier.payloads import checker_payload, payload
from maxatk.verifier.program_runs import (
    OWN_SIGNALS,
    CompileError,
    Program,
    ProgramRun,
    run_program,
)
from maxatk.verifier.running import RunJob
from maxatk.verifier.zygote_process import Zygote

_MAX_PRINTED = 1 << 26  # bytes of all tests of a program together, or what is expected of them
_CHECKER_LIMITS = Limits(time_limit=10.0, output_limit=1 << 20)


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
        payloads = [payload(test, job.entry_point) for test in job.tests]
        program = Program(languages[0], job.program, built)
        runs = run_program(zygote, program, payloads, limits, _most_printed(job, limits))
        if isinstance(job, RunJob):
            return _shown(zygote, job, limits, runs)
        if job.checker is not None:
            checker = Program(languages[1], job.checker, built_checker)
            return _ask_checker(zygote, job, checker, limits, runs)
        return _compared(zygote, job, limits, runs)
    except CompileError as error:
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


def _compared(zygote: Zygote, job: Job, limits: Limits, runs: Sequence[ProgramRun]) -> Verdict:
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


def _shown(zygote: Zygote, job: RunJob, limits: Limits, runs: Sequence[ProgramRun]) -> Verdict:
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


def _matches(test: TestCase, compare: str, output: bytes, tolerance: float = 0.0) -> bool:
    """Say whether the output of a run that ended well is what the test expects."""
    if test.check is not None:
        return True  # the checker's exit status has said so
    if test.call is None:
        return rules.rule(compare)(output, test.output or "")
    expected = expected_value(test)
    return rules.equal_values(output, expected, compare, tolerance=tolerance)


def _ask_checker(
    zygote: Zygote, job: Job, checker: Program, limits: Limits, runs: Sequence[ProgramRun]
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
    payloads = [checker_payload(job.tests[i], runs[i].printed) for i in open_tests]
    # Now, for the checker's results take the place of the outputs.
    excerpts = {i: printed_excerpt(zygote.printed(runs[i].printed, 4096)) for i in open_tests}
    try:
        checks = run_program(zygote, checker, payloads, _CHECKER_LIMITS, _MAX_PRINTED)
    except CompileError as error:
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


def _says_one(zygote: Zygote, check: ProgramRun) -> bool:
    return rules.rule("checker")(zygote.printed(check.printed), "")


def _failure(run: ProgramRun, limits: Limits) -> Outcome | None:
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
    if code < 0 and -code not in OWN_SIGNALS:  # such as the kernel's, for want of memory
        return Outcome.INFRA_ERROR
    return Outcome.RUNTIME_ERROR
