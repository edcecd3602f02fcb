"""Jobs, limits and verdicts as JSON objects: what `maxatk serve` and its clients exchange."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from maxatk.check import is_finite, is_number, is_whole, positive, require
from maxatk.errors import DataError, InvalidValueError, counted
from maxatk.records import Outcome, TestCase, TestResult, Verdict
from maxatk.verifier.jobs import Job
from maxatk.verifier.limits import Limits
from maxatk.verifier.running import RunJob

MOST_BODY = 32 << 20
"""Bytes of the body of a request; a server refuses more."""

CAPPED = ("time_limit", "memory_limit", "output_limit")
"""The limits of which a server has its own, which win."""

_SHOWN = "most_characters"  # the field by which a job is one that shows what is printed
# A job that is refused is answered where it is made.
_JOB_FIELDS = [field.name for field in dataclasses.fields(RunJob) if field.name != "refused"]
# What of the limits counts where a program runs; the others are of how a completion is read.
_LIMITS = (*CAPPED, "stop_after_timeouts", "wall_limit", "idle_limit")
_SIZES = ("memory_limit", "output_limit", "stop_after_timeouts", _SHOWN)  # whole numbers
_NUMBERS = ("time_limit", "wall_limit", "idle_limit", "tolerance")


@dataclasses.dataclass(frozen=True)
class RequestLimits(Limits):
    """The limits of one request, which may also bound how long its tests take or are idle (s)."""

    wall_limit: float | None = None
    idle_limit: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("wall_limit", self.wall_limit)
        positive("idle_limit", self.idle_limit)

    @property
    def wall(self) -> float:
        """Seconds of a test on the wall clock, as in `Limits` unless the request says less."""
        return super().wall if self.wall_limit is None else min(super().wall, self.wall_limit)

    @property
    def idle(self) -> float:
        """Idle seconds of all tests together, as in `Limits` unless the request says less."""
        return super().idle if self.idle_limit is None else min(super().idle, self.idle_limit)


def job_to_json(job: Job) -> dict[str, Any]:
    """Return the JSON object of a job, without the fields that are not set."""
    fields = {name: getattr(job, name, None) for name in _JOB_FIELDS}
    row = {name: value for name, value in fields.items() if value is not None}
    return {**row, "tests": [test.to_json() for test in job.tests]}


def job_from_json(row: object) -> Job:
    """Return the job of a JSON object; raises InvalidValueError naming a field that is not one."""
    fields = _fields(row, _JOB_FIELDS, "programs")
    tests = fields.get("tests")
    are_objects = isinstance(tests, list) and all(isinstance(test, Mapping) for test in tests)
    require(are_objects, "tests", "a list of objects", tests)
    fields["tests"] = tuple(map(TestCase.from_json, fields["tests"]))
    if "program" not in fields:
        raise InvalidValueError("program: must be a string, got nothing")
    return RunJob(**fields) if fields.get(_SHOWN) else Job(**fields)


def request_body(job: Job, limits: Limits, *, wait: float) -> bytes:
    """Return the body of the request for one verdict, which may `wait` so many seconds.

    Raises InvalidValueError for one that a server refuses because it is too long.
    """
    request = {"programs": [job_to_json(job)], "limits": limits_to_json(limits), "wait_s": wait}
    body = json.dumps(request).encode()
    if len(body) > MOST_BODY:
        raise InvalidValueError(
            f"tests: a program and its tests must take {MOST_BODY:,} bytes as JSON at most to be "
            f"sent to a server, got {len(body):,}; verify them on this machine, without `sandbox`"
        )
    return body


def limits_to_json(limits: Limits) -> dict[str, Any]:
    """Return the JSON object of what of the limits counts where a program runs."""
    row = {name: getattr(limits, name, None) for name in _LIMITS}
    return {name: value for name, value in row.items() if value is not None}


def limits_from_json(row: object) -> RequestLimits:
    """Return the limits of a JSON object; raises InvalidValueError as `job_from_json`."""
    return RequestLimits(**_fields(row, _LIMITS, "limits"))


def _fields(row: object, allowed: Sequence[str], where: str) -> dict[str, Any]:
    """Return the fields of a JSON object that are set, each allowed and of its type."""
    require(isinstance(row, Mapping), where, "objects", row)
    assert isinstance(row, Mapping)
    fields = {name: value for name, value in row.items() if value is not None}
    for name, value in fields.items():
        require(name in allowed, where, f"objects of {', '.join(allowed)}", name)
        if name in _SIZES:
            require(is_whole(value, 1), name, "a whole number of 1 or more", value)
        elif name in _NUMBERS:
            require(is_number(value), name, "a number", value)
        elif name != "tests":
            require(isinstance(value, str), name, "a string", value)
    return fields


def verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    """Return the JSON object of a verdict: its summary, and the result of every test."""
    return {
        "reward": verdict.reward,
        "passed": verdict.passed,
        "total": verdict.total,
        "outcome": verdict.outcome.value,
        "tests": [dataclasses.asdict(result) for result in verdict.tests],
    }


def verdict_from_json(row: object, job: Job) -> Verdict:
    """Return the verdict of a JSON object on a job; raises DataError for anything else."""
    rows = row.get("tests") if isinstance(row, Mapping) else None
    if not isinstance(rows, list) or len(rows) != len(job.tests):
        raise DataError(f"must be a verdict on {counted(len(job.tests), 'test')}, got {row!r:.80}")
    return Verdict(tuple(map(_result, rows)))


def _result(row: object) -> TestResult:
    try:
        assert isinstance(row, Mapping)
        result = TestResult(**{**row, "outcome": Outcome(row["outcome"])})
    except (AssertionError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"must be the result of a test, got {row!r:.80}") from error
    has_seconds = all(
        is_finite(seconds) and seconds >= 0 for seconds in (result.cpu_seconds, result.wall_seconds)
    )
    has_texts = isinstance(result.stderr, str) and isinstance(result.got, str)
    if not (has_seconds and has_texts and is_whole(result.peak_memory, 0)):
        raise DataError(f"must be the result of a test, got {row!r:.80}")
    return result
