"""The test of one model against another, and its verdict: which model is best at which k.

A p-value is corrected for all pairs of models and all k that the runs have (Benjamini-Hochberg),
whichever are shown: so a difference that is one in a table is one everywhere.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from maxatk.report.runs import ALPHA, SPEAKS_OF, Comparison, metric_name
from maxatk.report.tables import interval, share
from maxatk.statistics.intervals import FloatArray, in_unit, mean_and_error, within
from maxatk.statistics.seeds import over_seeds, over_seeds_and_problems, sign_flip_p
from maxatk.statistics.tests import PairedDifference, adjusted_p_values, paired_difference

_TURNED = {
    "difference": "difference",
    **{"low": "high", "high": "low"},
    **{"prompts_low": "prompts_high", "prompts_high": "prompts_low"},
}
"""The numbers of a test, and those whose negatives they are with the models changed over."""


@dataclasses.dataclass(frozen=True)
class Measure:
    """One metric at one k on one benchmark, which is "" where there is only one."""

    benchmark: str
    metric: str
    k: int

    @property
    def name(self) -> str:
        """Return the heading, such as `mbpp max@128`."""
        return f"{self.benchmark} {metric_name(self.metric, self.k)}".strip()


@dataclasses.dataclass(frozen=True)
class PairedTest:
    """One model against another in one measure.

    `difference` is the mean of first - second, `low` and `high` its paired 95% interval; `zeros` of
    the `problems` have equal values. `p` is that of the test which the interval goes with,
    `adjusted_p` is corrected over all tests of its list, and `significant` says whether it is at
    most the level asked for. All of these speak of what `SPEAKS_OF` has for the comparison.

    `by_seed` are the differences of single training seeds, where there are some. `prompts_low` and
    `prompts_high` are then the ends of the interval over the problems of all of them: it speaks of
    other problems and these very trainings, and is too narrow for others. `wilcoxon_p` is that of
    the paper's test, which decides nothing here. None is a number that does not exist.
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
        """Return the test with this one of its two models as the first."""
        if first == self.first:
            return self
        moved: dict[str, Any] = {name: getattr(self, turned) for name, turned in _TURNED.items()}
        moved = {name: None if value is None else -value for name, value in moved.items()}
        return dataclasses.replace(
            self,
            first=self.second,
            second=self.first,
            by_seed=tuple(None if one is None else -one for one in self.by_seed),
            **moved,
        )

    @property
    def above(self) -> int:
        """The number of seeds in which the first model is above the second."""
        return sum(moved is not None and moved > 0 for moved in self.by_seed)

    @property
    def sign_flip_p(self) -> float | None:
        """The exact p of flipping the signs of the seeds."""
        return sign_flip_p([math.nan if moved is None else moved for moved in self.by_seed])


def paired_tests(
    comparison: Comparison, metric: str, *, benchmark: str = ""
) -> Callable[[str, str, int], PairedTest]:
    """Return what tests one run against another at a k, not yet corrected for being one of many.

    From three training seeds on the test is over them, crossed with the problems that they share;
    it is over problems otherwise. Intervals are cut at -1 and 1 where all values lie in [0, 1]. The
    test raises InvalidValueError for the name of no run.
    """
    ks = comparison.ks
    known = np.concatenate([run.values(metric, ks) for run in comparison.runs])
    most = 1.0 if in_unit(known) else math.inf

    @functools.cache
    def at_every_k(first: str, second: str) -> list[PairedTest]:
        moved = comparison.moved(first, second, metric, ks)
        found, prompts = (within(one, -most, most) for one in _differences(comparison, moved))
        means = [mean_and_error(of_seed)[0] for of_seed in moved] if comparison.seeds else []
        return [
            PairedTest(
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
        ]

    return lambda first, second, k: at_every_k(first, second)[ks.index(k)]


def _differences(
    comparison: Comparison, moved: Sequence[FloatArray]
) -> tuple[PairedDifference, PairedDifference]:
    """Return the test of differences, (P, K) of every seed, and that over problems alone."""
    if comparison.shared:
        table = np.array(moved)
        rows = mean_and_error(table.reshape(len(table), -1))[0].reshape(table.shape[1:])
    else:
        table, rows = np.empty(0), np.concatenate(moved)
    prompts = paired_difference(rows, np.zeros_like(rows))
    if comparison.over == "problems":
        return prompts, prompts
    return (over_seeds_and_problems(table) if comparison.shared else over_seeds(moved)), prompts


def corrected(tests: Sequence[PairedTest], alpha: float) -> tuple[PairedTest, ...]:
    """Return the tests of one list with their p corrected, significant at the level `alpha`.

    Tests without a p are never significant.
    """
    adjusted = iter(adjusted_p_values([test.p for test in tests if test.p is not None]))
    found = []
    for test in tests:
        p = None if test.p is None else next(adjusted)
        significant = p is not None and p <= alpha
        found.append(dataclasses.replace(test, adjusted_p=p, significant=significant))
    return tuple(found)


@dataclasses.dataclass(frozen=True)
class Decision:
    """The verdict on one metric.

    `tests` has every model against every earlier one, the baseline first, at each k; they are
    corrected together, at the level `alpha`, for the test of that name, which speaks of
    `speaks_of`. `leaders` maps a k to the models that are best there: the one with the highest mean
    first, then those that the test does not tell from it, by their means.
    """

    metric: str
    baseline: str
    test: str
    speaks_of: str
    alpha: float
    leaders: Mapping[int, tuple[str, ...]]
    tests: tuple[PairedTest, ...]

    @property
    def ks(self) -> list[int]:
        """The k that were decided about, ascending."""
        return list(self.leaders)

    @property
    def against_best(self) -> list[PairedTest]:
        """The one with the highest mean against every other model, at each k."""
        best = [(self.leaders[test.measure.k][0], test) for test in self.tests]
        return [t.seen_from(name) for name, t in best if name in (t.first, t.second)]

    @property
    def against_baseline(self) -> list[PairedTest]:
        """Every other model against the baseline, at each k."""
        return [test for test in self.tests if test.second == self.baseline]


def decide(
    comparison: Comparison, metric: str = "max@k", *, benchmark: str = "", alpha: float = ALPHA
) -> Decision:
    """Return which model is best at every k, of two runs or more."""
    test = paired_tests(comparison, metric, benchmark=benchmark)
    pairs = list(itertools.combinations(comparison.names, 2))
    tests = corrected([test(b, a, k) for k in comparison.ks for a, b in pairs], alpha)
    of = {(t.measure.k, frozenset((t.first, t.second))): t for t in tests}
    leaders = {}
    for k in comparison.ks:
        best, *rest = [run.name for run in comparison.ranked(metric, k)]
        marks = {name: of[k, frozenset((best, name))].seen_from(best).mark for name in rest}
        leaders[k] = (best, *(name for name in rest if marks[name] != "above"))
    return Decision(
        metric=metric,
        baseline=comparison.baseline.name,
        test=comparison.test_name,
        speaks_of=SPEAKS_OF[comparison.over],
        alpha=alpha,
        leaders=leaders,
        tests=tests,
    )


def advice(decision: Decision, comparison: Comparison, k: int) -> str:
    """Return the verdict at one k as one sends it to a colleague, in a sentence or two.

    The best model stands beside the baseline, or beside the second best where it is the baseline.
    """
    best, *tied = decision.leaders[k]
    ranked = [run.name for run in comparison.ranked(decision.metric, k)]
    other = decision.baseline if best != decision.baseline else ranked[1]
    first, second = (
        f"{share(found.mean)} {interval(found.low, found.high)}"
        for found in (comparison.run(name).metric(decision.metric, k) for name in (best, other))
    )
    start = f"For N = {k} " + (
        f"{best} is not told apart from {other}" if other in tied else f"take {best}"
    )
    if decision.metric == "pass@k":
        worth = f"one of {k} passes with a chance of" if k > 1 else "it passes with a chance of"
    else:
        worth = f"its best of {k} is worth" if k > 1 else "its answer is worth"
    others = [name for name in tied if name != other]
    last = f" The test does not tell it from {_listed(others)}." if others else ""
    return f"{start}: {worth} {first} against {second} of {other}.{last}"


def sentences(decision: Decision) -> list[str]:
    """Return the verdict in words: which model for which N, then each against the baseline."""
    lines = []
    for names, found in itertools.groupby(decision.ks, lambda k: frozenset(decision.leaders[k])):
        ks = list(found)
        shown = sorted(names, key=decision.leaders[ks[0]].index)
        apart = "" if len(shown) == 1 else ", which the test does not tell apart"
        lines.append(f"{_span(ks, decision.ks)}: {_listed(shown)}{apart}.")
    others = dict.fromkeys(test.first for test in decision.against_baseline)
    return [*lines, *(_against(decision, name) for name in others)]


def _against(decision: Decision, name: str) -> str:
    parts: list[str] = []
    tests = [test for test in decision.against_baseline if test.first == name]
    for mark, found in itertools.groupby(tests, lambda test: test.mark):
        base = decision.baseline if not parts or not mark else "it"
        span = _span([test.measure.k for test in found], decision.ks, start="for")
        parts.append(f"{mark or 'not told apart from'} {base} {span}")
    return f"{name} is {_listed(parts)}."


def _span(ks: Sequence[int], known: Sequence[int], *, start: str = "For") -> str:
    """Return `For N = 2 to 8`; `For every N from 1 to 8` where these are all that are known."""
    if len(ks) == 1:
        return f"{start} N = {ks[0]}"
    which = "every N from" if len(ks) == len(known) else "N ="
    return f"{start} {which} {ks[0]} to {ks[-1]}"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
