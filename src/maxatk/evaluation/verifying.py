"""Verify submissions in a thread of their own, so that sampling does not wait for it."""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from maxatk.evaluation.failures import Failure, FailureStore, failure_of
from maxatk.evaluation.store import Key, Store
from maxatk.evaluation.submissions import Submission, program_key
from maxatk.records import Outcome, Problem, Score, Verdict
from maxatk.rewards import Reward, load_reward
from maxatk.rewards.reward import columns_of
from maxatk.verifier import Verifier, problem_job, quick_turns

UnitProgress = Callable[[int, int, str], None]
"""Called as progress(done, total, unit), from the sampling and from the verification thread."""

Verified = tuple[Submission, Verdict]

BATCH = 256
VISIBLE = "visible_tests"
"""The column of the share of visible tests that passed."""

BY_TESTS = "continuous"
"""The reward that is the share of the tests that passed."""

_AHEAD = 8 * BATCH


class VerifyingThread:
    """A context manager that works on batches in the order given, in a thread of its own.

    `work` is called in the thread with one batch after the other: what is queued by then. At most
    `ahead` submissions wait, then `put` does. The error of `work` is raised by the next `put`, or
    on leaving the context. Leaving it normally waits for the queue; leaving it with an error drops
    what is queued.
    """

    def __init__(
        self, work: Callable[[Sequence[Submission]], None], *, ahead: int = _AHEAD
    ) -> None:
        self._work_on = work
        self._queue: queue.Queue[Submission | None] = queue.Queue(ahead)
        self._error: BaseException | None = None
        self._dropping = False
        self._turns = contextlib.ExitStack()
        self._thread = threading.Thread(target=self._work, name="maxatk-verify", daemon=True)

    def put(self, batch: Sequence[Submission]) -> None:
        """Queue submissions; waits for room."""
        for found in batch:
            self._raise_error()
            self._queue.put(found)

    def __enter__(self) -> VerifyingThread:
        self._turns.enter_context(quick_turns())
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._dropping = error is not None
        self._queue.put(None)
        self._thread.join()
        self._turns.close()
        if error is None:
            self._raise_error()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        # It goes on emptying the queue after an error: a sampler in `put` must not wait forever.
        while batch := self._waiting():
            if self._error is None and not self._dropping:
                try:
                    self._work_on(batch)
                except BaseException as error:
                    self._error = error

    def _waiting(self) -> list[Submission]:
        """Return what is queued, at most a batch of it; nothing at the end."""
        batch: list[Submission] = []
        while len(batch) < BATCH and not (batch and self._queue.empty()):
            found = self._queue.get()
            if found is None:
                if batch:
                    self._queue.put(None)
                break
            batch.append(found)
        return batch


def verify_batch(
    batch: Sequence[Submission],
    verifier: Verifier,
    problems: Mapping[str, Problem],
    found: Callable[[Sequence[Verified]], None],
) -> None:
    """Verify submissions and call `found` with verdicts as they come, in the order given."""
    jobs = [problem_job(f.program, problems[f.sample.problem_id]) for f in batch]
    early: dict[int, Verdict] = {}  # verified before one that precedes it in the batch
    handed = 0
    for index, verdict in verifier.verify_stream(jobs):
        early[index] = verdict
        ready = []
        while handed in early:
            ready.append((batch[handed], early.pop(handed)))
            handed += 1
        if ready:
            found(ready)


def reward_batch(
    batch: Sequence[Submission], reward: Reward, problems: Mapping[str, Problem]
) -> list[Score]:
    """Return the scores of submissions by a reward function: its sum, and its parts as columns."""
    chosen = [problems[f.sample.problem_id] for f in batch]
    prompts = [problem.prompt for problem in chosen]
    started = time.perf_counter()
    parts = reward.by_part(prompts, [f.sample.completion for f in batch], columns_of(chosen))
    seconds = round((time.perf_counter() - started) / len(batch), 6)
    return [
        Score(
            f.sample.problem_id,
            f.sample.sample,
            total,
            0,
            0,
            Outcome.INFRA_ERROR if total is None else Outcome.SCORED,
            seconds,
            columns={name: v for name, values in parts.items() if (v := values[i]) is not None},
        )
        for i, (f, total) in enumerate(zip(batch, reward.total(parts), strict=True))
    ]


@contextlib.contextmanager
def scoring(
    verifier: Verifier,
    scores: Store[Score],
    failures: FailureStore,
    problems: Mapping[str, Problem],
    *,
    total: int,
    progress: UnitProgress | None,
    reward: Reward | None = None,
) -> Iterator[Callable[[Sequence[Submission]], None]]:
    """Yield a function that queues submissions, whose scores are appended in the order given.

    Those that have a score already are left out.

    Args:
        verifier: Runs the programs.
        scores: Where scores are appended.
        failures: Where the reasons of failed samples are appended, if the tests decide.
        problems: The problems by id.
        total: How many submissions there are in all, for `progress`.
        progress: Called with (done, total, "scores") from the verifying thread.
        reward: What rewards a submission; the tests where None.

    Raises as `VerifyingThread`.
    """

    def report() -> None:
        if progress is not None:
            progress(len(scores.records), total, "scores")

    def store(found: Sequence[Verified], visible: Mapping[Key, float]) -> None:
        # First, so that a kill between the two loses none.
        failures.add(_reason(submission, verdict, problems) for submission, verdict in found)
        scores.append(_score(submission, verdict, visible) for submission, verdict in found)
        report()

    def work(batch: Sequence[Submission]) -> None:
        if reward is None:
            visible = visible_shares(batch, verifier, problems)
            verify_batch(batch, verifier, problems, lambda found: store(found, visible))
        else:
            scores.append(reward_batch(batch, reward, problems))
            report()

    report()
    with VerifyingThread(work) as thread:
        yield lambda batch: thread.put(
            [f for f in batch if (f.sample.problem_id, f.sample.sample) not in scores.records]
        )


def reward_or_tests(
    reward: Any, problems: Mapping[str, Problem], verifier: Verifier
) -> Reward | None:
    """Return the reward that a recipe names, or None where the tests alone decide.

    Raises as `load_reward`, and InvalidValueError for a problem that lacks what it needs.
    """
    loaded = load_reward(reward, verifier=verifier)
    loaded.check(list(problems.values()))
    return None if reward == BY_TESTS else loaded


@contextlib.contextmanager
def verifier_or_default(verifier: Verifier | None) -> Iterator[Verifier]:
    """Yield the verifier that was passed in, which stays open, or one of its own."""
    if verifier is not None:
        yield verifier
        return
    with Verifier() as own:
        yield own


def visible_shares(
    batch: Sequence[Submission], verifier: Verifier, problems: Mapping[str, Problem]
) -> dict[Key, float]:
    """Return the share of visible tests that passed, for the samples of problems that have them.

    A sample is left out where the verifier itself failed.
    """
    shown = {
        name: dataclasses.replace(problems[name], tests=problems[name].visible_tests)
        for name in {f.sample.problem_id for f in batch}
        if problems[name].visible_tests
    }
    chosen = [f for f in batch if f.sample.problem_id in shown]
    jobs = [problem_job(f.program, shown[f.sample.problem_id]) for f in chosen]
    verdicts = verifier.verify_many(jobs) if jobs else []
    return {
        (f.sample.problem_id, f.sample.sample): verdict.reward
        for f, verdict in zip(chosen, verdicts, strict=True)
        if verdict.reward is not None
    }


def _reason(found: Submission, verdict: Verdict, problems: Mapping[str, Problem]) -> Failure | None:
    sample = found.sample
    problem = problems[sample.problem_id]
    return failure_of(verdict, problem, problem_id=sample.problem_id, sample=sample.sample)


def _score(found: Submission, verdict: Verdict, visible: Mapping[Key, float]) -> Score:
    share = visible.get((found.sample.problem_id, found.sample.sample))
    score = Score.from_verdict(
        verdict,
        problem_id=found.sample.problem_id,
        sample=found.sample.sample,
        program=program_key(found.program),
    )
    return score if share is None else dataclasses.replace(score, columns={VISIBLE: share})
