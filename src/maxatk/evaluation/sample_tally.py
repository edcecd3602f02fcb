"""What results say of the samples of a run: how they differ, how they ended, their entropy."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from maxatk.evaluation.histograms import histogram
from maxatk.evaluation.means import entropy_of
from maxatk.evaluation.results import Entropy
from maxatk.records import Sample


class SampleTally:
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
    def entropy(self) -> Entropy | None:
        """The entropy of the samples that have one; None where none has, or none has a token."""
        if not any(self._lengths):
            return None
        token = np.array(self._token_entropies)
        tokens = np.array(self._lengths)
        sequence = token * tokens
        samples = np.ones(len(token))  # every sample is a part of its own
        return entropy_of(samples, token, tokens, sequence, histogram(sequence))
