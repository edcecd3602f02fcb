"""The runs a report compares: read, checked to be over the same problems, and aligned."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from maxatk.errors import InvalidValueError, unknown_name
from maxatk.evaluation.results import only_problems
from maxatk.evaluation.sources import ResultsSource, load_results
from maxatk.evaluation.statistics.intervals import FEW_PROBLEMS
from maxatk.evaluation.statistics.paired import PairedDifference, paired_difference
from maxatk.evaluation.statistics.seeds import FEWEST_SEEDS, seed_differences

METRICS = ("max@k", "pass@k")
_COMPARED = ("model.model", "model.weights", "samples.sha256", "rewards.sha256")


@dataclasses.dataclass(frozen=True)
class Run:
    """One model's results under the name it has in the report."""

    name: str
    results: Mapping[str, Any]

    @property
    def problems(self) -> int:
        """The number of problems, those without a scored sample included."""
        return int(self.results["counts"]["problems"])

    def metric(self, metric: str, k: int) -> Mapping[str, Any]:
        """Return {"mean", "low", "high", "problems", "below"} of a metric at k."""
        found: Mapping[str, Any] = self.results["metrics"][metric][str(k)]
        return found

    def values(self, metric: str, ks: Sequence[int]) -> npt.NDArray[np.float64]:
        """Return the values of every problem: (P, K), NaN where there is none."""
        columns = self.results["per_problem"][metric]
        by_k: npt.NDArray[np.float64] = np.array([columns[str(k)] for k in ks], dtype=np.float64)
        return np.ascontiguousarray(by_k.T)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Runs over the same problems, the baseline first, and the k that all of them have.

    `seeds` are the same runs, one comparison a training seed, where the runs hold several. From
    three seeds on a difference is tested over them, and over problems otherwise.
    """

    runs: tuple[Run, ...]
    ks: tuple[int, ...]
    seeds: tuple[Comparison, ...] = ()

    @property
    def baseline(self) -> Run:
        """The run that the others are compared to."""
        return self.runs[0]

    @property
    def others(self) -> tuple[Run, ...]:
        """The runs after the baseline."""
        return self.runs[1:]

    @property
    def problem_ids(self) -> list[str]:
        """The ids of the problems, in the order of every run's values."""
        return list(self.baseline.results["per_problem"]["ids"])

    def means(self, metric: str, k: int) -> dict[str, Mapping[str, Any]]:
        """Return what `Run.metric` gives for every run, by its name."""
        return {run.name: run.metric(metric, k) for run in self.runs}

    def ranked(self, metric: str, k: int) -> list[Run]:
        """Return the runs by their means, the highest first; those without a mean are last."""

        def mean(run: Run) -> float:
            found = run.metric(metric, k)["mean"]
            return -math.inf if found is None else float(found)

        return sorted(self.runs, key=mean, reverse=True)

    def shown_ks(self, wanted: Sequence[int]) -> list[int]:
        """Return those of `wanted` that all runs have, with the largest they have below them."""
        shown = {k for k in wanted if k in self.ks}
        below = [k for k in self.ks if k <= max(wanted)]
        return sorted(shown | {max(below, default=self.ks[0])})

    @property
    def over_seeds(self) -> bool:
        """Whether differences are tested over training seeds."""
        return len(self.seeds) >= FEWEST_SEEDS

    @property
    def test_name(self) -> str:
        """The name of the test of a difference, and over what it is."""
        if self.over_seeds:
            return f"paired t-test over {len(self.seeds)} training seeds"
        problems = self.baseline.problems
        kind = "t-test" if problems < FEW_PROBLEMS else "bootstrap test"
        return f"paired {kind} over {problems:,} problems"

    def differences(
        self, pairs: Sequence[tuple[Run, Run]], metric: str, ks: Sequence[int]
    ) -> list[PairedDifference]:
        """Return the paired difference, first minus second, of every pair of runs: (K,) each."""
        if not pairs:
            return []
        if self.over_seeds:
            return [
                self._over_seeds(first.name, second.name, metric, ks) for first, second in pairs
            ]
        # Side by side, since all of them are over the same resamples.
        firsts, seconds = (
            np.concatenate([pair[side].values(metric, ks) for pair in pairs], axis=1)
            for side in (0, 1)
        )
        found = paired_difference(firsts, seconds)
        return [found.columns(at * len(ks), len(ks)) for at in range(len(pairs))]

    def difference(
        self, run: Run, metric: str, ks: Sequence[int], *, to: Run | None = None
    ) -> PairedDifference:
        """Return the paired difference of a run to the baseline, or `to` another run: (K,)."""
        (found,) = self.differences([(run, to or self.baseline)], metric, ks)
        return found

    def _over_seeds(
        self, first: str, second: str, metric: str, ks: Sequence[int]
    ) -> PairedDifference:
        by_seed = []
        for comparison in self.seeds:
            runs = {run.name: run for run in comparison.runs}
            moved = runs[first].values(metric, ks) - runs[second].values(metric, ks)
            by_seed.append(np.nanmean(moved, axis=0))
        return seed_differences(np.array(by_seed), problems=self.baseline.problems)


def load_comparison(
    results: Mapping[str, ResultsSource],
    *,
    baseline: str | None = None,
    allow_other_problems: bool = False,
    allow_other_verifiers: bool = True,
    ks: Sequence[int] | None = None,
    threshold: float | None = None,
    column: str | None = None,
) -> Comparison:
    """Return the comparison of results given by name: objects, files, folders, files of rewards.

    Args:
        results: The results of each run by its name.
        baseline: The run that others are compared to; the run named "base", else the first.
        allow_other_problems: Keep the problems that every run has (by id), and take the metrics
            over them.
        allow_other_verifiers: Whether the verifier's limits may differ.
        ks: At which k every run has its metrics, beside 1, 2, 4, ...
        threshold: The reward from which a sample passes, as in `load_results`.
        column: A column of the scores that stands in for the reward, as in `load_results`.

    Raises MissingFileError or DataError for a file that is not a results file; InvalidValueError
    when there are no results, the baseline is unknown, or problems or verifiers differ that may
    not.
    """
    if not results:
        raise InvalidValueError("results: must hold at least one run")
    runs = [
        Run(name, load_results(source, ks=ks, threshold=threshold, column=column))
        for name, source in results.items()
    ]
    if baseline is None:
        baseline = "base" if "base" in results else runs[0].name
    if baseline not in results:
        raise unknown_name("baseline", baseline, results)
    runs.sort(key=lambda run: run.name != baseline)
    for run in runs[1:]:
        if not allow_other_verifiers:
            _refuse_other_verifier(runs[0], run)
        if not allow_other_problems:
            _refuse_other_problems(runs[0], run)
    if allow_other_problems:
        runs = _on_common_problems(runs)
    common = set.intersection(*({int(k) for k in run.results["metrics"]["max@k"]} for run in runs))
    if not common:
        raise InvalidValueError("results: the runs have no k in common")
    return Comparison(tuple(runs), tuple(sorted(common)))


def metric_name(metric: str, k: int) -> str:
    """Return the heading of a metric at k, such as `max@128`."""
    return metric.replace("@k", f"@{k}")


def with_seeds(comparison: Comparison, seeds: Sequence[Mapping[str, ResultsSource]]) -> Comparison:
    """Return the comparison with the results of the same runs for every training seed alone.

    Raises InvalidValueError for a seed without one of the runs, and as `load_comparison`.
    """
    found = []
    for number, results in enumerate(seeds):
        missing = [run.name for run in comparison.runs if run.name not in results]
        if missing:
            raise InvalidValueError(f"seeds[{number}]: has no results of {missing[0]!r}")
        found.append(load_comparison(results, baseline=comparison.baseline.name))
    return dataclasses.replace(comparison, seeds=tuple(found))


def setting_differences(comparison: Comparison) -> list[str]:
    """Return one line for every setting in which a run differs from the baseline.

    The model itself, or the file of its samples, is left out: it is what runs are meant to differ
    in.
    """
    first = _flat(comparison.baseline.results["manifest"].get("settings", {}))
    lines = []
    for run in comparison.others:
        mine = _flat(run.results["manifest"].get("settings", {}))
        for key in sorted(first.keys() | mine.keys()):
            if key not in _COMPARED and first.get(key) != mine.get(key):
                lines.append(
                    f"{key}: {first.get(key)!r} for {comparison.baseline.name}, "
                    f"{mine.get(key)!r} for {run.name}"
                )
    return lines


def _refuse_other_problems(first: Run, other: Run) -> None:
    ids = [run.results["per_problem"]["ids"] for run in (first, other)]
    digests = [
        run.results["manifest"].get("settings", {}).get("problems", {}).get("sha256")
        for run in (first, other)
    ]
    if ids[0] != ids[1] or digests[0] != digests[1]:
        raise InvalidValueError(
            f"results: {other.name!r} ({len(ids[1])} problems) is not over the same problems as "
            f"{first.name!r} ({len(ids[0])} problems), so they cannot be compared"
        )


def _refuse_other_verifier(first: Run, other: Run) -> None:
    verifiers = [
        run.results["manifest"].get("settings", {}).get("verifier") for run in (first, other)
    ]
    if verifiers[0] != verifiers[1]:
        raise InvalidValueError(
            f"results: {other.name!r} was verified with {verifiers[1]}, {first.name!r} with "
            f"{verifiers[0]}, so a difference may be the verifier's"
        )


def _on_common_problems(runs: Sequence[Run]) -> list[Run]:
    common = set.intersection(*(set(run.results["per_problem"]["ids"]) for run in runs))
    order = [i for i in runs[0].results["per_problem"]["ids"] if i in common]
    if not order:
        raise InvalidValueError("results: the runs have no problem in common")
    return [Run(run.name, only_problems(run.results, order)) for run in runs]


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {name: value}
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat.update(_flat(inner, f"{name}.{key}" if name else key))
    return flat
