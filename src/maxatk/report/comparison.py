"""The runs a report compares: how they are read, and checked to be over the same problems."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from maxatk.errors import InvalidValueError, unknown_name
from maxatk.evaluation.load import ResultsSource, load_results
from maxatk.evaluation.pooling import pool_results, same_problems
from maxatk.evaluation.problem_groups import only_problems
from maxatk.evaluation.results import METRICS, Mean, Results
from maxatk.report.tables import counted
from maxatk.statistics.tests import FEWEST_SEEDS

BASE = "base"
ALPHA = 0.05
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
        of_runs = [set(run.results.ks) for run in self.runs]
        return tuple(sorted(set.intersection(*of_runs)))

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
        of_runs = [run.results.metrics for run in self.runs]
        equal = all(metrics["max@k"] == metrics["pass@k"] for metrics in of_runs)
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

    def ranked(self, metric: str, k: int) -> list[str]:
        """Return the names by their means, the highest first; those without a mean are last."""
        means = {}
        for run in self.runs:
            mean = run.metric(metric, k).mean
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


Runs: TypeAlias = Comparison | Mapping[str, ResultsSource]  # what tables and pages are made of


@dataclasses.dataclass(frozen=True)
class Reading:
    """How the results of runs are read, and against which of the runs the others are held.

    Args:
        baseline: The run the others are compared to; "base", else the first.
        k: The k that are shown, from 1 to the samples of a problem. If none is given, the page has
            1, 8, 32 and 128, and a comparison 1 and 128, as far as all runs have them.
        threshold: The reward from which a sample passes; the run's own, or 1.
        column: A column of the scores to take for the reward; the run's own, or none.
    """

    baseline: str | None = None
    k: tuple[int, ...] = ()
    threshold: float | None = None
    column: str | None = None

    def results_of(self, source: ResultsSource, places: Mapping[str, str] | None = None) -> Results:
        """Return the results of one run; raises as `load_results`."""
        return load_results(
            source, ks=self.k, threshold=self.threshold, column=self.column, mapping=places
        )


def load_comparison(
    results: Mapping[str, ResultsSource],
    reading: Reading = Reading(),
    *,
    allow_other_problems: bool = False,
    allow_other_verifiers: bool = True,
) -> Comparison:
    """Return the comparison of results given by name: objects, files, folders, files of rewards.

    With `allow_other_problems` the problems are those that every run has, by id. Raises
    InvalidValueError when there are no results, a name is not printable, the baseline is unknown,
    another column stands in for the reward of some runs, or problems or the limits of verifiers
    differ that may not; and as `load_results`.
    """
    if not results:
        raise InvalidValueError("results: must hold at least one run")
    for name in results:
        check_name(name, where="results")
    runs = [
        Run(name, reading.results_of(source), folder_of(source)) for name, source in results.items()
    ]
    baseline = reading.baseline
    if baseline is None:
        baseline = BASE if BASE in results else runs[0].name
    if baseline not in results:
        raise unknown_name("baseline", baseline, results)
    runs.sort(key=lambda run: run.name != baseline)  # the baseline first, the others as they came
    for run in runs[1:]:
        _refuse_other_column(runs[0], run)
        if not allow_other_verifiers:
            _refuse_other_verifier(runs[0], run)
        if not allow_other_problems:
            _refuse_other_problems(runs[0], run)
    if allow_other_problems:
        runs = _on_common_problems(runs)
    comparison = Comparison(tuple(runs))
    if not comparison.ks:
        raise InvalidValueError("results: the runs have no k in common")
    return comparison


def _on_common_problems(runs: Sequence[Run]) -> list[Run]:
    """Return the runs over the problems that all of them have, in the order of the first."""
    common = set.intersection(*(set(run.results.ids) for run in runs))
    ids = [problem_id for problem_id in runs[0].results.ids if problem_id in common]
    if not ids:
        raise InvalidValueError("results: the runs have no problem in common")
    on_common = []
    for run in runs:
        left_out = len(run.results.ids) - len(ids)
        on_common.append(Run(run.name, only_problems(run.results, ids), run.folder, left_out))
    return on_common


def comparison_of(results: Runs, reading: Reading = Reading()) -> Comparison:
    """Return a comparison as it is, or that of results by name; raises as `load_comparison`."""
    return results if isinstance(results, Comparison) else load_comparison(results, reading)


def folder_of(source: ResultsSource) -> Path | None:
    """Return the folder that results are in, None where they are given in another way."""
    if isinstance(source, Results | Mapping):
        return None
    path = Path(source)
    return path if path.is_dir() else None


def check_name(name: str, *, where: str) -> None:
    """Refuse the name of a model that would break a figure, a file or a terminal."""
    if not name.isprintable():
        raise InvalidValueError(f"{where}: a name must be printable text, got {name!r}")


def pooled(seeds: Mapping[str, Comparison]) -> Comparison:
    """Return the runs over the problems of all seeds; raises InvalidValueError where one lacks."""
    of_seeds = tuple(seeds.values())
    runs = []
    for name in of_seeds[0].names:
        by_seed = {seed: comparison.run(name).results for seed, comparison in seeds.items()}
        runs.append(Run(name, pool_results(by_seed)))
    return Comparison(tuple(runs), of_seeds)


def _refuse_other_problems(first: Run, other: Run) -> None:
    same_ids = first.results.ids == other.results.ids
    place = "settings.problems.sha256"
    if same_ids and first.results.recorded(place) == other.results.recorded(place):
        return
    shared = len(set(first.results.ids) & set(other.results.ids))
    raise InvalidValueError(
        f"results: {other.name!r} ({counted(len(other.results.ids))}) is not over the same "
        f"problems as {first.name!r} ({counted(len(first.results.ids))}), in content and order, so "
        f"they cannot be compared; maxatk compare --allow-other-problems compares the {shared:,} "
        "whose ids they share"
    )


def _refuse_other_column(first: Run, other: Run) -> None:
    if first.results.column != other.results.column:
        raise InvalidValueError(
            f"results: the reward of {other.name!r} is {_reward_of(other)}, that of {first.name!r} "
            f"is {_reward_of(first)}, so a difference may be the reward's; name one --column for "
            "all, or score one of them again"
        )


def _reward_of(run: Run) -> str:
    column = run.results.column
    return "its own" if column is None else f"the column {column!r}"


def _refuse_other_verifier(first: Run, other: Run) -> None:
    verifier = first.results.recorded("settings.verifier")
    other_verifier = other.results.recorded("settings.verifier")
    if verifier != other_verifier:
        raise InvalidValueError(
            f"results: {other.name!r} was verified with {other_verifier}, {first.name!r} with "
            f"{verifier}, so a difference may be the verifier's"
        )
