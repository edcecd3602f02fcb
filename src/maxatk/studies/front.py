"""The front of a study: what each method reaches at (max@1, max@N) by its best rate and checkpoint.

A method is a level of the first axis; its models are those of every level of the other axes, such
as learning rates and checkpoints. `front_choice` says which seeds choose among them, and which are
reported.

For a floor on max@1 the model of a method is the one with the highest max@N among those whose max@1
is at least the floor. A curve has these models for floors from that of the model before training up
to the highest max@1 of any. The best model for N is the one whose max@N is the highest.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from maxatk.report.comparison import BASE, Comparison
from maxatk.statistics.intervals import none_for_nan, within
from maxatk.statistics.significance import adjusted_p_values
from maxatk.studies.front_choice import NO_FLOOR, Candidates

FLOORS = 9  # of max@1, from that of the model before training to the highest


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A mean over the seeds that were left out, with its 95% interval; None is no number."""

    k: int
    mean: float | None
    low: float | None
    high: float | None


@dataclasses.dataclass(frozen=True)
class BestModel:
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
class RivalTest:
    """The methods that are not rivals against the rivals, at one N and one floor of max@1.

    Each side chooses the best of all its models, and the rivals may choose the model before
    training. Of floors at which both sides choose the same models `floor` is the lowest. `model`
    and `rival` are what most seeds choose, `first` and `rival_first` the max@1 of the seeds left
    out, which may lie below the floor. The difference is in max@N; its `adjusted_p` is corrected
    over all choices and N (Benjamini-Hochberg).
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
    best: tuple[BestModel, ...]
    curves: tuple[CurvePoint, ...]
    beyond: tuple[RivalTest, ...]


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
    models = Candidates(comparison, chosen_by, ks=(1, *shared_ks))
    valued = [name for name in comparison.names if models.has_value(name, 1)]
    if not any(name in methods for name in valued):
        return None
    untrained = [name for name in valued if name == BASE]
    floors = _floors(models, valued, lowest_of=untrained or valued)
    models_of_method = defaultdict(list)
    for name, method in methods.items():
        models_of_method[method].append(name)
    best: list[BestModel] = []
    curves: list[CurvePoint] = []
    for method, names in models_of_method.items():
        best += _best_for_each_aim(models, method, names)
        for aim in shared_ks:
            curves += _curve(models, method, names, aim, floors)
    ours = [name for name, method in methods.items() if method not in rivals]
    theirs = [name for name, method in methods.items() if method in rivals]
    # The rivals may also leave the model as it is, which is the best of many at the lowest floors.
    theirs += untrained
    beyond: list[RivalTest] = []
    for aim in shared_ks:
        beyond += _beyond_floors(models, ours, theirs, aim, floors)
    return Front(
        rivals=tuple(rivals),
        chosen_on=_chosen_on(comparison, choice),
        best=tuple(best),
        curves=tuple(curves),
        beyond=_corrected(beyond),
    )


def _chosen_on(comparison: Comparison, choice: Comparison | None) -> str:
    if choice is None:
        return "other seeds"
    return "other problems" if len(comparison.seeds) < 2 else "other problems and other seeds"


def _floors(models: Candidates, names: Sequence[str], *, lowest_of: Sequence[str]) -> list[float]:
    """Return floors of max@1, ascending: from the lowest of some models to the highest of all."""
    lowest = min(models.first(name) for name in lowest_of)
    highest = max(models.first(name) for name in names)
    return [float(floor) for floor in np.linspace(lowest, highest, FLOORS)]


def _best_for_each_aim(models: Candidates, method: str, names: Sequence[str]) -> list[BestModel]:
    """Return a method at its best for every N at which one of its models has a value."""
    candidates = [_best(models, method, names, aim) for aim in models.ks]
    return [best for best in candidates if best is not None]


def _best(models: Candidates, method: str, names: Sequence[str], aim: int) -> BestModel | None:
    """Return a method, whose models are `names`, at its best for one N; None without a value."""
    model = models.chosen(names, aim, NO_FLOOR, models.seeds)
    by_seed = models.chosen_by_seed(names, aim, NO_FLOOR)
    if model is None or by_seed is None:
        return None
    interval = models.interval(models.held_out(by_seed))
    if models.bounded(by_seed):
        interval = within(interval, 0.0, 1.0)
    estimates = []
    for column, k in enumerate(models.ks):
        estimate = Estimate(
            k,
            mean=none_for_nan(interval.mean[column]),
            low=none_for_nan(interval.low[column]),
            high=none_for_nan(interval.high[column]),
        )
        estimates.append(estimate)
    return BestModel(method, aim, model, tuple(by_seed), tuple(estimates))


def _curve(
    models: Candidates, method: str, names: Sequence[str], aim: int, floors: Sequence[float]
) -> list[CurvePoint]:
    """Return the curve of a method for one N, a point for every floor that it reaches."""
    points = []
    for floor in floors:
        by_seed = models.chosen_by_seed(names, aim, floor)
        if by_seed is not None:
            first = models.mean(by_seed, 1)
            points.append(CurvePoint(method, aim, floor, first, models.mean(by_seed, aim)))
    return points


def _beyond_floors(
    models: Candidates,
    ours: Sequence[str],
    theirs: Sequence[str],
    aim: int,
    floors: Sequence[float],
) -> list[RivalTest]:
    """Return the differences of two sides at one N above ascending floors, while both reach them.

    A floor at which both sides choose what they chose at the one before is the same test again. A
    correction that counted it would take each of its copies for evidence of the others.
    """
    tests: list[RivalTest] = []
    chosen_before = None
    for floor in floors:
        our_models = models.chosen_by_seed(ours, aim, floor)
        their_models = models.chosen_by_seed(theirs, aim, floor)
        if our_models is None or their_models is None:
            break
        chosen = (our_models, their_models)
        if chosen != chosen_before:
            tests.append(_beyond(models, our_models, their_models, aim, floor))
        chosen_before = chosen
    return tests


def _beyond(
    models: Candidates,
    our_models: Sequence[str],
    their_models: Sequence[str],
    aim: int,
    floor: float,
) -> RivalTest:
    """Return the difference at one N of what two sides choose for every seed above a floor."""
    column = models.ks.index(aim)
    our_values = [values[:, [column]] for values in models.held_out(our_models)]
    their_values = [values[:, [column]] for values in models.held_out(their_models)]
    pairs = zip(our_values, their_values, strict=True)
    test = models.interval([our - their for our, their in pairs])
    if models.bounded(our_models) and models.bounded(their_models):
        test = within(test, -1.0, 1.0)
    return RivalTest(
        aim=aim,
        floor=floor,
        model=_commonest(our_models),
        rival=_commonest(their_models),
        first=models.mean(our_models, 1),
        rival_first=models.mean(their_models, 1),
        difference=none_for_nan(test.mean[0]),
        low=none_for_nan(test.low[0]),
        high=none_for_nan(test.high[0]),
        p=float(test.p[0]),
        adjusted_p=float(test.p[0]),
    )


def _commonest(models: Sequence[str]) -> str:
    ((model, _),) = Counter(models).most_common(1)
    return model


def _corrected(tests: Sequence[RivalTest]) -> tuple[RivalTest, ...]:
    """Return the tests with their p corrected for all of them."""
    adjusted = adjusted_p_values([test.p for test in tests])
    return tuple(
        dataclasses.replace(test, adjusted_p=p) for test, p in zip(tests, adjusted, strict=True)
    )
