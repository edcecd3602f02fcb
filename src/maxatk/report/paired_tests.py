"""The test of one model against another at every k, paired over problems, or seeds and problems."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from maxatk.report.comparison import Comparison
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


def with_adjusted_p(tests: Sequence[PairedTest], alpha: float) -> tuple[PairedTest, ...]:
    """Return the tests of one list, each of which has a p, with their p corrected."""
    adjusted = paired.adjusted_p_values([test.p for test in tests if test.p is not None])
    return tuple(
        dataclasses.replace(test, adjusted_p=p, significant=p <= alpha)
        for test, p in zip(tests, adjusted, strict=True)
    )
