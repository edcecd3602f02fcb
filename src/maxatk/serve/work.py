"""What a request asks the verifier for, and how it is carried out in a thread."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
import threading
from collections.abc import Sequence

from maxatk.records import Outcome, TestResult, Verdict
from maxatk.verifier import Verifier
from maxatk.verifier.jobs import Job
from maxatk.verifier.wire import RequestLimits


def _host_folders() -> re.Pattern[str]:
    """Return the pattern of the folders that a traceback or a compiler names, the longest first."""
    of_python = {os.path.dirname(os.__file__), sys.prefix, sys.base_prefix, *sys.path}
    # Compilers name the header that lies in the cache of the user, and those of the system.
    of_compilers = {os.path.expanduser("~"), os.environ.get("XDG_CACHE_HOME", ""), "/usr"}
    named = of_python | of_compilers
    resolved = {os.path.realpath(folder) for folder in named if folder}
    folders = (named | resolved) - {"", "/"}
    longest_first = sorted(folders, key=len, reverse=True)
    return re.compile("|".join(re.escape(folder) for folder in longest_first))


_HOST_FOLDERS = _host_folders()
_QUEUED_PER_WORKER = 2  # programs of one request, so that a worker has the next one at once


@dataclasses.dataclass(frozen=True)
class Work:
    """Programs of one request, their limits, and how many seconds the request may wait."""

    jobs: Sequence[Job]
    limits: RequestLimits
    wait: float


def carry_out(work: Work, verifier: Verifier, given_up: threading.Event) -> list[Verdict]:
    """Return the verdicts in order, or none of them once the client has given up."""
    verdicts: dict[int, Verdict] = {}
    # A batch of thousands would else be worked off before any program of another client.
    at_once = _QUEUED_PER_WORKER * verifier.workers
    stream = verifier.verify_stream(work.jobs, limits=work.limits, at_once=at_once)
    for place, verdict in stream:
        verdicts[place] = verdict
        if given_up.is_set():
            stream.close()  # type: ignore[attr-defined]  # a generator, which drops the rest
            return []
    return [_without_host(verdicts[place]) for place in range(len(work.jobs))]


def _without_host(verdict: Verdict) -> Verdict:
    """Return a verdict whose texts say nothing of the machine it comes from."""
    return Verdict(tuple(_cleaned(result) for result in verdict.tests))


def _cleaned(result: TestResult) -> TestResult:
    if result.outcome is Outcome.INFRA_ERROR:
        return dataclasses.replace(result, stderr="the sandbox failed", got="")
    return dataclasses.replace(result, stderr=_HOST_FOLDERS.sub("<host>", result.stderr))
