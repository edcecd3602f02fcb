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
from maxatk.statistics.intervals import FloatArray, in_unit, within
from maxatk.statistics.tests import (
    FEWEST_SEEDS,
    PairedDifference,
    adjusted_p_values,
    over_seeds,
    over_seeds_and_problems,
    paired_difference,
)

FLOORS = 9  # of max@1, from that of the model before training to the highest
_NO_FLOOR = -np.inf


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
    training. `model` and `rival` are what most seeds choose, `first` and `rival_first` the max@1 of
    the seeds left out, which may lie below the floor. The difference is in max@N; its `adjusted_p`
    is corrected over all floors and N (Benjamini-Hochberg).
    """

    aim: int
    floor: float
    model: str
    rival: str
    first: float
    rival_first: float
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
    chosen_by = comparison if choice is None else choice
    shared_ks = [k for k in ks if k in comparison.ks and k in chosen_by.ks]
    if not shared_ks or (len(comparison.seeds) < 2 and choice is None):
        return None
    models = _Models(comparison, chosen_by, ks=(1, *shared_ks))
    of_method: dict[str, list[str]] = {}
    for name, method in methods.items():
        of_method.setdefault(method, []).append(name)
    ours = [name for name, method in methods.items() if method not in rivals]
    theirs = [name for name, method in methods.items() if method in rivals]
    # The rivals may also leave the model as it is, which is the best of many at the lowest floors.
    theirs += models.untrained
    floors = models.floors()
    best = []
    curves = []
    for method, names in of_method.items():
        best += [models.best(method, names, aim) for aim in models.ks]
        for aim in shared_ks:
            curves += models.curve(method, names, aim, floors)
    tests = [models.beyond(ours, theirs, aim, floor) for aim in shared_ks for floor in floors]
    return Front(
        rivals=tuple(rivals),
        chosen_on=_chosen_on(comparison, choice),
        best=tuple(best),
        curves=tuple(curves),
        beyond=_corrected(tests),
    )


def _chosen_on(comparison: Comparison, choice: Comparison | None) -> str:
    if choice is None:
        return "other seeds"
    return "other problems" if len(comparison.seeds) < 2 else "other problems and other seeds"


class _Models:
    """The values of all models of a study, and the choice among some of them."""

    def __init__(
        self, comparison: Comparison, chosen_by: Comparison, *, ks: tuple[int, ...]
    ) -> None:
        self.ks = ks
        self.untrained = [name for name in comparison.names if name == BASE]
        self._shared = comparison.shared
        self._seeds = range(len(comparison.seeds))
        # By model and seed: the values of every problem, (P, K), that are reported.
        self._values = {
            name: [part.run(name).values("max@k", ks) for part in comparison.seeds]
            for name in comparison.names
        }
        # By model: the means of every seed, (S, K), that choose.
        self._means: dict[str, FloatArray] = {}
        for name in comparison.names:
            by_seed = [part.run(name).values("max@k", ks) for part in chosen_by.seeds]
            self._means[name] = np.array([np.nanmean(values, axis=0) for values in by_seed])

    def floors(self) -> list[float]:
        """Return the floors of max@1, ascending."""
        firsts = {name: means[:, 0].mean() for name, means in self._means.items()}
        lowest = min(firsts[name] for name in self.untrained or firsts)
        return [float(floor) for floor in np.linspace(lowest, max(firsts.values()), FLOORS)]

    def best(self, method: str, names: Sequence[str], aim: int) -> Best:
        """Return a method, whose models are `names`, at its best for one N."""
        chosen = self._chosen(names, aim, _NO_FLOOR, self._seeds)
        by_seed = self._chosen_by_seed(names, aim, _NO_FLOOR)
        assert chosen is not None
        assert by_seed is not None
        held_out = self._held_out(by_seed)
        interval = self._interval(held_out)
        if all(in_unit(values) for values in held_out):
            interval = within(interval, 0.0, 1.0)
        estimates = []
        for column, k in enumerate(self.ks):
            ends = (interval.mean[column], interval.low[column], interval.high[column])
            estimates.append(Estimate(k, *map(_known, ends)))
        return Best(method, aim, chosen, tuple(by_seed), tuple(estimates))

    def curve(
        self, method: str, names: Sequence[str], aim: int, floors: Sequence[float]
    ) -> list[CurvePoint]:
        """Return the curve of a method for one N, a point for every floor that it reaches."""
        points = []
        for floor in floors:
            by_seed = self._chosen_by_seed(names, aim, floor)
            if by_seed is not None:
                first = self._mean(by_seed, 1)
                points.append(CurvePoint(method, aim, floor, first, self._mean(by_seed, aim)))
        return points

    def beyond(
        self, ours: Sequence[str], theirs: Sequence[str], aim: int, floor: float
    ) -> Beyond | None:
        """Return the difference of two sides at one N and floor, if both reach the floor."""
        our_models = self._chosen_by_seed(ours, aim, floor)
        their_models = self._chosen_by_seed(theirs, aim, floor)
        if our_models is None or their_models is None:
            return None
        column = self.ks.index(aim)
        pairs = zip(self._held_out(our_models), self._held_out(their_models), strict=True)
        test = self._interval([(our - their)[:, [column]] for our, their in pairs])
        return Beyond(
            aim=aim,
            floor=floor,
            model=_commonest(our_models),
            rival=_commonest(their_models),
            first=self._mean(our_models, 1),
            rival_first=self._mean(their_models, 1),
            difference=_known(test.mean[0]),
            low=_known(test.low[0]),
            high=_known(test.high[0]),
            p=float(test.p[0]),
            adjusted_p=float(test.p[0]),
        )

    def _chosen(
        self, names: Sequence[str], aim: int, floor: float, seeds: Sequence[int]
    ) -> str | None:
        """Return what some seeds choose: of the models with max@1 at the floor or above it the one
        with the highest max@aim. None reaches the floor: None.
        """
        column = self.ks.index(aim)
        means = {name: self._means[name][list(seeds)].mean(axis=0) for name in names}
        reached = [name for name in names if means[name][0] >= floor]
        return max(reached, key=lambda name: means[name][column], default=None)

    def _chosen_by_seed(self, names: Sequence[str], aim: int, floor: float) -> list[str] | None:
        """Return what the others choose for every seed, None where some of them have no model."""
        models = []
        for left_out in self._seeds:
            others = [seed for seed in self._seeds if seed != left_out]
            # One seed alone chooses for itself, on other problems.
            chosen = self._chosen(names, aim, floor, others or self._seeds)
            if chosen is None:
                return None
            models.append(chosen)
        return models

    def _held_out(self, models: Sequence[str]) -> list[FloatArray]:
        """Return the values (P, K) of every seed with the model that was chosen for it."""
        return [self._values[model][seed] for seed, model in enumerate(models)]

    def _mean(self, models: Sequence[str], k: int) -> float:
        column = self.ks.index(k)
        by_seed = [np.nanmean(values[:, column]) for values in self._held_out(models)]
        return float(np.mean(by_seed))

    def _interval(self, rows: Sequence[FloatArray]) -> PairedDifference:
        """Return the mean over seeds of (P, K) each, with the interval of this study.

        It is that of its differences: over seeds, crossed where they share their problems, and over
        problems where the seeds are too few.
        """
        if len(rows) >= FEWEST_SEEDS:
            return over_seeds_and_problems(np.array(rows)) if self._shared else over_seeds(rows)
        problems = np.mean(rows, axis=0) if self._shared else np.concatenate(rows)
        return paired_difference(problems, np.zeros_like(problems))


def _commonest(models: Sequence[str]) -> str:
    ((model, _),) = Counter(models).most_common(1)
    return model


def _corrected(tests: Sequence[Beyond | None]) -> tuple[Beyond, ...]:
    there = [test for test in tests if test is not None]
    adjusted = adjusted_p_values([test.p for test in there])
    return tuple(
        dataclasses.replace(test, adjusted_p=p) for test, p in zip(there, adjusted, strict=True)
    )


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
