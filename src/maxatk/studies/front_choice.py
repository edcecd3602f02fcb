"""Which of several models the seeds choose, and what the seeds that did not choose say of it.

A front that is chosen and reported on the same numbers is above the truth: of many models the
luckiest looks best. So each seed is left out once: the others choose, and the values that are
reported are those of the seed that was left out. Where the study has an evaluation on other
problems for the choice, the other seeds choose by that.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from maxatk.report.comparison import Comparison, Run
from maxatk.statistics.intervals import FloatArray, in_unit, mean_and_error
from maxatk.statistics.significance import (
    FEWEST_SEEDS,
    PairedDifference,
    over_seeds,
    over_seeds_and_problems,
    paired_difference,
    variance_of_shared_choices,
)

NO_FLOOR = -np.inf


class Candidates:
    """The max@k of all models of a study at some `ks`, of which the first is 1.

    The values of `comparison` are reported, those of `chosen_by` choose. A choice by seed is a list
    of names: for every seed, in the order of the study, the model that the other seeds choose.
    """

    def __init__(
        self, comparison: Comparison, chosen_by: Comparison, *, ks: tuple[int, ...]
    ) -> None:
        self.ks = ks
        self.seeds = range(len(comparison.seeds))
        self._shared = comparison.shared
        # By model and seed: the values of every problem, (P, K), that are reported.
        self._values = {
            name: [part.run(name).values("max@k", ks) for part in comparison.seeds]
            for name in comparison.names
        }
        # By model and seed: whether all rewards that are reported lie in [0, 1].
        self._bounded = {
            name: [_is_bounded(part.run(name), ks) for part in comparison.seeds]
            for name in comparison.names
        }
        # By model: the means of every seed, (S, K), that choose.
        self._means: dict[str, FloatArray] = {}
        # By model: whether every seed has a mean to choose by and one to report, (K,).
        self._has_means: dict[str, npt.NDArray[np.bool_]] = {}
        for name in comparison.names:
            choosing = [part.run(name).values("max@k", ks) for part in chosen_by.seeds]
            self._means[name] = _means_of_seeds(choosing)
            reported = _means_of_seeds(self._values[name])
            all_means = np.concatenate([self._means[name], reported])
            self._has_means[name] = ~np.isnan(all_means).any(axis=0)

    def has_value(self, name: str, k: int) -> bool:
        """Return whether a model has max@k in every seed, to choose by and to report.

        It has none where every problem of a seed has fewer than k scored samples.
        """
        return bool(self._has_means[name][self.ks.index(k)])

    def first(self, name: str) -> float:
        """Return max@1 of a model by the values that choose, over all seeds."""
        return float(self._means[name][:, 0].mean())

    def chosen(
        self, names: Sequence[str], aim: int, floor: float, seeds: Sequence[int]
    ) -> str | None:
        """Return which of the models some seeds choose for the best of `aim`.

        Of those that have both values, with max@1 at the floor or above it, that with the highest
        max@aim; None where there is none.
        """
        column = self.ks.index(aim)
        reached: dict[str, float] = {}  # max@aim of the models that may be chosen
        for name in names:
            if self.has_value(name, 1) and self.has_value(name, aim):
                means = self._means[name][list(seeds)].mean(axis=0)
                if means[0] >= floor:
                    reached[name] = float(means[column])
        return max(reached, key=lambda name: reached[name], default=None)

    def chosen_by_seed(self, names: Sequence[str], aim: int, floor: float) -> list[str] | None:
        """Return what the others choose for every seed, None where some of them have no model."""
        models = []
        for left_out in self.seeds:
            other_seeds = [seed for seed in self.seeds if seed != left_out]
            # One seed alone chooses for itself, on other problems.
            model = self.chosen(names, aim, floor, other_seeds or self.seeds)
            if model is None:
                return None
            models.append(model)
        return models

    def held_out(self, models: Sequence[str]) -> list[FloatArray]:
        """Return the values (P, K) of every seed with the model that was chosen for it."""
        return [self._values[model][seed] for seed, model in enumerate(models)]

    def bounded(self, models: Sequence[str]) -> bool:
        """Return whether max@k of the model chosen for every seed can only lie in [0, 1]."""
        return all(self._bounded[model][seed] for seed, model in enumerate(models))

    def mean(self, models: Sequence[str], k: int) -> float:
        """Return the mean of max@k over the seeds, each with the model chosen for it."""
        column = self.ks.index(k)
        by_seed = [np.nanmean(values[:, column]) for values in self.held_out(models)]
        return float(np.mean(by_seed))

    def interval(self, rows: Sequence[FloatArray]) -> PairedDifference:
        """Return the mean over seeds of (P, K) each, with the interval of this study.

        It is that of its differences: over seeds, which have chosen for one another, crossed where
        they share their problems, and over problems where the seeds are too few.
        """
        if len(rows) >= FEWEST_SEEDS:
            factor = variance_of_shared_choices(len(rows))
            if self._shared:
                return over_seeds_and_problems(np.array(rows), variance_factor=factor)
            return over_seeds(rows, variance_factor=factor)
        problems = np.mean(rows, axis=0) if self._shared else np.concatenate(rows)
        return paired_difference(problems, np.zeros_like(problems))


def _is_bounded(run: Run, ks: Sequence[int]) -> bool:
    """Return whether rewards lie in [0, 1]: max@k, a mean of them, may do so where they do not."""
    extremes = np.array(run.results.per_problem.extremes)
    return in_unit(run.values("max@k", ks)) and in_unit(extremes)


def _means_of_seeds(values: Sequence[FloatArray]) -> FloatArray:
    """Return the means over the problems of every seed, (S, K), NaN where none has a value."""
    return np.array([mean_and_error(seed_values)[0] for seed_values in values])
