"""Counts over the samples of a run that need each sample only once, in any order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from maxatk.evaluate.diversity import distribution_entropy
from maxatk.evaluate.statistics import histogram
from maxatk.records import Sample, Score


class SampleTally:
    """Distinct completions of every problem, and the entropies of all samples."""

    def __init__(self) -> None:
        self._texts: dict[str, set[Hashable]] = defaultdict(set)
        self._entropies: list[float] = []  # mean over the tokens, and how many they are
        self._tokens: list[float] = []

    def add(
        self, problem_id: str, text: Hashable, tokens: int | None, entropy: float | None
    ) -> None:
        """Count one sample; `text` is its completion, or what stands for it."""
        self._texts[problem_id].add(text)
        if tokens is not None and entropy is not None:
            self._entropies.append(entropy)
            self._tokens.append(tokens)

    def add_samples(self, samples: Iterable[Sample]) -> SampleTally:
        """Count samples and return the tally."""
        for sample in samples:
            self.add(sample.problem_id, sample.completion, sample.tokens, sample.entropy)
        return self

    def distinct(self, problem_ids: Sequence[str]) -> list[int]:
        """Return the number of different completions of each problem."""
        return [len(self._texts[problem_id]) for problem_id in problem_ids]

    def entropy(self) -> dict[str, Any] | None:
        """Return statistics of the entropy of completions, in nats, or None if none is known."""
        if not self._entropies:
            return None
        token, tokens = np.array([self._entropies, self._tokens], dtype=np.float64)
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


def program_counts(
    problem_ids: Sequence[str], scores: Iterable[Score]
) -> tuple[list[int], list[float]] | None:
    """Return how many different programs each problem has, and their entropy in nats: (P,) each.

    The entropy is that of the shares of the different programs among a problem's samples: 0 when
    all are alike, log n when all n differ. None where a score has no fingerprint of its program.
    """
    programs: dict[str, Counter[str]] = {problem_id: Counter() for problem_id in problem_ids}
    for score in scores:
        if score.program is None:
            return None
        programs[score.problem_id][score.program] += 1
    counts = [programs[problem_id].values() for problem_id in problem_ids]
    return [len(c) for c in counts], [round(distribution_entropy(c), 6) for c in counts]
