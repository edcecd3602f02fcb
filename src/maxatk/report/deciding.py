"""The test of one model against another, and its verdict: which model is best at which k.

A p-value is corrected for all models and all k that the runs have (Benjamini-Hochberg), whichever k
are shown: so a difference that is one in a table is one everywhere.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from maxatk.report.runs import ALPHA, SPEAKS_OF, Comparison, metric_name
from maxatk.statistics.intervals import FloatArray, mean_and_error
from maxatk.statistics.seeds import over_seeds, over_seeds_and_problems, sign_flip_p
from maxatk.statistics.tests import PairedDifference, adjusted_p_values, paired_difference


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
    it is over problems otherwise. The test raises InvalidValueError for the name of no run.
    """
    ks = comparison.ks

    @functools.cache
    def at_every_k(first: str, second: str) -> list[PairedTest]:
        moved = comparison.moved(first, second, metric, ks)
        found, prompts = _differences(comparison, moved)
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

    `against_best` has every other model against the one with the highest mean at each k,
    `against_baseline` every other model against the baseline; the two lists are corrected
    separately, at the level `alpha`, for the test of that name, which speaks of `speaks_of`.
    `leaders` maps a k to the models that are best there: the one with the highest mean first, then
    those that the test does not tell from it, by their means.
    """

    metric: str
    baseline: str
    test: str
    speaks_of: str
    alpha: float
    leaders: Mapping[int, tuple[str, ...]]
    against_best: tuple[PairedTest, ...]
    against_baseline: tuple[PairedTest, ...]

    @property
    def ks(self) -> list[int]:
        """The k that were decided about, ascending."""
        return list(self.leaders)


def decide(
    comparison: Comparison, metric: str = "max@k", *, benchmark: str = "", alpha: float = ALPHA
) -> Decision:
    """Return which model is best at every k, of two runs or more."""
    test = paired_tests(comparison, metric, benchmark=benchmark)
    ranked = {k: [run.name for run in comparison.ranked(metric, k)] for k in comparison.ks}
    base, others = comparison.baseline.name, [run.name for run in comparison.others]
    against_best = corrected(
        [test(best, other, k) for k, (best, *rest) in ranked.items() for other in rest], alpha
    )
    below = {(found.measure.k, found.second) for found in against_best if found.mark == "above"}
    return Decision(
        metric=metric,
        baseline=base,
        test=comparison.test_name,
        speaks_of=SPEAKS_OF[comparison.over],
        alpha=alpha,
        leaders={
            k: tuple(name for name in names if (k, name) not in below)
            for k, names in ranked.items()
        },
        against_best=against_best,
        against_baseline=corrected(
            [test(other, base, k) for k in comparison.ks for other in others], alpha
        ),
    )


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
