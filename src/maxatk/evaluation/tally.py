"""From scores and samples, of which a run may have millions, to results: each is seen once."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from maxatk.check import is_finite, require
from maxatk.errors import DataError, InvalidValueError, unknown_name
from maxatk.evaluation import results
from maxatk.evaluation.blind_retry import VISIBLE_TESTS, retried_max_at_k
from maxatk.evaluation.budgets import is_budget, reward_within, rewards_by_turn, turns_of
from maxatk.evaluation.means import diversity_of, entropy_of, means_of, number_or_none
from maxatk.folders import writable
from maxatk.objectives import max_at_k
from maxatk.objectives.metrics import passes
from maxatk.records import Outcome, Sample, Score
from maxatk.statistics import intervals
from maxatk.statistics.intervals import FloatArray

_METHOD = (
    "percentile bootstrap over problems; Student's t where fewer than "
    f"{intervals.FEW_PROBLEMS} have a value"
)
_MOST_BINS = 128
_SMALLEST_RANGE = 1e-3  # of a histogram: without one, values that are all 0 would have no width
_MOST_REASONS = 20


def build_results(
    problem_ids: Sequence[str],
    samples: Iterable[Sample] | None,
    scores: Iterable[Score] | ScoreTally,
    *,
    manifest: Mapping[str, Any],
    ks: Sequence[int] = (),
    threshold: float = 1.0,
    meta: Sequence[Mapping[str, Any]] | None = None,
) -> results.Results:
    """Return the results of one evaluation.

    Every problem must have a score; one with fewer than k rewards is left out of the mean at k.
    `ks` are beside 1, 2, 4, ... up to the samples of the problem with the fewest. A sample passes
    from the reward `threshold` on. `meta` has the problems' own fields.

    Raises InvalidValueError for a k above those samples, a threshold that is not finite, and a
    column that no score has.
    """
    require(is_finite(threshold), "threshold", "a finite number", threshold)
    scores = scores if isinstance(scores, ScoreTally) else ScoreTally(scores)
    rewards, counts = scores.rewards(problem_ids)
    fewest = int(counts.min())
    ks = sorted({*intervals.default_ks(fewest), *intervals.check_ks(ks, fewest)})
    values = _values_of_problems(rewards, scores, problem_ids, ks, threshold=threshold)
    programs, program_entropies = scores.programs(problem_ids) or (None, None)
    texts = _TextTally()
    for sample in samples or ():
        texts.add(sample)
    per_problem = results.PerProblem(
        ids=tuple(problem_ids),
        samples=tuple(counts.tolist()),
        scored=tuple((~np.isnan(rewards)).sum(axis=1).tolist()),
        correct=tuple(passes(rewards, threshold).sum(axis=1).tolist()),
        lowest=tuple(map(number_or_none, np.fmin.reduce(rewards, axis=1))),
        highest=tuple(map(number_or_none, np.fmax.reduce(rewards, axis=1))),
        zeroed=scores.zeroed(problem_ids),
        distinct=None if samples is None else texts.distinct(problem_ids),
        programs=programs,
        program_entropy=program_entropies,
        meta=tuple(map(writable, meta)) if meta and any(meta) else None,
        values={
            name: {k: tuple(map(number_or_none, column)) for k, column in by_k.items()}
            for name, by_k in values.items()
        },
    )
    return results.Results(
        metrics=means_of(per_problem.values, per_problem.extremes),
        interval={"method": _METHOD, "level": intervals.LEVEL, "resamples": intervals.RESAMPLES},
        threshold=threshold,
        column=scores.column,
        per_problem=per_problem,
        counts=scores.counts(),
        finish_reasons=texts.finish_reasons,
        entropy=texts.entropy,
        diversity=diversity_of(per_problem),
        manifest=dict(manifest),
    )


def _values_of_problems(
    rewards: FloatArray,
    scores: ScoreTally,
    problem_ids: Sequence[str],
    ks: Sequence[int],
    *,
    threshold: float,
) -> dict[str, dict[int, FloatArray]]:
    """Return every metric of P problems by k, (P,) each; the rewards are (P, N)."""
    tables = intervals.metric_values(rewards, ks, threshold=threshold)  # (P, K) each
    for name, selection in scores.further(problem_ids).items():
        tables[f"max@k by {name}"] = max_at_k(rewards, ks, selection=selection)
    values = {metric: dict(zip(ks, table.T, strict=True)) for metric, table in tables.items()}
    return values | _retried(rewards, scores.values_of(problem_ids, VISIBLE_TESTS), ks)


def _retried(
    rewards: FloatArray, visible: FloatArray, ks: Sequence[int]
) -> dict[str, dict[int, FloatArray]]:
    """Return the metric of a blind retry at the k that a problem has 2k samples for, if any."""
    table = retried_max_at_k(rewards, visible, ks)
    by_k = {k: column for k, column in zip(ks, table.T, strict=True) if not np.isnan(column).all()}
    return {results.RETRIED: by_k} if by_k else {}


class _TextTally:
    """Completions of every problem, how they ended and their entropy: 24 bytes a sample."""

    def __init__(self) -> None:
        self._texts: dict[str, array[int]] = defaultdict(lambda: array("q"))  # hashes
        self._reasons = Counter[str]()
        self._token_entropies = array("d")  # the mean over the tokens of a sample, in nats
        self._lengths = array("d")  # of the same samples, in tokens

    def add(self, sample: Sample) -> None:
        """Count one sample."""
        self._texts[sample.problem_id].append(hash(sample.completion))
        if sample.finish_reason is not None:
            self._reasons[sample.finish_reason] += 1
        if sample.tokens is not None and sample.entropy is not None:
            self._token_entropies.append(sample.entropy)
            self._lengths.append(sample.tokens)

    def distinct(self, problem_ids: Sequence[str]) -> tuple[int, ...]:
        """Return the number of different completions of every problem."""
        return tuple(len(set(self._texts[problem_id])) for problem_id in problem_ids)

    @property
    def finish_reasons(self) -> dict[str, int] | None:
        """How often samples ended for each reason; None where no sample says."""
        return dict(sorted(self._reasons.items())) or None

    @property
    def entropy(self) -> results.Entropy | None:
        """The entropy of the samples that have one; None where none has, or none has a token."""
        if not any(self._lengths):
            return None
        token = np.array(self._token_entropies)
        tokens = np.array(self._lengths)
        sequence = token * tokens
        samples = np.ones(len(token))  # every sample is a part of its own
        return entropy_of(samples, token, tokens, sequence, histogram(sequence))


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
        self._problems: dict[str, _Scores] = defaultdict(_Scores)
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
            self._cut_off += min(reached) > self._turns
            self._lowest_reached = min(self._lowest_reached, *reached.values())
        of_problem = self._problems[score.problem_id]
        of_problem.add(score, np.nan if reward is None else reward)
        of_problem.zeroed += score.error is not None and reward is not None
        self._outcomes[score.outcome.value] += 1
        self._unscored += reward is None
        if score.error:
            self._reasons[score.error] += 1
        elif reward is None and score.reward is not None:
            self._reasons["no value in the column"] += 1
        elif reward is None:
            is_silent = score.outcome is Outcome.NO_REWARD
            self._reasons["none was given" if is_silent else score.outcome.value] += 1

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
        names = {name for scores in self._problems.values() for name in scores.further}
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
        columns = [self._problems[problem_id].rewards for problem_id in problem_ids]
        return _padded(columns), np.array([len(column) for column in columns], dtype=np.int64)

    def zeroed(self, problem_ids: Sequence[str]) -> tuple[int, ...]:
        """Return how many samples of every problem have a 0 because their reward failed."""
        return tuple(self._problems[problem_id].zeroed for problem_id in problem_ids)

    def values_of(self, problem_ids: Sequence[str], name: str) -> FloatArray:
        """Return a further column, (P, n), NaN where a score lacks it."""
        problems = [self._problems[problem_id] for problem_id in problem_ids]
        width = max(len(problem.rewards) for problem in problems)
        return _padded([problem.further.get(name, array("d")) for problem in problems], width)

    def further(self, problem_ids: Sequence[str]) -> dict[str, FloatArray]:
        """Return the further columns that every score with a reward has, (P, n) each, by name."""
        problems = [self._problems[problem_id] for problem_id in problem_ids]
        unscored = np.isnan(_padded([problem.rewards for problem in problems]))
        common = set.intersection(*(set(problem.further) for problem in problems))
        complete = {}
        for name in sorted(common):
            if is_budget(name):
                continue  # what was reached is no score that selects
            values = _padded([problem.further[name] for problem in problems], unscored.shape[1])
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

    def counts(self) -> results.Counts:
        """Return the number of problems, samples and unscored ones, and that of every outcome."""
        return results.Counts(
            problems=len(self._problems),
            samples=self._outcomes.total(),
            unscored=self._unscored,
            outcomes=dict(sorted(self._outcomes.items())),
            zeroed=sum(problem.zeroed for problem in self._problems.values()),
            reasons=dict(self._reasons.most_common(_MOST_REASONS)),
        )


class _Scores:
    """The scores of one problem, in the order in which they came.

    `further` are their other columns, each with NaN where a score lacks it; a column may be shorter
    than `rewards` where the last scores lack it.
    """

    def __init__(self) -> None:
        self.rewards = array("d")
        self.zeroed = 0  # samples with a 0 because their reward failed
        self.programs = array("q")  # hashes
        self.knows_programs = True
        self.further: dict[str, array[float]] = {}
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
        self.knows_programs &= score.program is not None
        for name, value in score.columns.items():
            column = self.further.setdefault(name, array("d"))
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


def histogram(values: npt.ArrayLike) -> results.Histogram:
    """Return the histogram of non-negative values; what rounding has put below 0 counts as 0.

    The bins are as wide as the smallest power of two of which `_MOST_BINS` reach the largest value.
    So the bins of any two histograms can be merged: those of one are a whole number of the other's.
    """
    numbers = np.maximum(np.asarray(values, dtype=np.float64), 0.0)
    largest = max(float(numbers.max(initial=0.0)), _SMALLEST_RANGE)
    exponent = np.ceil(np.log2(largest / _MOST_BINS))
    width = float(2.0**exponent)
    bin_of_number = (numbers / width).astype(np.int64)
    counts = np.bincount(bin_of_number)
    return results.Histogram(width=width, counts=tuple(counts.tolist()))
