"""The queue of a verifier: programs with their limits, and the verdicts that callers wait for."""

from __future__ import annotations

import queue
from collections.abc import Callable
from concurrent.futures import Future

from maxatk.records import Outcome, Verdict
from maxatk.verifier import outcomes
from maxatk.verifier.jobs import Job
from maxatk.verifier.limits import Limits

Tasks = queue.SimpleQueue[tuple[Future[Verdict], Job, Limits] | None]


def answer_tasks(tasks: Tasks, verify: Callable[[Job, Limits], Verdict]) -> None:
    """Set the verdict of every task that nobody has cancelled, until None comes.

    What `verify` raises is an infra_error: a thread that ended here would leave callers waiting.
    """
    for verdict, job, limits in iter(tasks.get, None):
        if not verdict.set_running_or_notify_cancel():
            continue
        try:
            verdict.set_result(verify(job, limits))
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            verdict.set_result(outcomes.uniform(job, Outcome.INFRA_ERROR, reason))
