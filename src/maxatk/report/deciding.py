"""Which model is best at which k: the one verdict of the page and of `compare`.

The test is that of `Comparison.differences`. A p-value is corrected for all models and all k that
the runs have (Benjamini-Hochberg), whichever k are shown: so a difference that is one in a table is
one everywhere.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from maxatk.evaluation.statistics.significance import adjusted_p_values, wilcoxon
from maxatk.report.runs import Comparison, Run, metric_name

ALPHA = 0.05
Value = TypeVar("Value")


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
    most the level asked for. `wilcoxon_p` is that of the paper's test, which decides nothing here.
    """

    measure: Measure
    first: str
    second: str
    difference: float
    low: float
    high: float
    problems: int
    zeros: int
    p: float
    adjusted_p: float
    significant: bool
    wilcoxon_p: float


@dataclasses.dataclass(frozen=True)
class Decision:
    """The verdict on one metric.

    `against_best` has every other model against the one with the highest mean at each k,
    `against_baseline` every other model against the baseline; the two lists are corrected
    separately, at the level `alpha`, for the test of that name. `leaders` maps a k to the models
    that are best there: the one with the highest mean first, then those that the test does not tell
    from it, by their means.
    """

    metric: str
    baseline: str
    test: str
    alpha: float
    leaders: Mapping[int, tuple[str, ...]]
    against_best: tuple[PairedTest, ...]
    against_baseline: tuple[PairedTest, ...]

    @property
    def ks(self) -> list[int]:
        """The k that were decided about, ascending."""
        return list(self.leaders)

    def direction(self, name: str, k: int) -> int:
        """Return 1 where the test has a model above the baseline at k, -1 where below, else 0."""
        for test in self.against_baseline:
            if (test.first, test.measure.k) == (name, k) and test.significant:
                return 1 if test.difference > 0 else -1
        return 0


def decide(
    comparison: Comparison, metric: str = "max@k", *, benchmark: str = "", alpha: float = ALPHA
) -> Decision:
    """Return which model is best at every k, of two runs or more.

    Raises MissingDependencyError without SciPy.
    """
    ranked = {k: comparison.ranked(metric, k) for k in comparison.ks}
    best = [(k, order[0], other) for k, order in ranked.items() for other in order[1:]]
    base = [(k, run, comparison.baseline) for k in comparison.ks for run in comparison.others]
    tests = _tester(comparison, metric, benchmark, [*best, *base])
    against_best = _corrected([tests(*entry) for entry in best], alpha)
    below = {(test.measure.k, test.second) for test in against_best if _above(test)}
    return Decision(
        metric=metric,
        baseline=comparison.baseline.name,
        test=comparison.test_name,
        alpha=alpha,
        leaders={
            k: tuple(run.name for run in order if (k, run.name) not in below)
            for k, order in ranked.items()
        },
        against_best=against_best,
        against_baseline=_corrected([tests(*entry) for entry in base], alpha),
    )


def sentences(decision: Decision) -> list[str]:
    """Return the verdict in words: which model for which N, then each against the baseline."""
    lines = []
    for names, ks in _segments(decision.ks, lambda k: frozenset(decision.leaders[k])):
        shown = sorted(names, key=decision.leaders[ks[0]].index)
        if len(shown) == 1:
            lines.append(f"{_span(ks, decision.ks)}: {shown[0]}.")
        else:
            lines.append(
                f"{_span(ks, decision.ks)}: {_listed(shown)}, which the test does not tell apart."
            )
    others = dict.fromkeys(test.first for test in decision.against_baseline)
    return [*lines, *(_against(decision, name) for name in others)]


def _above(test: PairedTest) -> bool:
    return test.significant and test.difference > 0


def _against(decision: Decision, name: str) -> str:
    said = {1: "above", 0: "not told apart from", -1: "below"}
    parts: list[str] = []
    for direction, ks in _segments(decision.ks, lambda k: decision.direction(name, k)):
        base = decision.baseline if not parts or direction == 0 else "it"
        parts.append(f"{said[direction]} {base} {_span(ks, decision.ks, start='for')}")
    return f"{name} is {_listed(parts)}."


def _span(ks: Sequence[int], known: Sequence[int], *, start: str = "For") -> str:
    """Return `For N = 2 to 8`; `For every N from 1 to 8` where these are all that are known."""
    if len(ks) == 1:
        return f"{start} N = {ks[0]}"
    which = "every N from" if len(ks) == len(known) else "N ="
    return f"{start} {which} {ks[0]} to {ks[-1]}"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _segments(ks: Iterable[int], key: Callable[[int], Value]) -> list[tuple[Value, list[int]]]:
    return [(value, list(found)) for value, found in itertools.groupby(ks, key)]


def _tester(
    comparison: Comparison,
    metric: str,
    benchmark: str,
    entries: Sequence[tuple[int, Run, Run]],
) -> Callable[[int, Run, Run], PairedTest]:
    """Return a function that tests one run against another at a k, of the entries given."""
    pairs = {(first.name, second.name): (first, second) for _, first, second in entries}
    found = dict(
        zip(
            pairs,
            comparison.differences(list(pairs.values()), metric, comparison.ks),
            strict=True,
        )
    )

    def test(k: int, first: Run, second: Run) -> PairedTest:
        at, pair = comparison.ks.index(k), found[first.name, second.name]
        p = float(pair.p[at])
        return PairedTest(
            measure=Measure(benchmark, metric, k),
            first=first.name,
            second=second.name,
            difference=float(pair.mean[at]),
            low=float(pair.low[at]),
            high=float(pair.high[at]),
            problems=int(pair.problems[at]),
            zeros=int(pair.zeros[at]),
            p=p,
            adjusted_p=p,
            significant=False,
            wilcoxon_p=wilcoxon(*(run.values(metric, [k])[:, 0] for run in (first, second))).p,
        )

    return test


def _corrected(tests: Sequence[PairedTest], alpha: float) -> tuple[PairedTest, ...]:
    adjusted = adjusted_p_values([test.p for test in tests])
    return tuple(
        dataclasses.replace(test, adjusted_p=p, significant=p <= alpha)
        for test, p in zip(tests, adjusted, strict=True)
    )
