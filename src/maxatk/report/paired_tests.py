"""The test of one model against another at every k, paired over problems, or seeds and problems."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from maxatk.errors import InvalidValueError
from maxatk.report.comparison import Comparison, Run
from maxatk.statistics import significance as paired
from maxatk.statistics.intervals import (
    FloatArray,
    in_unit,
    mean_and_error,
    none_for_nan,
    within,
)


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
    it is over problems otherwise. Intervals are cut at -1 and 1 where all values, and the rewards,
    lie in [0, 1].
    Raises InvalidValueError for the name of no run, and for pass@k from different thresholds.
    """
    if metric == "pass@k":
        _refuse_other_threshold(comparison.run(first), comparison.run(second))
    ks = comparison.ks
    parts = comparison.seeds or (comparison,)
    first_values = [part.run(first).values(metric, ks) for part in parts]  # (P, K) of every seed
    second_values = [part.run(second).values(metric, ks) for part in parts]
    differences = [a - b for a, b in zip(first_values, second_values, strict=True)]
    numbers = [*first_values, *second_values]
    if metric != "pass@k":  # whose values are chances, whatever the rewards are
        runs = (comparison.run(first), comparison.run(second))
        numbers += [np.array(run.results.per_problem.extremes) for run in runs]
    most = 1.0 if all(map(in_unit, numbers)) else math.inf
    test, over_problems = _tests_of(comparison, differences)
    test = within(test, -most, most)
    over_problems = within(over_problems, -most, most)
    means: list[FloatArray] = []  # of every seed
    if comparison.seeds:
        means = [mean_and_error(of_seed)[0] for of_seed in differences]
    return {
        k: PairedTest(
            measure=Measure(benchmark, metric, k),
            first=first,
            second=second,
            difference=none_for_nan(test.mean[column]),
            low=none_for_nan(test.low[column]),
            high=none_for_nan(test.high[column]),
            problems=int(test.problems[column]),
            zeros=int(test.zeros[column]),
            p=float(test.p[column]),
            by_seed=tuple(none_for_nan(mean[column]) for mean in means),
            prompts_low=none_for_nan(over_problems.low[column]) if means else None,
            prompts_high=none_for_nan(over_problems.high[column]) if means else None,
        )
        for column, k in enumerate(ks)
    }


def _refuse_other_threshold(first: Run, second: Run) -> None:
    if first.results.passes_from != second.results.passes_from:
        raise InvalidValueError(
            f"results: a sample of {first.name!r} passes from the reward "
            f"{first.results.passes_from:g} on, one of {second.name!r} from "
            f"{second.results.passes_from:g}, so a difference of pass@k may be the threshold's; "
            "name one --threshold for all"
        )


def _tests_of(
    comparison: Comparison, differences: Sequence[FloatArray]
) -> tuple[paired.PairedDifference, paired.PairedDifference]:
    """Return the test of differences, (P, K) of every seed, and that over problems alone.

    The second speaks of these very trainings: of a problem that seeds share, it has the mean.
    """
    if comparison.shared:
        table = np.array(differences)  # (S, P, K)
        by_problem = mean_and_error(table.reshape(len(table), -1))[0].reshape(table.shape[1:])
    else:
        by_problem = np.concatenate(differences)
    over_problems = paired.paired_difference(by_problem, np.zeros_like(by_problem))
    if comparison.over == "problems":
        return over_problems, over_problems
    if comparison.shared:
        return paired.over_seeds_and_problems(table), over_problems
    return paired.over_seeds(differences), over_problems


def with_adjusted_p(tests: Sequence[PairedTest], alpha: float) -> tuple[PairedTest, ...]:
    """Return the tests of one list, each of which has a p, with their p corrected."""
    adjusted = paired.adjusted_p_values([test.p for test in tests if test.p is not None])
    return tuple(
        dataclasses.replace(test, adjusted_p=p, significant=p <= alpha)
        for test, p in zip(tests, adjusted, strict=True)
    )
