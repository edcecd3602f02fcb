"""From scores and samples, of which a run may have millions, to results: each is seen once."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from maxatk.check import is_finite, require
from maxatk.errors import DataError, unknown_name
from maxatk.evaluation import results
from maxatk.evaluation.means import diversity_of, entropy_of, means_of, number_or_none
from maxatk.objectives import max_at_k
from maxatk.records import Sample, Score
from maxatk.statistics import intervals
from maxatk.statistics.intervals import FloatArray

_FEW = f"Student's t where fewer than {intervals.FEW_PROBLEMS} have a value"
_METHOD = f"percentile bootstrap over problems; {_FEW}"
_MOST_BINS = 128
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
    tables = intervals.metric_values(rewards, ks, threshold=threshold)
    for name, selection in scores.further(problem_ids).items():
        tables[f"max@k by {name}"] = max_at_k(rewards, ks, selection=selection)
    values = {name: dict(zip(ks, table.T, strict=True)) for name, table in tables.items()}
    programs, entropies = scores.programs(problem_ids) or (None, None)
    known = (None, None, None) if samples is None else _of_samples(problem_ids, samples)
    distinct, ends, entropy = known
    per_problem = results.PerProblem(
        ids=tuple(problem_ids),
        samples=tuple(counts.tolist()),
        scored=tuple((~np.isnan(rewards)).sum(axis=1).tolist()),
        correct=tuple((rewards >= threshold).sum(axis=1).tolist()),
        distinct=distinct,
        programs=programs,
        program_entropy=entropies,
        meta=tuple(dict(fields) for fields in meta) if meta and any(meta) else None,
        values={
            name: {k: tuple(map(number_or_none, column)) for k, column in by_k.items()}
            for name, by_k in values.items()
        },
    )
    return results.Results(
        metrics=means_of(values),
        interval={"method": _METHOD, "level": intervals.LEVEL, "resamples": intervals.RESAMPLES},
        threshold=threshold,
        column=scores.column,
        per_problem=per_problem,
        counts=scores.counts(),
        finish_reasons=ends,
        entropy=entropy,
        diversity=diversity_of(per_problem),
        manifest=dict(manifest),
    )


def _of_samples(
    problem_ids: Sequence[str], samples: Iterable[Sample]
) -> tuple[tuple[int, ...], dict[str, int] | None, results.Entropy | None]:
    texts: dict[str, array[int]] = defaultdict(lambda: array("q"))  # hashes
    entropies, lengths = array("d"), array("d")  # mean over the tokens, and how many they are
    ends = Counter[str]()
    for sample in samples:
        texts[sample.problem_id].append(hash(sample.completion))
        if sample.finish_reason is not None:
            ends[sample.finish_reason] += 1
        if sample.tokens is not None and sample.entropy is not None:
            entropies.append(sample.entropy)
            lengths.append(sample.tokens)
    distinct = tuple(len(set(texts[problem_id])) for problem_id in problem_ids)
    entropy = None
    if entropies:
        token, tokens = np.array(entropies), np.array(lengths)
        whole, ones = token * tokens, np.ones(len(token))
        entropy = entropy_of(ones, token, tokens, whole, histogram(whole))
    return distinct, dict(sorted(ends.items())) or None, entropy


class ScoreTally:
    """Rewards, programs and outcomes of every problem in arrays: tens of bytes a sample.

    `column` of the scores stands in for the reward.
    """

    def __init__(self, scores: Iterable[Score] = (), *, column: str | None = None) -> None:
        self.column = column
        self._problems: dict[str, _Scores] = defaultdict(_Scores)
        self._outcomes: Counter[str] = Counter()
        self._unscored = self._zeroed = 0
        self._reasons: Counter[str] = Counter()
        for score in scores:
            self.add(score)

    def add(self, score: Score) -> None:
        """Count one score; raises DataError if that sample has one."""
        reward = score.reward if self.column is None else score.columns.get(self.column)
        self._problems[score.problem_id].add(score, np.nan if reward is None else reward)
        self._outcomes[score.outcome.value] += 1
        self._unscored += reward is None
        self._zeroed += score.error is not None and reward is not None
        if reward is None or score.error is not None:
            lacks = "no value in the column" if score.reward is not None else score.outcome.value
            self._reasons[score.error or lacks] += 1

    @property
    def problem_ids(self) -> list[str]:
        """The problems in the order of their first score."""
        return list(self._problems)

    def rewards(self, problem_ids: Sequence[str]) -> tuple[FloatArray, npt.NDArray[np.int64]]:
        """Return rewards (P, n), NaN where unscored or absent, and the number of scores (P,).

        Raises InvalidValueError where no score has the column that stands in for the reward.
        """
        names = {name for found in self._problems.values() for name in found.further}
        if self.column is not None and self.column not in names:
            raise unknown_name("column", self.column, names)
        columns = [self._problems[problem_id].rewards for problem_id in problem_ids]
        return _padded(columns), np.array([len(column) for column in columns], dtype=np.int64)

    def further(self, problem_ids: Sequence[str]) -> dict[str, FloatArray]:
        """Return the further columns that every score with a reward has, (P, n) each, by name."""
        groups = [self._problems[problem_id] for problem_id in problem_ids]
        unscored = np.isnan(_padded([group.rewards for group in groups]))
        found = {}
        for name in sorted(set.intersection(*(set(group.further) for group in groups))):
            values = _padded([group.further[name] for group in groups], unscored.shape[1])
            if (unscored | ~np.isnan(values)).all():
                found[name] = values
        return found

    def programs(
        self, problem_ids: Sequence[str]
    ) -> tuple[tuple[int, ...], tuple[float, ...]] | None:
        """Return the different programs of problems and their entropy in nats; None if unknown."""
        groups = [self._problems[problem_id] for problem_id in problem_ids]
        if not all(group.knows_programs for group in groups):
            return None
        counts = [Counter(group.programs).values() for group in groups]
        entropies = (round(distribution_entropy(count), 6) for count in counts)
        return tuple(map(len, counts)), tuple(entropies)

    def counts(self) -> results.Counts:
        """Return the number of problems, samples and unscored ones, and that of every outcome."""
        return results.Counts(
            problems=len(self._problems),
            samples=self._outcomes.total(),
            unscored=self._unscored,
            outcomes=dict(sorted(self._outcomes.items())),
            zeroed=self._zeroed,
            reasons=dict(self._reasons.most_common(_MOST_REASONS)),
        )


class _Scores:
    """The scores of a problem, those of `further` with NaN where a score lacks it."""

    def __init__(self) -> None:
        self.rewards = array("d")
        self.programs = array("q")  # hashes
        self.knows_programs = True
        self.further: dict[str, array[float]] = {}
        self._seen: set[int] | None = None  # none while the samples are 0, 1, 2 and so on

    def add(self, score: Score, reward: float) -> None:
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
            further = self.further.setdefault(name, array("d"))
            further.extend([np.nan] * (held - len(further)))
            further.append(value)


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
    """Return the histogram of non-negative values, whose width, a power of two, others share."""
    numbers = np.maximum(np.asarray(values, dtype=np.float64), 0.0)
    largest = float(numbers.max(initial=0.0))
    width = 2.0 ** np.ceil(np.log2(max(largest, 1e-3) / _MOST_BINS))
    counts = np.bincount((numbers / width).astype(np.int64))
    return results.Histogram(width=float(width), counts=tuple(counts.tolist()))
