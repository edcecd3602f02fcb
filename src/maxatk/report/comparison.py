"""Runs over the same problems: their names and k, and what a difference is tested over."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from maxatk.errors import InvalidValueError, counted, unknown_name
from maxatk.evaluation.means import number_or_none
from maxatk.evaluation.pooling import pool_results, same_problems
from maxatk.evaluation.results import METRICS, Mean, Results
from maxatk.statistics.significance import FEWEST_SEEDS

BASE = "base"
ALPHA = 0.05
DEFAULT_KS = (1, 128)  # at which models are tested
Over: TypeAlias = Literal["problems", "seeds", "seeds and problems"]
SPEAKS_OF: Mapping[Over, str] = {  # what the interval and the p of a difference speak of
    "problems": "other problems, these trainings",
    "seeds": "other seeds with problems of their own",
    "seeds and problems": "other seeds and other problems",
}


@dataclasses.dataclass(frozen=True)
class Run:
    """One model's results under the name it has in the report, and its folder if that was given.

    `left_out` is the number of its problems that another run lacks, of which the results have none.
    """

    name: str
    results: Results
    folder: Path | None = None
    left_out: int = 0

    @property
    def problems(self) -> int:
        """The number of problems, those without a scored sample included."""
        return self.results.counts.problems

    def metric(self, metric: str, k: int) -> Mean:
        """Return the mean of a metric at k."""
        return self.results.metrics[metric][k]

    def values(self, metric: str, ks: Sequence[int]) -> npt.NDArray[np.float64]:
        """Return the values of every problem: (P, K), NaN where there is none."""
        columns = self.results.per_problem.values[metric]
        by_k: npt.NDArray[np.float64] = np.array([columns[k] for k in ks], dtype=np.float64)
        return np.ascontiguousarray(by_k.T)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Runs over the same problems, the baseline first; `seeds` has them for each training seed."""

    runs: tuple[Run, ...]
    seeds: tuple[Comparison, ...] = ()

    @functools.cached_property
    def ks(self) -> tuple[int, ...]:
        """The k that all runs have."""
        ks_of_runs = [set(run.results.ks) for run in self.runs]
        return tuple(sorted(set.intersection(*ks_of_runs)))

    @property
    def baseline(self) -> Run:
        """The run that the others are compared to."""
        return self.runs[0]

    @property
    def names(self) -> list[str]:
        """The names of the runs, the baseline first."""
        return [run.name for run in self.runs]

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that differ: for rewards of 0 and 1 pass@k is max@k."""
        metrics_of_runs = [run.results.metrics for run in self.runs]
        equal = all(metrics["max@k"] == metrics["pass@k"] for metrics in metrics_of_runs)
        return METRICS[:1] if equal else METRICS

    @property
    def selections(self) -> list[str]:
        """The metrics of all runs in which a stored score chooses the best of k."""
        names = set.intersection(*(set(run.results.metrics) for run in self.runs))
        return sorted(name for name in names if name.startswith("max@k by "))

    @property
    def passes(self) -> str:
        """What a sample does that passes."""
        thresholds = set()
        for run in self.runs:
            thresholds.add(f"{run.results.passes_from:g}")
        return f"has a reward of {' or '.join(sorted(thresholds))} or more"

    def values_in_common(self, metric: str, k: int) -> npt.NDArray[np.float64]:
        """Return the values of every run for the problems of which all have one: (runs, problems).

        Where the runs hold means alone there is none.
        """
        if not self.baseline.results.ids:
            return np.empty((len(self.runs), 0))
        values = np.array([run.values(metric, [k])[:, 0] for run in self.runs])
        lacking = np.isnan(values).any(axis=0)  # (problems,)
        return values[:, ~lacking]

    def ranked(self, metric: str, k: int) -> list[str]:
        """Return the names by their means over the problems that all have, the highest first.

        Over other problems a worse model may have the higher mean. Where there are none in common,
        each has the mean over its own, and those without a mean are last.
        """
        in_common = self.values_in_common(metric, k)
        means = {}
        for run, values in zip(self.runs, in_common, strict=True):
            mean = number_or_none(values.mean()) if len(values) else run.metric(metric, k).mean
            means[run.name] = -math.inf if mean is None else mean
        return sorted(means, key=means.__getitem__, reverse=True)

    def shown_ks(self, wanted: Sequence[int]) -> list[int]:
        """Return those of `wanted` that all runs have, with the largest they have below them."""
        common = {k for k in wanted if k in self.ks}
        below = [k for k in self.ks if k <= max(wanted)]
        largest = max(below, default=self.ks[0])
        return sorted(common | {largest})

    @property
    def over(self) -> Over:
        """What differences are tested over: seeds from three on, and problems that they share."""
        if len(self.seeds) < FEWEST_SEEDS:
            return "problems"
        return "seeds and problems" if self.shared else "seeds"

    @property
    def speaks_of(self) -> str:
        """What a test of a difference speaks of."""
        return SPEAKS_OF[self.over]

    @property
    def shared(self) -> bool:
        """Whether there are seeds, and all have the same problems."""
        parts = [of_seed.baseline.results for of_seed in self.seeds]
        return len(parts) > 0 and same_problems(parts)

    @property
    def test_name(self) -> str:
        """The name of the test of a difference, and over what it is."""
        over = self.over.replace("seeds", f"{len(self.seeds)} training seeds")
        over = over.replace("problems", counted(self.baseline.problems))
        return f"paired t-test over {over}"

    def run(self, name: str) -> Run:
        """Return the run of that name; raises InvalidValueError where there is none."""
        for run in self.runs:
            if run.name == name:
                return run
        raise unknown_name("model", name, self.names)


def check_name(name: str, *, where: str) -> None:
    """Refuse the name of a model that nobody sees, or that would break a figure or a terminal."""
    if not isinstance(name, str) or not name.isprintable() or not name.strip():
        raise InvalidValueError(f"{where}: a name must be printable text, got {name!r}")


def pooled(seeds: Mapping[str, Comparison]) -> Comparison:
    """Return the runs over the problems of all seeds; raises InvalidValueError where one lacks."""
    of_seeds = tuple(seeds.values())
    runs = []
    for name in of_seeds[0].names:
        by_seed = {seed: comparison.run(name).results for seed, comparison in seeds.items()}
        runs.append(Run(name, pool_results(by_seed)))
    return Comparison(tuple(runs), of_seeds)
