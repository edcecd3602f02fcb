"""Compare models over one benchmark or many: who is best, by how much, and is it more than chance.

Everything is paired over problems. One `Comparison` holds the runs over one benchmark; here those
of several benchmarks are put beside each other, each with a verdict of its own (`decide`).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.errors import InvalidValueError, MissingFileError, unknown_name
from maxatk.evaluation.folder import RESULTS
from maxatk.evaluation.groups import results_by
from maxatk.evaluation.sources import ResultsSource, load_results
from maxatk.report.deciding import ALPHA, Decision, Measure, PairedTest, decide
from maxatk.report.runs import METRICS, Comparison, load_comparison

DEFAULT_KS = (1, 128)


@dataclasses.dataclass(frozen=True)
class ModelComparison:
    """The outcome of `compare`.

    `comparisons` maps a benchmark to its runs, all in one order, the baseline first, and
    `decisions` holds the verdict on every benchmark and metric, at every k that the runs have. Of
    its tests, `leaders` has those at the `measures` of the best mean against every other model, and
    `differences` those of every model against the baseline.
    """

    comparisons: Mapping[str, Comparison]
    decisions: Mapping[tuple[str, str], Decision]
    measures: tuple[Measure, ...]
    leaders: tuple[PairedTest, ...]
    differences: tuple[PairedTest, ...]
    alpha: float

    @property
    def names(self) -> list[str]:
        """Return the names of the models, the baseline first."""
        return [run.name for run in next(iter(self.comparisons.values())).runs]


def compare(
    results: Mapping[str, ResultsSource],
    *,
    metrics: Sequence[str] = ("max@k",),
    ks: Sequence[int] | None = None,
    baseline: str | None = None,
    alpha: float = ALPHA,
    threshold: float | None = None,
    column: str | None = None,
    by: str | None = None,
    allow_other_problems: bool = False,
    allow_other_verifiers: bool = False,
) -> ModelComparison:
    """Compare models by name, each a results object, its file or folder, or a folder of those.

    A folder without results.json holds one folder a benchmark, the same benchmarks for every
    model; a model may also be a file of rewards.

    Args:
        results: The models by name.
        metrics: "max@k", "pass@k" or both.
        ks: At which k; by default 1 and the largest up to 128 that all models have.
        baseline: The model the others are compared to; "base", else the first.
        alpha: The level of the false-discovery control.
        threshold: The reward from which a sample passes; as in `load_results`.
        column: A column of the scores that stands in for the reward.
        by: A field of the problems' `meta`; its values are compared like benchmarks.
        allow_other_problems: Compare over the problems with the same id where they differ.
        allow_other_verifiers: Let the limits of the verifier differ.

    Raises InvalidValueError for fewer than two models, an unknown metric or baseline, different
    benchmarks, a k that a model has no samples for, and problems or verifiers that differ without
    being allowed to; MissingFileError and DataError as `load_comparison`; MissingDependencyError
    without SciPy.
    """
    _check_arguments(results, metrics, alpha)
    sources = _by_benchmark(results)
    if by is not None:
        load = functools.partial(load_results, ks=ks, threshold=threshold, column=column)
        sources = _by_group(sources, by, load)
    comparisons = {
        benchmark: load_comparison(
            found,
            baseline=baseline,
            allow_other_problems=allow_other_problems,
            allow_other_verifiers=allow_other_verifiers,
            ks=ks,
            threshold=threshold,
            column=column,
        )
        for benchmark, found in sources.items()
    }
    both = list(itertools.product(comparisons, metrics))
    measures = [
        Measure(benchmark, metric, k)
        for benchmark, metric in both
        for k in comparisons[benchmark].shown_ks(DEFAULT_KS if ks is None else ks)
    ]
    decisions = {
        (benchmark, metric): decide(
            comparisons[benchmark], metric, benchmark=benchmark, alpha=alpha
        )
        for benchmark, metric in both
    }
    return ModelComparison(
        comparisons=comparisons,
        decisions=decisions,
        measures=tuple(measures),
        leaders=_shown([d.against_best for d in decisions.values()], measures),
        differences=_shown([d.against_baseline for d in decisions.values()], measures),
        alpha=alpha,
    )


def _check_arguments(
    results: Mapping[str, ResultsSource], metrics: Sequence[str], alpha: float
) -> None:
    if len(results) < 2:
        raise InvalidValueError(f"results: comparing needs two models or more, got {len(results)}")
    if not 0 < alpha < 1:
        raise InvalidValueError(f"alpha: must lie between 0 and 1, got {alpha!r}")
    for metric in metrics:
        if metric not in METRICS:
            raise unknown_name("metric", metric, METRICS)


def _shown(
    lists: Sequence[Sequence[PairedTest]], measures: Sequence[Measure]
) -> tuple[PairedTest, ...]:
    return tuple(test for tests in lists for test in tests if test.measure in measures)


def _by_benchmark(results: Mapping[str, ResultsSource]) -> dict[str, dict[str, ResultsSource]]:
    found = {name: _benchmarks(source) for name, source in results.items()}
    first, *others = found
    for name in others:
        if found[name].keys() != found[first].keys():
            raise InvalidValueError(
                f"results: {first!r} has the benchmarks {sorted(found[first])}, {name!r} has "
                f"{sorted(found[name])}; every model needs the same"
            )
    return {
        benchmark: {name: sources[benchmark] for name, sources in found.items()}
        for benchmark in found[first]
    }


def _by_group(
    benchmarks: Mapping[str, Mapping[str, ResultsSource]],
    field: str,
    load: Callable[[ResultsSource], Mapping[str, Any]],
) -> dict[str, dict[str, ResultsSource]]:
    """Return the results over the problems of every value of a field, each like a benchmark."""
    found: dict[str, dict[str, ResultsSource]] = {}
    for benchmark, sources in benchmarks.items():
        for name, source in sources.items():
            for value, part in results_by(load(source), field).items():
                found.setdefault(f"{benchmark} {field}={value}".strip(), {})[name] = part
    for group, parts in found.items():
        missing = [name for name in next(iter(benchmarks.values())) if name not in parts]
        if missing:
            raise InvalidValueError(f"by: {missing[0]!r} has no problem with {group}")
    return found


def _benchmarks(source: ResultsSource) -> dict[str, ResultsSource]:
    if isinstance(source, Mapping) or not Path(source).is_dir():
        return {"": source}
    folder = Path(source)
    if (folder / RESULTS).is_file():
        return {"": folder}
    inner = {path.parent.name: path.parent for path in sorted(folder.glob(f"*/{RESULTS}"))}
    if not inner:
        raise MissingFileError(f"{folder}: holds no {RESULTS}, and no folders of benchmarks")
    return dict(inner)
