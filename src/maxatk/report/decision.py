"""The test of one model against another, and its verdict: which model is best at which k."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from maxatk.errors import counted
from maxatk.report.comparison import ALPHA, Comparison
from maxatk.report.paired_tests import PairedTest, paired_tests, with_adjusted_p
from maxatk.report.tables import change, change_interval, mean_cell
from maxatk.statistics.intervals import ROUNDING
from maxatk.statistics.power import pairs_needed
from maxatk.statistics.significance import fewest_problems

_MOST_NEEDED = 10_000  # problems, beyond which a difference is too small for any benchmark
_MOST_NAMES = 4  # of models that a sentence lists
_LEAST_DIFFERENCE = 0.01  # in deviations: a smaller one needs more than `_MOST_NEEDED`


@dataclasses.dataclass(frozen=True)
class Decision:
    """The verdict on one metric of a comparison.

    `tests` has every model against every earlier one at each k, corrected together. `leaders` maps
    a k to the model with the highest mean, over the problems that all have, and those that the test
    does not tell from it.
    """

    comparison: Comparison
    metric: str
    alpha: float
    leaders: Mapping[int, tuple[str, ...]]
    tests: tuple[PairedTest, ...]

    @property
    def against_best(self) -> list[PairedTest]:
        """The one with the highest mean against every other model, at each k."""
        tests = []
        for test in self.tests:
            best = self.leaders[test.measure.k][0]
            if best in (test.first, test.second):
                tests.append(test.seen_from(best))
        return tests

    @property
    def against_baseline(self) -> list[PairedTest]:
        """Every other model against the baseline, at each k."""
        return [test for test in self.tests if test.second == self.comparison.baseline.name]

    def best_at(self, k: int) -> list[str]:
        """Return the model with the highest mean at one k, and those whose mean reads the same."""
        texts = {
            name: mean_cell(self.comparison.run(name).metric(self.metric, k)).text
            for name in self.leaders[k]
        }
        highest = texts[self.leaders[k][0]]
        return [name for name, text in texts.items() if text == highest]

    def advice(self, k: int) -> str:
        """Return the verdict at one k as one sends it to a colleague, in a sentence or two."""
        best, *tied = self.leaders[k]
        other = self.comparison.baseline.name
        if other == best:
            ranked = self.comparison.ranked(self.metric, k)
            other = next(name for name in ranked if name != best)
        start = f"{best} is not told apart from {other}" if other in tied else f"take {best}"
        advice = (
            f"For N = {k} {start}: {self._unit_of_worth(k)} {self._worth(best, k)} against "
            f"{self._worth(other, k)} of {other}."
        )
        advice += self._difference_in_common(best, other, k)
        other_tied = [name for name in tied if name != other]
        if other_tied:
            advice += f" The test does not tell it from {_listed_names(other_tied)}."
        if other in tied:
            advice += self._what_would_tell(best, other, k)
        return advice

    def _difference_in_common(self, best: str, other: str, k: int) -> str:
        """Return the difference that is tested, where the means of two models are over others."""
        (test,) = [t for t in self.against_best if t.measure.k == k and t.second == other]
        runs = (self.comparison.run(name) for name in (best, other))
        is_that_of_means = {run.metric(self.metric, k).problems for run in runs} == {test.problems}
        if is_that_of_means or test.difference is None:
            return ""
        difference = change(test.difference)
        if test.low is not None:
            difference += f" {change_interval(test.low, test.high)}"
        over = f"the {counted(test.problems)} with a value in both"
        return f" Over {over} the difference is {difference}."

    def _what_would_tell(self, best: str, other: str, k: int) -> str:
        """Return how many problems would show the difference that these are too few for."""
        if self.comparison.over != "problems":
            return ""  # of other trainings, of which problems say nothing
        of_best = self.comparison.run(best).values(self.metric, [k])
        of_other = self.comparison.run(other).values(self.metric, [k])
        differences = (of_best - of_other)[~np.isnan(of_best - of_other)]
        difference = float(differences.mean()) if len(differences) > 1 else 0.0
        if abs(difference) < ROUNDING:
            return ""
        deviation = float(differences.std(ddof=1))
        needed = max(
            pairs_needed(max(abs(difference), _LEAST_DIFFERENCE * deviation), deviation),
            fewest_problems(self.alpha),
        )
        if needed <= len(differences):
            return ""  # the correction for many tests has decided, not the number of problems
        count = f"about {needed:,}" if needed <= _MOST_NEEDED else f"more than {_MOST_NEEDED:,}"
        return (
            f" {len(differences):,} problems cannot tell: {count} would show a difference of "
            f"{abs(difference):.3f} in four of five such comparisons."
        )

    def _worth(self, name: str, k: int) -> str:
        cell = mean_cell(self.comparison.run(name).metric(self.metric, k))
        return f"{cell.text} {cell.detail}".rstrip()  # equal values have no interval

    def _unit_of_worth(self, k: int) -> str:
        if self.metric == "pass@k":
            return f"{f'one of {k}' if k > 1 else 'it'} passes with a chance of"
        return f"its {f'best of {k}' if k > 1 else 'answer'} is worth"

    @property
    def sentences(self) -> list[str]:
        """The verdict in words: which model for which N, then each against the baseline."""
        sentences = []
        # A line for every run of k with the same leaders, whatever their order.
        spans = itertools.groupby(self.comparison.ks, lambda k: frozenset(self.leaders[k]))
        for leaders, span in spans:
            ks = list(span)
            names = sorted(leaders, key=self.leaders[ks[0]].index)
            apart = "" if len(names) == 1 else ", which the test does not tell apart"
            sentences.append(f"{self._span(ks, start='For')}: {_listed_names(names)}{apart}.")
        sentences += map(self._against_baseline_in_words, self.comparison.names[1:])
        return sentences

    def _against_baseline_in_words(self, name: str) -> str:
        tests = [test for test in self.against_baseline if test.first == name]
        parts: list[str] = []
        for mark, span in itertools.groupby(tests, lambda test: test.mark):
            ks = [test.measure.k for test in span]
            # "above base for N = 2 and below it for N = 4", but "not told apart from base".
            base = "it" if parts and mark else self.comparison.baseline.name
            parts.append(f"{mark or 'not told apart from'} {base} {self._span(ks, start='for')}")
        return f"{name} is {_listed(parts)}."

    def _span(self, ks: Sequence[int], *, start: str) -> str:
        """Return `For N = 2 to 8`; `For every N from 1 to 8` where these are all there are."""
        if len(ks) == 1:
            return f"{start} N = {ks[0]}"
        all_of_them = len(ks) == len(self.comparison.ks)
        return f"{start} {'every N from' if all_of_them else 'N ='} {ks[0]} to {ks[-1]}"


def decide(
    comparison: Comparison, metric: str = "max@k", *, benchmark: str = "", alpha: float = ALPHA
) -> Decision:
    """Return which of two runs or more is best at every k; p is corrected for all pairs and k."""
    pairs = [
        paired_tests(comparison, metric, name, earlier, benchmark=benchmark)
        for earlier, name in itertools.combinations(comparison.names, 2)
    ]
    tests = with_adjusted_p([by_k[k] for k in comparison.ks for by_k in pairs], alpha)
    leaders = {}
    for k in comparison.ks:
        at_k = [test for test in tests if test.measure.k == k]
        ranked = comparison.ranked(metric, k)
        # A pair may have more problems in common than all have: none that a test has below another.
        best = next((name for name in ranked if not _others(at_k, name, "below")), ranked[0])
        beaten = _others(at_k, best, "above")
        leaders[k] = (best, *(name for name in ranked if name not in {best, *beaten}))
    return Decision(comparison, metric, alpha, leaders, tests)


def _others(tests: Sequence[PairedTest], name: str, mark: str) -> set[str]:
    """Return the models that one is above, or below, by these tests of each pair."""
    seen_from = [test.seen_from(name) for test in tests if name in (test.first, test.second)]
    return {test.second for test in seen_from if test.mark == mark}


def _listed_names(names: Sequence[str]) -> str:
    """Return names in a sentence, of many the first ones: the table of the page has all."""
    if len(names) <= _MOST_NAMES:
        return _listed(names)
    shown = names[: _MOST_NAMES - 1]
    return _listed([*shown, f"{len(names) - len(shown)} others"])


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
