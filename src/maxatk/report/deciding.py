"""The test of one model against another, and its verdict: which model is best at which k."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from maxatk.report.runs import ALPHA, Comparison
from maxatk.report.tables import mean_cell
from maxatk.statistics import tests as paired
from maxatk.statistics.intervals import FloatArray, in_unit, mean_and_error, within


@dataclasses.dataclass(frozen=True)
class Measure:
    """One metric at one k on one benchmark, which is "" where there is only one."""

    benchmark: str
    metric: str
    k: int

    @property
    def name(self) -> str:
        """The heading, such as `mbpp max@128`."""
        return f"{self.benchmark} {self.metric.replace('@k', f'@{self.k}')}".strip()


@dataclasses.dataclass(frozen=True)
class PairedTest:
    """One model against another in one measure. None is a number that does not exist.

    `difference` is the mean of first - second, `low` and `high` its paired 95% interval; `zeros` of
    the `problems` have equal values. `adjusted_p` is corrected over all tests of a list. `by_seed`
    are the differences of single training seeds, if there are some; the interval from `prompts_low`
    to `prompts_high`, over the problems of all of them, then speaks of these very trainings.
    `wilcoxon_p` is of the paper's test: it decides nothing here.
    """

    measure: Measure
    first: str
    second: str
    difference: float | None
    low: float | None
    high: float | None
    problems: int
    zeros: int | None
    p: float | None
    adjusted_p: float | None = None
    significant: bool = False
    by_seed: tuple[float | None, ...] = ()
    prompts_low: float | None = None
    prompts_high: float | None = None
    wilcoxon_p: float | None = None

    @property
    def mark(self) -> str:
        """Where the test has the first model: "above" or "below" the second, else ""."""
        if not self.significant or self.difference is None:
            return ""
        return "above" if self.difference > 0 else "below"

    def seen_from(self, first: str) -> PairedTest:
        """Return the test with this one of its two models, if it is one, as the first."""
        if first != self.second:
            return self
        return dataclasses.replace(
            self,
            first=self.second,
            second=self.first,
            difference=_negative(self.difference),
            low=_negative(self.high),
            high=_negative(self.low),
            by_seed=tuple(map(_negative, self.by_seed)),
            prompts_low=_negative(self.prompts_high),
            prompts_high=_negative(self.prompts_low),
        )

    @property
    def above(self) -> int:
        """The number of seeds in which the first model is above the second."""
        return sum(moved is not None and moved > 0 for moved in self.by_seed)

    @property
    def sign_flip_p(self) -> float | None:
        """The exact p of flipping the signs of the seeds."""
        return paired.sign_flip_p([math.nan if moved is None else moved for moved in self.by_seed])


def _negative(value: float | None) -> float | None:
    return None if value is None else -value


def paired_tests(
    comparison: Comparison, metric: str, first: str, second: str, *, benchmark: str = ""
) -> dict[int, PairedTest]:
    """Return the test of one run against another at every k, not yet corrected for being of many.

    From three training seeds on the test is over them, crossed with the problems that they share;
    it is over problems otherwise. Intervals are cut at -1 and 1 where all values lie in [0, 1].
    Raises InvalidValueError for the name of no run.
    """
    ks = comparison.ks
    values = [
        [part.run(name).values(metric, ks) for name in (first, second)]
        for part in comparison.seeds or (comparison,)
    ]
    moved = [one - other for one, other in values]
    most = 1.0 if all(in_unit(one) for pair in values for one in pair) else math.inf
    found, prompts = (within(one, -most, most) for one in _differences(comparison, moved))
    means = [mean_and_error(of_seed)[0] for of_seed in moved] if comparison.seeds else []
    return {
        k: PairedTest(
            measure=Measure(benchmark, metric, k),
            first=first,
            second=second,
            difference=_known(found.mean[at]),
            low=_known(found.low[at]),
            high=_known(found.high[at]),
            problems=int(found.problems[at]),
            zeros=int(found.zeros[at]),
            p=float(found.p[at]),
            by_seed=tuple(_known(mean[at]) for mean in means),
            prompts_low=_known(prompts.low[at]) if means else None,
            prompts_high=_known(prompts.high[at]) if means else None,
        )
        for at, k in enumerate(ks)
    }


def _differences(
    comparison: Comparison, moved: Sequence[FloatArray]
) -> tuple[paired.PairedDifference, paired.PairedDifference]:
    """Return the test of differences, (P, K) of every seed, and that over problems alone."""
    if comparison.shared:
        table = np.array(moved)
        rows = mean_and_error(table.reshape(len(table), -1))[0].reshape(table.shape[1:])
    else:
        table, rows = np.empty(0), np.concatenate(moved)
    prompts = paired.paired_difference(rows, np.zeros_like(rows))
    if comparison.over == "problems":
        return prompts, prompts
    if comparison.shared:
        return paired.over_seeds_and_problems(table), prompts
    return paired.over_seeds(moved), prompts


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def corrected(tests: Sequence[PairedTest], alpha: float) -> tuple[PairedTest, ...]:
    """Return the tests of one list, each of which has a p, with their p corrected."""
    adjusted = paired.adjusted_p_values([test.p for test in tests if test.p is not None])
    return tuple(
        dataclasses.replace(test, adjusted_p=p, significant=p <= alpha)
        for test, p in zip(tests, adjusted, strict=True)
    )


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
    tests = corrected([by_k[k] for k in comparison.ks for by_k in pairs], alpha)
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
