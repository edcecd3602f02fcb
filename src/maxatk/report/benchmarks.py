"""The results of several models by benchmark, or by the values of a field of the problems."""

from __future__ import annotations

from collections.abc import Mapping

from maxatk.errors import InvalidValueError, MissingFileError
from maxatk.evaluation.folder import RESULTS
from maxatk.evaluation.load import ResultsSource
from maxatk.evaluation.problem_groups import results_by
from maxatk.report.load_runs import Reading, folder_of


def sources_by_benchmark(
    results: Mapping[str, ResultsSource], reading: Reading, *, by: str | None
) -> dict[str, dict[str, ResultsSource]]:
    """Return the results by model of every benchmark, or of every value of a field in each.

    A folder without results.json holds one folder a benchmark; the only benchmark of others is
    named "". Raises InvalidValueError where the models have different benchmarks or values of the
    field `by`, MissingFileError for a folder without results, and as `load_results`.
    """
    by_model = {name: _benchmarks(source) for name, source in results.items()}
    _refuse_other_benchmarks(by_model)
    benchmarks = next(iter(by_model.values()))
    sources: dict[str, dict[str, ResultsSource]] = {}
    for benchmark in benchmarks:
        for name, source_by_benchmark in by_model.items():
            groups = {benchmark: source_by_benchmark[benchmark]}
            if by is not None:
                groups = _by_value(benchmark, source_by_benchmark[benchmark], reading, by)
            for group, source in groups.items():
                sources.setdefault(group, {})[name] = source
    for group, models in sources.items():
        missing = [name for name in results if name not in models]
        if missing:
            raise InvalidValueError(f"by: {missing[0]!r} has no problem with {group}")
    return sources


def _benchmarks(source: ResultsSource) -> dict[str, ResultsSource]:
    """Return the results of every benchmark of a model; the only one is named ""."""
    folder = folder_of(source)
    if folder is None or (folder / RESULTS).is_file():
        return {"": source}
    inner: dict[str, ResultsSource] = {}
    for path in sorted(folder.glob(f"*/{RESULTS}")):
        inner[path.parent.name] = path.parent
    if not inner:
        raise MissingFileError(f"{folder}: holds no {RESULTS}, and no folders of benchmarks")
    return inner


def _refuse_other_benchmarks(by_model: Mapping[str, Mapping[str, ResultsSource]]) -> None:
    first = next(iter(by_model))
    for name, source_by_benchmark in by_model.items():
        if source_by_benchmark.keys() != by_model[first].keys():
            raise InvalidValueError(
                f"results: {first!r} has the benchmarks {sorted(by_model[first])}, {name!r} has "
                f"{sorted(source_by_benchmark)}; every model needs the same"
            )


def _by_value(
    benchmark: str, source: ResultsSource, reading: Reading, by: str
) -> dict[str, ResultsSource]:
    """Return the results of one benchmark for every value of a field in it."""
    by_value = results_by(reading.results_of(source), by)
    return {f"{benchmark} {by}={value}".strip(): part for value, part in by_value.items()}
