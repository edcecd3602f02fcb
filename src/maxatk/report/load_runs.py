"""How the runs that a report compares are read, and what is refused because it differs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from maxatk.check import one_of, require, several
from maxatk.errors import InvalidValueError, counted
from maxatk.evaluation.load import ResultsSource, load_results
from maxatk.evaluation.problem_groups import only_problems
from maxatk.evaluation.results import Results
from maxatk.python_numbers import use_python_numbers
from maxatk.report.comparison import BASE, Comparison, Run, check_name

Runs: TypeAlias = Comparison | Mapping[str, ResultsSource]  # what tables and pages are made of
RUNS_BY_NAME = "a mapping of names to runs"


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

    def __post_init__(self) -> None:
        use_python_numbers(self)
        several("k", self.k, "integers")
        is_column = self.column is None or isinstance(self.column, str)
        require(is_column, "column", "the name of a column", self.column)

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
    require(isinstance(results, Mapping), "results", RUNS_BY_NAME, results)
    require(isinstance(reading, Reading), "reading", "a Reading", reading)
    if not results:
        raise InvalidValueError("results: must hold at least one run")
    runs = []
    for name, source in results.items():
        check_name(name, where="results")
        runs.append(Run(name, _results_of_run(name, source, reading), folder_of(source)))
    first, *others = _baseline_first(runs, reading.baseline)
    for other in others:
        _refuse_other_column(first, other)
        if not allow_other_verifiers:
            _refuse_other_verifier(first, other)
        if not allow_other_problems:
            _refuse_other_problems(first, other)
    runs = [first, *others]
    comparison = Comparison(tuple(_on_common_problems(runs) if allow_other_problems else runs))
    if not comparison.ks:
        raise InvalidValueError("results: the runs have no k in common")
    return comparison


def _results_of_run(name: str, source: ResultsSource, reading: Reading) -> Results:
    """Return the results of one run; the refusal of a k or a column says which run lacks it."""
    try:
        return reading.results_of(source)
    except InvalidValueError as error:
        raise InvalidValueError(f"{name}: {error}") from error


def _baseline_first(runs: Sequence[Run], wanted: str | None) -> list[Run]:
    """Return the runs with the baseline before the others: the wanted one, "base" or the first."""
    names = [run.name for run in runs]
    if wanted is None:
        wanted = BASE if BASE in names else names[0]
    one_of("baseline", wanted, names)
    return sorted(runs, key=lambda run: run.name != wanted)  # the others stay as they came


def comparison_of(results: Runs, reading: Reading = Reading()) -> Comparison:
    """Return a comparison as it is, or that of results by name; raises as `load_comparison`."""
    return results if isinstance(results, Comparison) else load_comparison(results, reading)


def folder_of(source: ResultsSource) -> Path | None:
    """Return the folder that results are in, None where they are given in another way."""
    if not isinstance(source, str | Path):
        return None
    path = Path(source)
    return path if path.is_dir() else None


def _on_common_problems(runs: Sequence[Run]) -> list[Run]:
    """Return the runs over the problems that all of them have, in the order of the first."""
    common = set.intersection(*(set(run.results.ids) for run in runs))
    ids = [problem_id for problem_id in runs[0].results.ids if problem_id in common]
    if not ids:
        for other in runs[1:]:
            _refuse_strangers(runs[0], other)
        raise InvalidValueError("results: the runs have no problem in common")
    on_common = []
    for run in runs:
        left_out = len(run.results.ids) - len(ids)
        on_common.append(Run(run.name, only_problems(run.results, ids), run.folder, left_out))
    return on_common


def _refuse_other_problems(first: Run, other: Run) -> None:
    same_ids = first.results.ids == other.results.ids
    place = "settings.problems.sha256"
    if same_ids and first.results.recorded(place) == other.results.recorded(place):
        return
    _refuse_strangers(first, other)
    shared = len(set(first.results.ids) & set(other.results.ids))
    raise InvalidValueError(
        f"results: {other.name!r} ({counted(len(other.results.ids))}) is not over the same "
        f"problems as {first.name!r} ({counted(len(first.results.ids))}), in content and order, so "
        f"they cannot be compared; maxatk compare --allow-other-problems compares the {shared:,} "
        "whose ids they share"
    )


def _refuse_strangers(first: Run, other: Run) -> None:
    """Raise InvalidValueError, with an id of each, for runs that have no id in common."""
    if set(first.results.ids).isdisjoint(other.results.ids):
        raise InvalidValueError(
            f"results: {other.name!r} and {first.name!r} have no problem in common, by the ids: "
            f"the first is {other.results.ids[0]!r:.80} in {other.name!r} and "
            f"{first.results.ids[0]!r:.80} in {first.name!r}"
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
