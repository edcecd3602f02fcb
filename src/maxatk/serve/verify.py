"""`/verify`: a batch of programs with their tests, and a typed verdict on each."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from maxatk.check import is_number, require
from maxatk.errors import DataError, InvalidValueError
from maxatk.records import Verdict
from maxatk.serve.answers import OK, Answer, answer
from maxatk.serve.work import Work
from maxatk.verifier import wire
from maxatk.verifier.jobs import Job
from maxatk.verifier.limits import Limits

_MOST_PROGRAMS = 10_000
_MOST_TESTS = 100_000  # of all programs: each takes ten times its bytes once it is read
_WAIT_SECONDS = 60.0
_KEYS = ("programs", "limits", "wait_s")


def read_work(body: Mapping[str, Any], most: Limits) -> Work:
    """Return the programs of a request, whose limits count up to `most`.

    Raises InvalidValueError naming the field that is not allowed, and the place of its program.
    """
    for name in body:
        require(name in _KEYS, "request", f"an object of {', '.join(_KEYS)}", name)
    programs = body.get("programs")
    is_list = isinstance(programs, list) and 1 <= len(programs) <= _MOST_PROGRAMS
    require(is_list, "programs", f"a list of 1 to {_MOST_PROGRAMS:,}", programs)
    assert isinstance(programs, list)
    tests = sum(len(row["tests"]) for row in programs if _has_tests(row))
    require(tests <= _MOST_TESTS, "tests", f"{_MOST_TESTS:,} at most of all programs", tests)
    wait = body.get("wait_s", _WAIT_SECONDS)
    is_wait = is_number(wait) and 0 < wait <= 3600
    require(is_wait, "wait_s", "seconds above 0, 3600 at most", wait)
    limits = body.get("limits")
    return Work(
        jobs=[_bounded_job(place, row, most) for place, row in enumerate(programs)],
        limits=_bounded_limits(wire.limits_from_json({} if limits is None else limits), most),
        wait=float(wait),
    )


def _has_tests(row: object) -> bool:
    return isinstance(row, Mapping) and isinstance(row.get("tests"), list)


def _bounded_limits(limits: wire.RequestLimits, most: Limits) -> wire.RequestLimits:
    bounded = {name: min(getattr(limits, name), getattr(most, name)) for name in wire.CAPPED}
    return dataclasses.replace(limits, **bounded)


def _bounded_job(place: int, row: object, most: Limits) -> Job:
    """Return the job of a program, which an error names by its place among those of the request."""
    try:
        job = wire.job_from_json(row)
    except (InvalidValueError, DataError) as error:
        raise InvalidValueError(f"programs[{place}]: {error}") from error
    bounded = {
        name: min(getattr(job, name), getattr(most, name))
        for name in ("time_limit", "memory_limit")
        if getattr(job, name) is not None
    }
    return dataclasses.replace(job, **bounded)


def answer_of(verdicts: Sequence[Verdict], most: Limits) -> Answer:
    """Return the answer with the verdicts, and the most that this server allows."""
    return answer(
        OK,
        {
            "verdicts": [wire.verdict_to_json(verdict) for verdict in verdicts],
            "limits": {name: getattr(most, name) for name in wire.CAPPED},
        },
    )
