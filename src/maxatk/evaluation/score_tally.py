"""What results say of the scores of a run: rewards, other columns, programs and outcomes."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from maxatk.check import require
from maxatk.errors import DataError, InvalidValueError, unknown_name
from maxatk.evaluation.budgets import is_budget, reward_within, rewards_by_turn, turns_of
from maxatk.evaluation.results import Counts
from maxatk.records import Outcome, Score
from maxatk.statistics.intervals import FloatArray

_MOST_REASONS = 20


class ScoreTally:
    """Rewards, programs and outcomes of every problem in arrays: tens of bytes a sample.

    `column` of the scores stands in for the reward.
    """

    def __init__(self, scores: Iterable[Score] = (), *, column: str | None = None) -> None:
        is_column = column is None or isinstance(column, str)
        require(is_column, "column", "the name of a column", column)
        self.column = column
        self._turns: int | None = None  # of the budget that the column is, if it is one
        if column is not None and is_budget(column):
            self._turns = turns_of(column)
        self._cut_off = 0  # rollouts that had no reward by then, which count as 0
        self._lowest_reached = 0.0  # of the rewards after any number of turns
        self._problems: dict[str, _ProblemScores] = defaultdict(_ProblemScores)
        self._outcomes = Counter[str]()
        self._unscored = 0
        self._reasons = Counter[str]()  # why a sample lacks a reward, or has a 0 in its place
        for score in scores:
            self.add(score)

    def add(self, score: Score) -> None:
        """Count one score; raises DataError if that sample has one."""
        reward = self.reward_of(score)
        if self._turns is not None and reward is not None:
            reached = rewards_by_turn(score.columns)
            if min(reached) > self._turns:
                self._cut_off += 1
            self._lowest_reached = min(self._lowest_reached, *reached.values())
        problem_scores = self._problems[score.problem_id]
        problem_scores.add(score, np.nan if reward is None else reward)
        if score.error is not None and reward is not None:
            problem_scores.zeroed += 1
        self._outcomes[score.outcome.value] += 1
        if reward is None:
            self._unscored += 1
        reason = _reason_against_reward(score, reward)
        if reason:
            self._reasons[reason] += 1

    def reward_of(self, score: Score) -> float | None:
        """Return the reward of a score, or what stands in for it."""
        if self._turns is not None:
            return None if score.reward is None else reward_within(score.columns, self._turns)
        return score.reward if self.column is None else score.columns.get(self.column)

    @property
    def problem_ids(self) -> list[str]:
        """The problems in the order of their first score."""
        return list(self._problems)

    def rewards(self, problem_ids: Sequence[str]) -> tuple[FloatArray, npt.NDArray[np.int64]]:
        """Return rewards (P, n), NaN where unscored or absent, and the number of scores (P,).

        Raises InvalidValueError where no score has the column that stands in for the reward, or
        where a rollout that took too many turns would have more than one with a negative reward.
        """
        names = {name for scores in self._problems.values() for name in scores.other_columns}
        if self._turns is not None and not any(map(is_budget, names)):
            raise InvalidValueError(
                f"budget: {self.column!r}: no sample says how many turns it took; a log needs the "
                "field turns, or turn and rollout with a row a turn (--map)"
            )
        if self._cut_off and self._lowest_reached < 0:
            raise InvalidValueError(
                f"budget: {self.column!r}: a rollout that took more turns counts as 0, as "
                f"{self._cut_off:,} of them do; rewards must be at least 0 then, got "
                f"{self._lowest_reached:g}"
            )
        if self._turns is None and self.column is not None and self.column not in names:
            if not names:
                raise InvalidValueError(
                    f"column: there is none {self.column!r}; the scores have rewards alone"
                )
            raise unknown_name("column", self.column, names)
        rewards = [self._problems[problem_id].rewards for problem_id in problem_ids]
        counts = np.array([len(column) for column in rewards], dtype=np.int64)
        return _padded(rewards), counts

    def zeroed(self, problem_ids: Sequence[str]) -> tuple[int, ...]:
        """Return how many samples of every problem have a 0 because their reward failed."""
        return tuple(self._problems[problem_id].zeroed for problem_id in problem_ids)

    def column_values(self, problem_ids: Sequence[str], name: str) -> FloatArray:
        """Return a column other than the reward, (P, n), NaN where a score lacks it."""
        problems = [self._problems[problem_id] for problem_id in problem_ids]
        width = max(len(problem.rewards) for problem in problems)
        columns = [problem.other_columns.get(name, array("d")) for problem in problems]
        return _padded(columns, width)

    def selecting_columns(self, problem_ids: Sequence[str]) -> dict[str, FloatArray]:
        """Return the columns that can choose a sample, (P, n) each, by name.

        They are those other than the reward that every score with a reward has. The reward within a
        budget of turns is none of them: it is known by the reward alone.
        """
        problems = [self._problems[problem_id] for problem_id in problem_ids]
        unscored = np.isnan(_padded([problem.rewards for problem in problems]))
        names = set.intersection(*(set(problem.other_columns) for problem in problems))
        complete = {}
        for name in sorted(names):
            if is_budget(name):
                continue
            values = self.column_values(problem_ids, name)
            if (unscored | ~np.isnan(values)).all():
                complete[name] = values
        return complete

    def programs(
        self, problem_ids: Sequence[str]
    ) -> tuple[tuple[int, ...], tuple[float, ...]] | None:
        """Return the different programs of problems and their entropy in nats; None if unknown."""
        problems = [self._problems[problem_id] for problem_id in problem_ids]
        if not all(problem.knows_programs for problem in problems):
            return None
        counts = [Counter(problem.programs).values() for problem in problems]  # of each program
        entropies = [round(distribution_entropy(count), 6) for count in counts]
        return tuple(map(len, counts)), tuple(entropies)

    def counts(self) -> Counts:
        """Return the number of problems, samples and unscored ones, and that of every outcome."""
        return Counts(
            problems=len(self._problems),
            samples=self._outcomes.total(),
            unscored=self._unscored,
            outcomes=dict(sorted(self._outcomes.items())),
            zeroed=sum(problem.zeroed for problem in self._problems.values()),
            reasons=dict(self._reasons.most_common(_MOST_REASONS)),
        )


def _reason_against_reward(score: Score, reward: float | None) -> str:
    """Return why a sample lacks a reward, or has a 0 in its place; nothing if neither is so."""
    if score.error:
        return score.error
    if reward is not None:
        return ""
    if score.reward is not None:
        return "no value in the column"
    if score.outcome is Outcome.NO_REWARD:
        return "none was given"
    return str(score.outcome.value)


class _ProblemScores:
    """The scores of one problem, in the order in which they came.

    `other_columns` have NaN where a score lacks them. A column may be shorter than `rewards` where
    the last scores lack it.
    """

    def __init__(self) -> None:
        self.rewards = array("d")
        self.zeroed = 0  # samples with a 0 because their reward failed
        self.programs = array("q")  # hashes
        self.knows_programs = True
        self.other_columns: dict[str, array[float]] = {}
        # A set of a run's indices would be most of its memory. While they are 0, 1, 2, ..., as in
        # every file that a run has written, their number says which have come.
        self._seen: set[int] | None = None

    def add(self, score: Score, reward: float) -> None:
        """Count one score, whose reward may be NaN; raises DataError if that sample has one."""
        held = len(self.rewards)
        if self._seen is None and score.sample != held:
            self._seen = set(range(held))
        if self._seen is not None:
            if score.sample in self._seen:
                raise DataError(f"sample {score.sample} of {score.problem_id!r} occurs twice")
            self._seen.add(score.sample)
        self.rewards.append(reward)
        self.programs.append(hash(score.program))
        if score.program is None:
            self.knows_programs = False
        for name, value in score.columns.items():
            column = self.other_columns.setdefault(name, array("d"))
            column.extend([np.nan] * (held - len(column)))  # the scores before that lacked it
            column.append(value)


def _padded(columns: Sequence[array[float]], width: int = 0) -> FloatArray:
    """Return columns of several lengths as (P, width or more), NaN where there is no number."""
    values = np.full((len(columns), max(width, *map(len, columns))), np.nan)
    for row, column in enumerate(columns):
        values[row, : len(column)] = column
    return values


def distribution_entropy(counts: Iterable[int]) -> float:
    """Return the entropy, in nats, of the distribution with these counts: 0 for one kind alone."""
    numbers = np.array([count for count in counts if count], dtype=np.float64)
    shares = numbers / max(numbers.sum(), 1.0)
    return float(max(0.0, -(shares * np.log(shares)).sum()))
