"""`/run_code` of SandboxFusion: one program, one standard input, and what it printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maxatk.check import is_number
from maxatk.errors import InvalidValueError
from maxatk.records import Outcome, TestCase, TestResult, Verdict
from maxatk.serve.answers import OK, TRY_AGAIN, Answer, answer
from maxatk.serve.work import Work
from maxatk.verifier.jobs import Job
from maxatk.verifier.languages import LANGUAGES
from maxatk.verifier.limits import Limits
from maxatk.verifier.running import RunJob
from maxatk.verifier.wire import RequestLimits

_SECONDS = 10.0  # of compiling and of running, where a client says nothing, as in SandboxFusion
_CLIENT_SECONDS = 10.0  # that clients wait beyond both
_MEANING = {
    Outcome.MEMORY_LIMIT: "out of memory",
    Outcome.OUTPUT_LIMIT: "too much output",
    Outcome.RUNTIME_ERROR: "the program failed",
}


def read_work(body: Mapping[str, Any], most: Limits) -> Work | Answer:
    """Return the program of a request, or the answer to one that is not supported here.

    The limits of the request count up to `most`. Raises InvalidValueError for other types.
    """
    unsupported = _unsupported(body)
    if unsupported:
        return answer(OK, _response("SandboxError", message=unsupported))
    seconds = min(_number(body, "run_timeout", _SECONDS), most.time_limit)
    mebibytes = _number(body, "memory_limit_MB", 0.0)  # -1 stands for no limit of its own
    memory = most.memory_limit
    if mebibytes > 0:
        memory = min(int(mebibytes * (1 << 20)), memory)
    wait = _number(body, "compile_timeout", _SECONDS) + seconds + _CLIENT_SECONDS
    limits = RequestLimits(
        time_limit=seconds,
        memory_limit=memory,
        output_limit=most.output_limit,
        wall_limit=wait,  # nobody waits for longer
        idle_limit=seconds,
    )
    job = RunJob(
        _text(body, "code"),
        (TestCase(input=_text(body, "stdin"), output=""),),
        language=body.get("language"),
        most_characters=most.output_limit,
    )
    return Work(jobs=(job,), limits=limits, wait=wait)


def answer_of(work: Work, verdicts: list[Verdict]) -> Answer:
    """Return the answer with what the program did."""
    (result,) = verdicts[0].tests
    if result.outcome is Outcome.INFRA_ERROR:
        # No verdict on the program: a client that tries again can still get one.
        response = _response("SandboxError", message="the sandbox failed; try again")
        return answer(TRY_AGAIN, response)
    job = work.jobs[0]
    status = "Success" if result.outcome is Outcome.ENDED else "Failed"
    if job.languages[0].compiler is None:  # SandboxFusion's Python has no step of compiling
        return answer(OK, _response(status, run=_run_result(result, job)))
    if result.outcome is Outcome.COMPILE_ERROR:
        return answer(OK, _response(status, compiled=_compiled(1, result.stderr)))
    run = _run_result(result, job)
    return answer(OK, _response(status, run=run, compiled=_compiled(0, "")))


def _compiled(return_code: int, stderr: str) -> dict[str, Any]:
    finished = {"status": "Finished", "execution_time": 0.0, "return_code": return_code}
    return {**finished, "stdout": "", "stderr": stderr}


def _run_result(result: TestResult, job: Job) -> dict[str, Any]:
    run = {
        "status": "Finished",
        "execution_time": result.wall_seconds,
        "return_code": 0,
        "stdout": result.got,
        "stderr": result.stderr,
    }
    if result.outcome is Outcome.TIME_LIMIT:
        return {**run, "status": "TimeLimitExceeded", "return_code": None}
    if result.outcome is not Outcome.ENDED:
        reason = result.stderr or _MEANING.get(result.outcome, str(result.outcome))
        return {**run, "return_code": 1, "stderr": reason}
    assert isinstance(job, RunJob)
    (output,) = job.outputs(Verdict((result,)))
    return {**run, "stdout": output.printed}


def _response(
    status: str,
    *,
    message: str = "",
    run: dict[str, Any] | None = None,
    compiled: dict[str, Any] | None = None,
) -> dict[str, Any]:
    return {
        "status": status,
        "message": message,
        "compile_result": compiled,
        "run_result": run,
        "executor_pod_name": None,
        "files": {},
    }


def _unsupported(body: Mapping[str, Any]) -> str:
    language = body.get("language")
    is_language = isinstance(language, str) and language in LANGUAGES
    if language is not None and not is_language:
        return f"language: must be one of {', '.join(LANGUAGES)}"
    for name in ("files", "fetch_files"):
        if body.get(name):
            return f"{name}: must be empty"
    return ""


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if value is None and name == "stdin":
        return ""
    if not isinstance(value, str):
        raise InvalidValueError(f"{name}: must be a string, got {value!r:.80}")
    return value


def _number(body: Mapping[str, Any], name: str, default: float) -> float:
    value = body.get(name)
    if value is None:
        return default
    if not is_number(value) or not -1 <= value < 1e9 or (value <= 0 and default > 0):
        raise InvalidValueError(f"{name}: must be a positive number, got {value!r:.80}")
    return float(value)
