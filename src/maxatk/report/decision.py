"""The test of one model against another, and its verdict: which model is best at which k."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from maxatk.report.comparison import ALPHA, Comparison
from maxatk.report.paired_tests import PairedTest, paired_tests, with_adjusted_p
from maxatk.report.tables import mean_cell


@dataclasses.dataclass(frozen=True)
class Decision:
    """The verdict on one metric of a comparison.

    `tests` has every model against every earlier one at each k, corrected together. `leaders` maps
    a k to the model with the highest mean, and those that the test does not tell from it.
    """

    comparison: Comparison
    metric: str
    alpha: float
    leaders: Mapping[int, tuple[str, ...]]
    tests: tuple[PairedTest, ...]

    @property
    def against_best(self) -> list[PairedTest]:
        """The one with the highest mean against every other model, at each k."""
        best = ((self.leaders[test.measure.k][0], test) for test in self.tests)
        return [t.seen_from(name) for name, t in best if name in (t.first, t.second)]

    @property
    def against_baseline(self) -> list[PairedTest]:
        """Every other model against the baseline, at each k."""
        return [test for test in self.tests if test.second == self.comparison.baseline.name]

    def advice(self, k: int) -> str:
        """Return the verdict at one k as one sends it to a colleague, in a sentence or two."""
        (best, *tied), other = self.leaders[k], self.comparison.baseline.name
        if other == best:
            other = self.comparison.ranked(self.metric, k)[1]
        runs = [self.comparison.run(name) for name in (best, other)]
        cells = [mean_cell(run.metric(self.metric, k)) for run in runs]
        first, second = (f"{cell.text} {cell.detail}" for cell in cells)
        start = f"{best} is not told apart from {other}" if other in tied else f"take {best}"
        many, one = f"its best of {k} is worth", "its answer is worth"
        if self.metric == "pass@k":
            many, one = f"one of {k} passes with a chance of", "it passes with a chance of"
        others = [name for name in tied if name != other]
        last = f" The test does not tell it from {_listed(others)}." if others else ""
        worth = many if k > 1 else one
        return f"For N = {k} {start}: {worth} {first} against {second} of {other}.{last}"

    @property
    def sentences(self) -> list[str]:
        """The verdict in words: which model for which N, then each against the baseline."""
        lines, known = [], self.comparison.ks
        baseline, *others = self.comparison.names
        for names, found in itertools.groupby(known, lambda k: frozenset(self.leaders[k])):
            ks = list(found)
            shown = sorted(names, key=self.leaders[ks[0]].index)
            apart = "" if len(shown) == 1 else ", which the test does not tell apart"
            lines.append(f"{_span(ks, known, start='For')}: {_listed(shown)}{apart}.")
        for name in others:
            parts: list[str] = []
            tests = [test for test in self.against_baseline if test.first == name]
            for mark, same in itertools.groupby(tests, lambda test: test.mark):
                base = baseline if not parts or not mark else "it"
                span = _span([test.measure.k for test in same], known, start="for")
                parts.append(f"{mark or 'not told apart from'} {base} {span}")
            lines.append(f"{name} is {_listed(parts)}.")
        return lines


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
        best, *rest = comparison.ranked(metric, k)
        seen = [t.seen_from(best) for t in tests if t.measure.k == k]
        beaten = {t.second for t in seen if t.first == best and t.mark == "above"}
        leaders[k] = (best, *(name for name in rest if name not in beaten))
    return Decision(comparison, metric, alpha, leaders, tests)


def _span(ks: Sequence[int], known: Sequence[int], *, start: str) -> str:
    """Return `For N = 2 to 8`; `For every N from 1 to 8` where these are all that are known."""
    if len(ks) == 1:
        return f"{start} N = {ks[0]}"
    which = "every N from" if len(ks) == len(known) else "N ="
    return f"{start} {which} {ks[0]} to {ks[-1]}"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
