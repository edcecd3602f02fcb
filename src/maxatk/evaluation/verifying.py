"""Verify submissions in a thread of their own, so that sampling does not wait for it."""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.evaluation.failures import Failure, FailureStore, failure_of
from maxatk.evaluation.folder import FAILURES, SCORES, refuse_strangers
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


@dataclasses.dataclass(frozen=True)
class _Scoring:
    """The files of a run's scores, and what scores submissions.

    `reward` None stands for the tests; `total` is how many submissions there are in all, for
    `progress`, which is called with (done, total, "scores").
    """

    scores: Store[Score]
    failures: FailureStore
    problems: Mapping[str, Problem]
    verifier: Verifier
    reward: Reward | None
    total: int
    progress: UnitProgress | None

    def score(self, batch: Sequence[Submission]) -> None:
        """Score submissions and append their scores in the order given."""
        if self.reward is not None:
            self.scores.append(reward_batch(batch, self.reward, self.problems))
            self.report()
            return
        visible = visible_shares(batch, self.verifier, self.problems)
        verify_batch(batch, self.verifier, self.problems, lambda found: self._store(found, visible))

    def missing(self, batch: Sequence[Submission]) -> list[Submission]:
        """Return the submissions that have no score yet."""
        stored = self.scores.records
        return [f for f in batch if (f.sample.problem_id, f.sample.sample) not in stored]

    def report(self) -> None:
        """Call `progress`, if it is given."""
        if self.progress is not None:
            self.progress(len(self.scores.records), self.total, "scores")

    def _store(self, found: Sequence[Verified], visible: Mapping[Key, float]) -> None:
        # The failures first, so that a kill between the two loses none.
        self.failures.add(_reason(sub, verdict, self.problems) for sub, verdict in found)
        self.scores.append(_score(sub, verdict, visible) for sub, verdict in found)
        self.report()


@contextlib.contextmanager
def scoring(
    folder: Path,
    problems: Mapping[str, Problem],
    verifier: Verifier,
    *,
    reward: Reward | None,
    total: int,
    store_failures: int,
    progress: UnitProgress | None,
) -> Iterator[tuple[Store[Score], Callable[[Sequence[Submission]], None]]]:
    """Yield the scores of a run's folder and a function that queues submissions to be scored.

    The scores are appended in the order given; what has a score already is left out.

    Args:
        folder: The folder of the run.
        problems: The problems by id.
        verifier: Runs the programs.
        reward: What rewards a submission; the tests where None.
        total: How many submissions there are in all, for `progress`.
        store_failures: Of how many failed samples of a problem the first failed test is stored;
            of none where the reward is not that of the tests.
        progress: Called with (done, total, "scores") from the verifying thread.

    Raises DataError for scores of other problems, and as `VerifyingThread`.
    """
    with (
        Store(folder / SCORES, Score.from_json) as scores,
        FailureStore(folder / FAILURES, store_failures) as failures,
    ):
        refuse_strangers(scores, problems)
        work = _Scoring(scores, failures, problems, verifier, reward, total, progress)
        work.report()
        with VerifyingThread(work.score) as thread:
            yield scores, lambda batch: thread.put(work.missing(batch))


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
