"""Scores of samples, in a thread of their own so that sampling does not wait for them."""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from maxatk.evaluation.failures import Failure, failure_of
from maxatk.evaluation.folder import problems_digest
from maxatk.evaluation.store import Key
from maxatk.evaluation.submissions import Submission, program_key
from maxatk.records import Outcome, Problem, Score, Verdict
from maxatk.rewards import Reward, load_reward
from maxatk.rewards.reward import Rewarded, columns_of
from maxatk.rewards.specification import describe_reward
from maxatk.verifier import AnyVerifier, problem_job, quick_turns

BATCH = 256
BY_TESTS = "continuous"
"""The reward that is the share of the tests that passed."""

VISIBLE = "visible_tests"
"""The column of the share of visible tests that passed."""

_AHEAD = 8 * BATCH


@dataclasses.dataclass(frozen=True)
class Scored:
    """A submission with its score, and why it failed where that is known."""

    submission: Submission
    score: Score
    failure: Failure | None = None


class Scorer:
    """What scores submissions: the tests of their problems, or a reward.

    `by_tests` says which. `settings` is what decides a score: the reward, the problems and the
    verifier's limits. Raises as `load_reward`, and InvalidValueError for a problem that lacks
    what the reward needs.
    """

    def __init__(self, reward: Any, problems: Mapping[str, Problem], verifier: AnyVerifier) -> None:
        self._problems, self._verifier = problems, verifier
        self._reward: Reward = load_reward(reward, verifier=verifier)
        self._reward.check(list(problems.values()))
        self.by_tests = reward == BY_TESTS
        self.settings = {
            "reward": describe_reward(reward),
            "problems": {"count": len(problems), "sha256": problems_digest(problems.values())},
            "verifier": verifier.limits,
        }

    def score(self, batch: Sequence[Submission]) -> Iterator[list[Scored]]:
        """Yield submissions with their scores, in the order given, as soon as they are known."""
        if not self.by_tests:
            yield list(map(Scored, batch, self._rewarded(batch)))
            return
        visible = visible_shares(batch, self._verifier, self._problems)
        for verdicts in self._verdicts(batch):
            yield [self._scored(found, verdict, visible) for found, verdict in verdicts]

    def _verdicts(self, batch: Sequence[Submission]) -> Iterator[list[tuple[Submission, Verdict]]]:
        jobs = [problem_job(f.program, self._problems[f.sample.problem_id]) for f in batch]
        early: dict[int, Verdict] = {}  # verified before one that precedes it in the batch
        handed = 0
        for index, verdict in self._verifier.verify_stream(jobs):
            early[index] = verdict
            ready = []
            while handed in early:
                ready.append((batch[handed], early.pop(handed)))
                handed += 1
            if ready:
                yield ready

    def _scored(self, found: Submission, verdict: Verdict, visible: Mapping[Key, float]) -> Scored:
        sample = found.sample
        score = Score.from_verdict(
            verdict,
            problem_id=sample.problem_id,
            sample=sample.sample,
            program=program_key(found.program),
        )
        share = visible.get((sample.problem_id, sample.sample))
        if share is not None:
            score = dataclasses.replace(score, columns={VISIBLE: share})
        failure = failure_of(
            verdict,
            self._problems[sample.problem_id].tests.__getitem__,
            problem_id=sample.problem_id,
            sample=sample.sample,
        )
        return Scored(found, score, failure)

    def _rewarded(self, batch: Sequence[Submission]) -> list[Score]:
        """Return the scores by a reward function: its sum, and its parts as columns."""
        chosen = [self._problems[f.sample.problem_id] for f in batch]
        prompts = [problem.prompt for problem in chosen]
        started = time.perf_counter()
        completions = [f.sample.completion for f in batch]
        rewarded = self._reward.rewarded(prompts, completions, columns_of(chosen))
        seconds = round((time.perf_counter() - started) / len(batch), 6)
        return [
            Score(
                f.sample.problem_id,
                f.sample.sample,
                found.total,
                0,
                0,
                _outcome(found),
                seconds,
                columns=found.parts,
                error=found.error,
            )
            for f, found in zip(batch, rewarded, strict=True)
        ]


def _outcome(found: Rewarded) -> Outcome:
    if found.error is not None:
        return Outcome.REWARD_ERROR
    return Outcome.NO_REWARD if found.total is None else Outcome.SCORED


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


def visible_shares(
    batch: Sequence[Submission], verifier: AnyVerifier, problems: Mapping[str, Problem]
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
