"""Scores of samples, in a thread of their own so that sampling does not wait for them."""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from maxatk.evaluation.failures import FailedTest, failure_of
from maxatk.evaluation.folder import problems_digest
from maxatk.evaluation.store import Key, key_of
from maxatk.evaluation.submissions import Submission, program_key
from maxatk.records import Outcome, Problem, Score, Verdict
from maxatk.rewards import Reward, load_reward
from maxatk.rewards.reward import columns_of
from maxatk.rewards.specification import describe_reward
from maxatk.verifier import Verifier, problem_job, quick_turns

BATCH = 256
BY_TESTS = "continuous"  # the reward that is the share of the tests that passed


class Scorer:
    """What scores submissions by the tests or a reward; `settings` are what decides a score.

    Raises as `load_reward`, and InvalidValueError for a problem that lacks what the reward needs.
    """

    def __init__(self, reward: Any, problems: Mapping[str, Problem], verifier: Verifier) -> None:
        self._problems, self._verifier = problems, verifier
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
        if not self._by_tests:
            yield [(score, None) for score in self._rewarded(batch)]
            return
        visible = visible_shares(batch, self._verifier, self._problems)
        jobs = [problem_job(f.program, self._problems[f.sample.problem_id]) for f in batch]
        early: dict[int, Verdict] = {}  # verified before one that precedes it in the batch
        handed = 0
        for index, verdict in self._verifier.verify_stream(jobs):
            early[index] = verdict
            first = handed
            while handed in early:
                handed += 1
            if handed > first:
                ready = range(first, handed)
                yield [self._scored(batch[at], early.pop(at), visible) for at in ready]

    def _scored(
        self, found: Submission, verdict: Verdict, visible: Mapping[Key, float]
    ) -> tuple[Score, FailedTest | None]:
        name, sample = key = key_of(found.sample)
        counts = (verdict.reward, verdict.passed, verdict.total, verdict.outcome)
        about = (*key, *counts, round(verdict.seconds, 6), program_key(found.program))
        columns = {"visible_tests": visible[key]} if key in visible else {}
        test_at = self._problems[name].tests.__getitem__
        failure = failure_of(verdict, test_at, problem_id=name, sample=sample)
        return Score(*about, columns), failure

    def _rewarded(self, batch: Sequence[Submission]) -> Iterator[Score]:
        """Yield the scores by a reward function: its sum, and its parts as columns."""
        chosen = [self._problems[f.sample.problem_id] for f in batch]
        prompts = [problem.prompt for problem in chosen]
        started = time.perf_counter()
        completions = [f.sample.completion for f in batch]
        rewarded = self._reward.rewarded(prompts, completions, columns_of(chosen))
        seconds = round((time.perf_counter() - started) / len(batch), 6)
        for f, found in zip(batch, rewarded, strict=True):
            outcome = Outcome.NO_REWARD if found.total is None else Outcome.SCORED
            outcome = outcome if found.error is None else Outcome.REWARD_ERROR
            about = (*key_of(f.sample), found.total, 0, 0, outcome, seconds)
            yield Score(*about, columns=found.parts, error=found.error)


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
        for found in batch:
            if errors:
                raise errors[0]
            waiting.put(found)

    def run() -> None:
        # It goes on emptying the queue after an error: a sampler in `put` must not wait forever.
        last: Submission | None
        while last := waiting.get():
            batch = [last]
            while len(batch) < BATCH and not waiting.empty() and (last := waiting.get()):
                batch.append(last)
            if not errors:
                try:
                    work(batch)
                except BaseException as error:
                    errors.append(error)
            if last is None:
                return

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


def visible_shares(
    batch: Sequence[Submission], verifier: Verifier, problems: Mapping[str, Problem]
) -> dict[Key, float]:
    """Return the share of visible tests that passed, where there are any and they were verified."""
    shown = {
        name: dataclasses.replace(problems[name], tests=problems[name].visible_tests)
        for name in {f.sample.problem_id for f in batch}
        if problems[name].visible_tests
    }
    chosen = [f for f in batch if f.sample.problem_id in shown]
    jobs = [problem_job(f.program, shown[f.sample.problem_id]) for f in chosen]
    verdicts = verifier.verify_many(jobs) if jobs else []
    return {
        key_of(f.sample): verdict.reward
        for f, verdict in zip(chosen, verdicts, strict=True)
        if verdict.reward is not None
    }
