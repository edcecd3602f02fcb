"""Counts over the samples of a run that need each sample only once, in any order.

Numbers lie in arrays, so that a sample takes tens of bytes: a run may have millions of them.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from maxatk.errors import DataError
from maxatk.evaluation.statistics.intervals import FloatArray, histogram
from maxatk.records import Sample, Score


class SampleTally:
    """Distinct completions of every problem, entropies and ends of all samples."""

    def __init__(self) -> None:
        self._texts: dict[str, array[int]] = defaultdict(_integers)  # hashes
        self._entropies = _floats()  # mean over the tokens, and how many they are
        self._tokens = _floats()
        self._ends: Counter[str | None] = Counter()

    def add(
        self,
        problem_id: str,
        text: Hashable,
        tokens: int | None,
        entropy: float | None,
        finish_reason: str | None,
    ) -> None:
        """Count one sample; `text` is its completion, or what stands for it."""
        self._texts[problem_id].append(hash(text))
        self._ends[finish_reason] += 1
        if tokens is not None and entropy is not None:
            self._entropies.append(entropy)
            self._tokens.append(tokens)

    def add_samples(self, samples: Iterable[Sample]) -> SampleTally:
        """Count samples and return the tally."""
        for sample in samples:
            self.add(
                sample.problem_id,
                sample.completion,
                sample.tokens,
                sample.entropy,
                sample.finish_reason,
            )
        return self

    def distinct(self, problem_ids: Sequence[str]) -> list[int]:
        """Return the number of different completions of each problem."""
        return [len(set(self._texts[problem_id])) for problem_id in problem_ids]

    def finish_reasons(self) -> dict[str, int] | None:
        """Return how many samples ended for each reason, or None if none is known."""
        known = {reason: count for reason, count in self._ends.items() if reason is not None}
        return dict(sorted(known.items())) or None

    def entropy(self) -> dict[str, Any] | None:
        """Return statistics of the entropy of completions, in nats, or None if none is known."""
        if not self._entropies:
            return None
        token, tokens = np.array(self._entropies), np.array(self._tokens)
        sequence = token * tokens
        return {
            "unit": "nats",
            "samples": len(sequence),
            "token_mean": round(float(sequence.sum() / tokens.sum()), 6),
            "tokens_mean": round(float(tokens.mean()), 6),
            "sequence": {
                "mean": round(float(sequence.mean()), 6),
                "median": round(float(np.median(sequence)), 6),
                "histogram": histogram(sequence),
            },
        }


class ScoreTally:
    """Rewards, programs and outcomes of every problem, by column instead of score by score.

    Programs and completions are compared by hashes of 64 bits.
    """

    def __init__(self) -> None:
        self._columns: dict[str, _Columns] = defaultdict(_Columns)
        self._outcomes: Counter[str] = Counter()
        self._unscored = 0

    def add(
        self,
        problem_id: str,
        sample: int,
        reward: float | None,
        outcome: str,
        program: str | None,
        further: Mapping[str, float],
    ) -> None:
        """Count one score, its outcome by name; raises DataError if that sample has one.

        `further` are the columns of the score beside its reward.
        """
        columns = self._columns[problem_id]
        if not columns.is_new(sample):
            raise DataError(f"sample {sample} of {problem_id!r} occurs twice")
        columns.rewards.append(np.nan if reward is None else reward)
        columns.programs.append(hash(program))
        columns.knows_programs &= program is not None
        for name, value in further.items():
            column = columns.further.setdefault(name, _floats())
            column.extend([np.nan] * (len(columns.rewards) - 1 - len(column)))
            column.append(value)
        self._outcomes[outcome] += 1
        self._unscored += reward is None

    def add_scores(self, scores: Iterable[Score]) -> ScoreTally:
        """Count scores and return the tally."""
        for s in scores:
            self.add(s.problem_id, s.sample, s.reward, s.outcome.value, s.program, s.columns)
        return self

    @property
    def problem_ids(self) -> list[str]:
        """The problems with a score, in the order of their first."""
        return list(self._columns)

    def rewards(self, problem_ids: Sequence[str]) -> tuple[FloatArray, npt.NDArray[np.int64]]:
        """Return rewards (P, n), NaN where unscored or absent, and the number of scores (P,)."""
        columns = [self._columns[problem_id].rewards for problem_id in problem_ids]
        counts = np.array([len(column) for column in columns], dtype=np.int64)
        return _padded(columns, int(counts.max())), counts

    def further(self, problem_ids: Sequence[str]) -> dict[str, FloatArray]:
        """Return the further columns that every score with a reward has, (P, n) each, by name."""
        groups = [self._columns[problem_id] for problem_id in problem_ids]
        width = max(len(group.rewards) for group in groups)
        rewarded = ~np.isnan(_padded([group.rewards for group in groups], width))
        found = {}
        for name in sorted(set.intersection(*(set(group.further) for group in groups))):
            values = _padded([group.further[name] for group in groups], width)
            if not np.isnan(values[rewarded]).any():
                found[name] = values
        return found

    def programs(self, problem_ids: Sequence[str]) -> tuple[list[int], list[float]] | None:
        """Return how many different programs a problem has, and their entropy in nats: (P,) each.

        The entropy is that of the shares of the different programs among a problem's samples: 0
        when all are alike, log n when all n differ. None where a score has no fingerprint of its
        program.
        """
        columns = [self._columns[problem_id] for problem_id in problem_ids]
        if not all(column.knows_programs for column in columns):
            return None
        counts = [Counter(column.programs).values() for column in columns]
        return [len(c) for c in counts], [round(distribution_entropy(c), 6) for c in counts]

    def counts(self) -> dict[str, Any]:
        """Return the number of problems, samples and unscored ones, and that of every outcome."""
        return {
            "problems": len(self._columns),
            "samples": sum(self._outcomes.values()),
            "unscored": self._unscored,
            "outcomes": dict(sorted(self._outcomes.items())),
        }


class _Columns:
    """The scores of a problem, those of `further` with NaN where a score lacks it."""

    def __init__(self) -> None:
        self.rewards = _floats()
        self.programs = _integers()  # hashes
        self.knows_programs = True
        self.further: dict[str, array[float]] = {}
        self._others: set[int] | None = None

    def is_new(self, sample: int) -> bool:
        """Say whether this index is none of those before, and keep it."""
        held = len(self.rewards)
        if self._others is None and sample == held:  # 0, 1, 2 and so on need no memory
            return True
        if self._others is None:
            self._others = set(range(held))
        if sample in self._others:
            return False
        self._others.add(sample)
        return True


def _floats() -> array[float]:
    return array("d")


def _integers() -> array[int]:
    return array("q")


def _padded(columns: Sequence[array[float]], width: int) -> FloatArray:
    """Return columns of several lengths as (P, width), NaN where there is no number."""
    values = np.full((len(columns), width), np.nan)
    for row, column in enumerate(columns):
        values[row, : len(column)] = column
    return values


def distribution_entropy(counts: Iterable[int]) -> float:
    """Return the entropy, in nats, of the distribution with these counts: 0 for one kind alone."""
    numbers = np.array([count for count in counts if count], dtype=np.float64)
    if len(numbers) == 0:
        return 0.0
    shares = numbers / numbers.sum()
    return float(max(0.0, -(shares * np.log(shares)).sum()))
