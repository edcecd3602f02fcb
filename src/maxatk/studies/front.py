"""The front of a study: what each method reaches at (max@1, max@N) by its best rate and checkpoint.

A method is a level of the first axis; its models are those of every level of the other axes, such
as learning rates and checkpoints. A front that is chosen and reported on the same numbers is above
the truth: of many models the luckiest looks best. So each seed is left out once: the others choose,
and the values that are reported are those of the seed that was left out. Where the study has an
evaluation on other problems for the choice, the other seeds choose by that.

For a floor on max@1 the model of a method is the one with the highest max@N among those whose max@1
is at least the floor. A curve has these models for floors from that of the model before training up
to the highest max@1 of any. The best model for N is the one whose max@N is the highest.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from maxatk.report.comparison import BASE, Comparison
from maxatk.statistics.intervals import FloatArray
from maxatk.statistics.tests import (
    FEWEST_SEEDS,
    PairedDifference,
    adjusted_p_values,
    over_seeds,
    over_seeds_and_problems,
    paired_difference,
)

FLOORS = 9  # of max@1, from that of the model before training to the highest


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A mean over the seeds that were left out, with its 95% interval; None is no number."""

    k: int
    mean: float | None
    low: float | None
    high: float | None


@dataclasses.dataclass(frozen=True)
class Best:
    """A method at its best for the best of `aim` answers.

    `model` is the one that all seeds choose: to be trained for that N. `by_seed` are those that the
    other seeds choose for each seed, whose values the `estimates` of max@k have.
    """

    method: str
    aim: int
    model: str
    by_seed: tuple[str, ...]
    estimates: tuple[Estimate, ...]


@dataclasses.dataclass(frozen=True)
class CurvePoint:
    """A point of the curve of a method for N = `aim`: max@1 and max@N of the seeds left out."""

    method: str
    aim: int
    floor: float
    first: float
    best: float


@dataclasses.dataclass(frozen=True)
class Beyond:
    """The methods that are not rivals against the rivals, at one N and one floor of max@1.

    Each side chooses the best of all its models, and the rivals may choose the model before
    training. `model` and `rival` are what most seeds choose. The difference is in max@N; its
    `adjusted_p` is corrected over all floors and N (Benjamini-Hochberg).
    """

    aim: int
    floor: float
    model: str
    rival: str
    difference: float | None
    low: float | None
    high: float | None
    p: float
    adjusted_p: float


@dataclasses.dataclass(frozen=True)
class Front:
    """What every method reaches, and where the methods that are not `rivals` are beyond these."""

    rivals: tuple[str, ...]
    chosen_on: str
    best: tuple[Best, ...]
    curves: tuple[CurvePoint, ...]
    beyond: tuple[Beyond, ...]


def front_of(
    comparison: Comparison,
    methods: Mapping[str, str],
    *,
    rivals: Sequence[str],
    ks: Sequence[int],
    choice: Comparison | None = None,
) -> Front | None:
    """Return the front of the models of a study, or None where nothing can choose among them.

    `comparison` and `choice`, the evaluation on other problems, are those of `pooled_models`.
    `methods` maps the name of a trained model to its method. One seed alone chooses by `choice`.
    """
    models = _Models(comparison, methods, ks=[k for k in ks if k in comparison.ks], choice=choice)
    if not models.ks[1:] or (len(comparison.seeds) < 2 and choice is None):
        return None
    names = tuple(dict.fromkeys(methods.values()))
    floors = models.floors()
    sides = (
        [name for name, method in methods.items() if method not in rivals],
        [*models.untrained, *(name for name, method in methods.items() if method in rivals)],
    )
    return Front(
        rivals=tuple(rivals),
        chosen_on=_chosen_on(comparison, choice),
        best=tuple(models.best(method, aim) for method in names for aim in models.ks),
        curves=tuple(
            point
            for method in names
            for aim in models.ks[1:]
            for point in models.curve(method, aim, floors)
        ),
        beyond=_corrected([models.beyond(sides, a, f) for a in models.ks[1:] for f in floors]),
    )


def _chosen_on(comparison: Comparison, choice: Comparison | None) -> str:
    if choice is None:
        return "other seeds"
    return "other problems" if len(comparison.seeds) < 2 else "other problems and other seeds"


class _Models:
    """The values of all models of a study, and the choice among some of them."""

    def __init__(
        self,
        comparison: Comparison,
        methods: Mapping[str, str],
        *,
        ks: Sequence[int],
        choice: Comparison | None,
    ) -> None:
        self.ks = (1, *ks)
        self._methods = methods
        self._shared = comparison.shared
        self._seeds = range(len(comparison.seeds))
        self._names = comparison.names
        self.untrained = [name for name in self._names if name == BASE]
        # By model and seed: the values of every problem, (P, K), that are reported.
        self._values = {
            name: [part.run(name).values("max@k", self.ks) for part in comparison.seeds]
            for name in self._names
        }
        chosen_by = choice or comparison
        # By model: the means of every seed, (S, K), that choose.
        self._means = {
            name: np.array(
                [
                    np.nanmean(part.run(name).values("max@k", self.ks), axis=0)
                    for part in chosen_by.seeds
                ]
            )
            for name in self._names
        }

    def floors(self) -> list[float]:
        """Return the floors of max@1, ascending."""
        firsts = {name: means[:, 0].mean() for name, means in self._means.items()}
        lowest = min(firsts[name] for name in self.untrained or self._names)
        return [float(floor) for floor in np.linspace(lowest, max(firsts.values()), FLOORS)]

    def chosen(
        self, names: Sequence[str], aim: int, floor: float, *, without: int | None
    ) -> str | None:
        """Return the model with the highest max@aim among those with max@1 at least at the floor.

        The seed `without` has no part in the choice, unless it is the only one. None has no model.
        """
        seeds = [seed for seed in self._seeds if seed != without] or list(self._seeds)
        column = self.ks.index(aim)
        means = {name: self._means[name][seeds].mean(axis=0) for name in names}
        reached = [name for name in names if means[name][0] >= floor]
        return max(reached, key=lambda name: means[name][column], default=None)

    def _chosen_by_seed(self, names: Sequence[str], aim: int, floor: float) -> list[str] | None:
        """Return what the others choose for every seed, None where some choice has no model."""
        chosen = [self.chosen(names, aim, floor, without=seed) for seed in self._seeds]
        models = [name for name in chosen if name is not None]
        return models if len(models) == len(chosen) else None

    def _of_method(self, method: str) -> list[str]:
        return [name for name in self._names if self._methods.get(name) == method]

    def best(self, method: str, aim: int) -> Best:
        """Return a method at its best for one N."""
        names = self._of_method(method)
        by_seed = self._chosen_by_seed(names, aim, -np.inf)
        of_all = self.chosen(names, aim, -np.inf, without=None)
        assert by_seed is not None
        assert of_all is not None
        rows = [self._values[name][seed] for seed, name in enumerate(by_seed)]
        interval = self._interval(rows)
        estimates = tuple(
            Estimate(k, _known(interval.mean[i]), _known(interval.low[i]), _known(interval.high[i]))
            for i, k in enumerate(self.ks)
        )
        return Best(method, aim, of_all, tuple(by_seed), estimates)

    def curve(self, method: str, aim: int, floors: Sequence[float]) -> list[CurvePoint]:
        """Return the curve of a method for one N, a point for every floor that it reaches."""
        points = []
        column = self.ks.index(aim)
        for floor in floors:
            by_seed = self._chosen_by_seed(self._of_method(method), aim, floor)
            if by_seed is not None:
                rows = [self._values[name][seed] for seed, name in enumerate(by_seed)]
                means = np.mean([np.nanmean(of_seed, axis=0) for of_seed in rows], axis=0)
                points.append(CurvePoint(method, aim, floor, float(means[0]), float(means[column])))
        return points

    def beyond(
        self, sides: tuple[Sequence[str], Sequence[str]], aim: int, floor: float
    ) -> Beyond | None:
        """Return the difference of both sides at one N and floor, if both reach the floor."""
        ours, theirs = (self._chosen_by_seed(names, aim, floor) for names in sides)
        if ours is None or theirs is None:
            return None
        column = self.ks.index(aim)
        moved = [
            self._values[our][seed][:, [column]] - self._values[their][seed][:, [column]]
            for seed, (our, their) in enumerate(zip(ours, theirs, strict=True))
        ]
        test = self._interval(moved)
        return Beyond(
            aim=aim,
            floor=floor,
            model=Counter(ours).most_common(1)[0][0],
            rival=Counter(theirs).most_common(1)[0][0],
            difference=_known(test.mean[0]),
            low=_known(test.low[0]),
            high=_known(test.high[0]),
            p=float(test.p[0]),
            adjusted_p=float(test.p[0]),
        )

    def _interval(self, rows: Sequence[FloatArray]) -> PairedDifference:
        """Return the mean over seeds of (P, K) each, with the interval of this study."""
        if len(rows) >= FEWEST_SEEDS:
            return over_seeds_and_problems(np.array(rows)) if self._shared else over_seeds(rows)
        problems = np.mean(rows, axis=0) if self._shared else np.concatenate(rows)
        return paired_difference(problems, np.zeros_like(problems))


def _corrected(tests: Sequence[Beyond | None]) -> tuple[Beyond, ...]:
    there = [test for test in tests if test is not None]
    adjusted = adjusted_p_values([test.p for test in there])
    return tuple(
        dataclasses.replace(test, adjusted_p=p) for test, p in zip(there, adjusted, strict=True)
    )


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
