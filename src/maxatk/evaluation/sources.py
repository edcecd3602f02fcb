"""Results from wherever they are: a folder of a run, its results.json, or a file of rewards."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.evaluation.folder import RESULTS, SCORES
from maxatk.evaluation.outside import read_rewards, results_of_outside
from maxatk.evaluation.recount import results_of_folder

ResultsSource = str | Path | Mapping[str, Any]

_TABLES = (".csv", ".jsonl", ".parquet")
_NEEDED = ("metrics", "per_problem", "counts", "entropy", "diversity", "manifest")


def load_results(
    source: ResultsSource,
    *,
    ks: Sequence[int] | None = None,
    threshold: float | None = None,
    column: str | None = None,
) -> Mapping[str, Any]:
    """Return the results of a run.

    Args:
        source: A results object, its file, the folder of a run, or a file of rewards (.csv, .jsonl
            or .parquet with the columns problem_id, sample and reward).
        ks: The k that the results must have, beside 1, 2, 4, ...; computed from the scores where
            they lack one.
        threshold: The reward from which a sample passes; the run's own, or 1, by default.
        column: A column of the scores that stands in for the reward.

    Raises MissingFileError or DataError for a source that is none of these, InvalidValueError for
    a k that the samples do not give, or results that would have to be computed without scores.
    """
    if isinstance(source, Mapping):
        return _as_asked(_checked(source, "results"), "results", ks, threshold, column)
    path = Path(source)
    if path.suffix in _TABLES and not path.is_dir():
        run = read_rewards(path)
        return results_of_outside(
            run, more_ks=ks or (), threshold=1.0 if threshold is None else threshold, column=column
        )
    folder = path if path.is_dir() else path.parent
    file = path / RESULTS if path.is_dir() else path
    if not file.is_file():
        raise MissingFileError(f"{file}: no such results file")
    results = _read(file)
    if _has(results, ks, threshold, column) or not (folder / SCORES).is_file():
        return _as_asked(results, str(file), ks, threshold, column)
    return results_of_folder(folder, more_ks=ks or (), threshold=threshold, column=column)


def label_of(source: str | Path) -> str | None:
    """Return the label of a run, given its folder or its results.json; None where it has none.

    Raises DataError where results.json is not a results file.
    """
    path = Path(source)
    file = path / RESULTS if path.is_dir() else path
    if file.name != RESULTS or not file.is_file():
        return None
    label: str | None = _read(file)["manifest"].get("label")
    return label


def _read(file: Path) -> Mapping[str, Any]:
    try:
        return _checked(json.loads(file.read_text(encoding="utf-8")), str(file))
    except ValueError as error:
        raise DataError(f"{file}: not a results file: {error}") from error


def _checked(results: Any, place: str) -> Mapping[str, Any]:
    missing = [name for name in _NEEDED if not isinstance(results, Mapping) or name not in results]
    if missing:
        raise DataError(f"{place}: not a results object: {missing[0]!r} is missing")
    checked: Mapping[str, Any] = results
    return checked


def _has(
    results: Mapping[str, Any],
    ks: Sequence[int] | None,
    threshold: float | None,
    column: str | None,
) -> bool:
    return (
        all(str(k) in results["metrics"]["max@k"] for k in ks or ())
        and threshold in (None, results.get("threshold"))
        and column in (None, results.get("column"))
    )


def _as_asked(
    results: Mapping[str, Any],
    place: str,
    ks: Sequence[int] | None,
    threshold: float | None,
    column: str | None,
) -> Mapping[str, Any]:
    if _has(results, ks, threshold, column):
        return results
    known = ", ".join(results["metrics"]["max@k"])
    raise InvalidValueError(
        f"{place}: holds k = {known} for the threshold {results.get('threshold')!r}, and no scores "
        "from which others could be computed; name the folder of the run, with its scores.jsonl"
    )
