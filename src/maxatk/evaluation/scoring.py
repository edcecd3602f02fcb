"""Scores of samples, in a thread of their own so that sampling does not wait for them."""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from maxatk.evaluation.blind_retry import VISIBLE_TESTS
from maxatk.evaluation.failures import FailedTest, failure_of
from maxatk.evaluation.folder import problems_digest
from maxatk.evaluation.store import Key, key_of
from maxatk.evaluation.submissions import Submission, program_key
from maxatk.records import Problem, Score, Verdict
from maxatk.rewards import Reward, load_reward
from maxatk.rewards.reward import columns_of
from maxatk.rewards.specification import describe_reward
from maxatk.verifier import Verifier, quick_turns

BATCH = 256
BY_TESTS = "continuous"  # the reward that is the share of the tests that passed


class Scorer:
    """What scores submissions by the tests or a reward; `settings` are what decides a score.

    Raises as `load_reward`, and InvalidValueError for a problem that lacks what the reward needs.
    """

    def __init__(self, reward: Any, problems: Mapping[str, Problem], verifier: Verifier) -> None:
        self._problems = problems
        self._verifier = verifier
        self._reward: Reward = load_reward(reward, verifier=verifier)
        self._reward.check(list(problems.values()))
        self._by_tests = reward == BY_TESTS
        self.settings = {
            "reward": describe_reward(reward),
            "problems": {"count": len(problems), "sha256": problems_digest(problems.values())},
            "verifier": verifier.limits,
        }

    def score(self, batch: Sequence[Submission]) -> Iterator[list[tuple[Score, FailedTest | None]]]:
        """Yield the scores of submissions, and why they failed, in order as soon as known."""
        if self._by_tests:
            yield from self._scored_by_tests(batch)
        else:
            yield [(score, None) for score in self._scored_by_reward(batch)]

    def _scored_by_tests(
        self, batch: Sequence[Submission]
    ) -> Iterator[list[tuple[Score, FailedTest | None]]]:
        shares = visible_shares(batch, self._verifier, self._problems)
        jobs = [s.job(self._problems[s.sample.problem_id]) for s in batch]
        # Verdicts come in the order in which programs end. Scores are stored in the order of the
        # batch, so that the file of an interrupted run is a prefix of that of an uninterrupted one.
        waiting: dict[int, Verdict] = {}
        first = 0  # the place in the batch of the next score
        for place, verdict in self._verifier.verify_stream(jobs):
            waiting[place] = verdict
            ready = []
            while first in waiting:
                ready.append(self._score_of(batch[first], waiting.pop(first), shares))
                first += 1
            if ready:
                yield ready

    def _score_of(
        self, submission: Submission, verdict: Verdict, visible_shares: Mapping[Key, float]
    ) -> tuple[Score, FailedTest | None]:
        key = key_of(submission.sample)
        problem_id, sample = key
        score = Score(
            problem_id,
            sample,
            verdict.reward,
            verdict.passed,
            verdict.total,
            verdict.outcome,
            round(verdict.seconds, 6),
            program_key(submission.program, self._problems[problem_id].language),
            {VISIBLE_TESTS: visible_shares[key]} if key in visible_shares else {},
        )
        test_at = self._problems[problem_id].tests.__getitem__
        return score, failure_of(verdict, test_at, problem_id=problem_id, sample=sample)

    def _scored_by_reward(self, batch: Sequence[Submission]) -> Iterator[Score]:
        """Yield the scores by a reward function: its sum, and its parts, if several, as columns."""
        problems = [self._problems[submission.sample.problem_id] for submission in batch]
        started = time.perf_counter()
        rewards = self._reward.rewarded(
            [problem.prompt for problem in problems],
            [submission.sample.completion for submission in batch],
            columns_of(problems),
        )
        # The function is called once for the batch, so that a sample has its mean.
        seconds = round((time.perf_counter() - started) / len(batch), 6)
        has_several_parts = len(self._reward.parts) > 1  # a single one is the reward itself
        for submission, reward in zip(batch, rewards, strict=True):
            yield Score(
                *key_of(submission.sample),
                reward.total,
                passed=0,
                total=0,
                outcome=reward.outcome,
                seconds=seconds,
                columns=reward.parts if has_several_parts else {},
                error=reward.error,
            )


@contextlib.contextmanager
def scoring_thread(
    work: Callable[[Sequence[Submission]], None], *, ahead: int = 8 * BATCH
) -> Iterator[Callable[[Sequence[Submission]], None]]:
    """Yield what queues submissions, on which `work` is called in a thread, in the order given.

    At most `ahead` submissions wait, then queueing does. An error of `work` is raised by the next
    call that queues, or on leaving, which waits for the queue, or with an error drops it.
    """
    waiting: queue.Queue[Submission | None] = queue.Queue(ahead)
    errors: list[BaseException] = []

    def put(batch: Sequence[Submission]) -> None:
        for submission in batch:
            if errors:
                raise errors[0]
            waiting.put(submission)

    def run() -> None:
        for batch in _batches(waiting):
            # It empties the queue after an error too: a sampler in `put` must not wait forever.
            if errors:
                continue
            try:
                work(batch)
            except BaseException as error:
                errors.append(error)

    thread = threading.Thread(target=run, name="maxatk-verify", daemon=True)
    with quick_turns():
        thread.start()
        try:
            yield put
        except BaseException as error:
            errors.append(error)
            raise
        finally:
            waiting.put(None)
            thread.join()
    if errors:
        raise errors[0]


def _batches(waiting: queue.Queue[Submission | None]) -> Iterator[list[Submission]]:
    """Yield what waits, up to `BATCH` submissions at a time, until None comes."""
    ended = False
    while not ended:
        # The first is waited for. The others of its batch are those that wait behind it by then.
        submission = waiting.get()
        batch: list[Submission] = []
        while submission is not None:
            batch.append(submission)
            if len(batch) == BATCH or waiting.empty():
                break
            submission = waiting.get()
        ended = submission is None
        if batch:
            yield batch


def visible_shares(
    batch: Sequence[Submission], verifier: Verifier, problems: Mapping[str, Problem]
) -> dict[Key, float]:
    """Return the share of visible tests that passed, where there are any and they were verified."""
    # The same problems with the tests that their prompts show in place of those that decide.
    shown: dict[str, Problem] = {}
    for problem_id in {submission.sample.problem_id for submission in batch}:
        problem = problems[problem_id]
        if problem.visible_tests:
            shown[problem_id] = dataclasses.replace(problem, tests=problem.visible_tests)
    tested = [submission for submission in batch if submission.sample.problem_id in shown]
    jobs = [s.job(shown[s.sample.problem_id]) for s in tested]
    verdicts = verifier.verify_many(jobs) if jobs else []
    return {
        key_of(submission.sample): verdict.reward
        for submission, verdict in zip(tested, verdicts, strict=True)
        if verdict.reward is not None
    }
