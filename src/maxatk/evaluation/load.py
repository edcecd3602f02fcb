"""Results of runs that are there already: of a folder, its results.json, or a file of rewards."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.check import as_path, require, several
from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.evaluation.build_results import build_results
from maxatk.evaluation.external_rewards import is_rewards, read_rewards
from maxatk.evaluation.folder import MANIFEST, RESULTS, SAMPLES, SCORES
from maxatk.evaluation.results import CEILING, Results, read_results, recorded_threshold
from maxatk.evaluation.score_tally import ScoreTally
from maxatk.evaluation.store import Key, read_records
from maxatk.folders import read_json
from maxatk.jsonl import read_typed, visit_typed
from maxatk.records import Sample, Score

ResultsSource = str | Path | Results | Mapping[str, Any]


def load_results(
    source: ResultsSource,
    *,
    ks: Sequence[int] = (),
    threshold: float | None = None,
    column: str | None = None,
    mapping: Mapping[str, str] | None = None,
) -> Results:
    """Return the results of a run.

    Args:
        source: Results, their JSON object or file, the folder of a run, or a file of rewards: a
            table with the columns problem_id, sample and reward, or a log that is recognised.
        ks: The k that the results must have; computed from the scores where they lack one.
        threshold: The reward from which a sample passes; the run's own, or 1, by default.
        column: A column of the scores that stands in for the reward; the run's own by default.
        mapping: Where a field is in a row of a file of rewards, as in `read_log`.

    Raises MissingFileError, DataError, InvalidValueError (a k above the samples; no scores for it).
    """
    several("k", ks, "integers")
    if not isinstance(source, Results | Mapping):
        allowed = (
            "results, their object, or the path of a run or of a file; of a data frame "
            "maxatk.evaluation.frame makes results"
        )
        require(isinstance(source, str | Path), "results", allowed, source)
        path = Path(source)
        if is_rewards(path):
            rewards = read_rewards(path, mapping=mapping, column=column)
            passes = 1.0 if threshold is None else threshold
            return rewards.results(ks=ks, threshold=passes, column=column)
    results, folder = _stored(source)
    if not results.ids:
        raise DataError(f"{folder or 'results'}: holds means alone, and no values of problems")
    if _answers(results, ks, threshold, column):
        return results
    if folder is None or not (folder / SCORES).is_file():
        reward = "the reward" if results.column is None else f"the column {results.column!r}"
        raise InvalidValueError(
            f"{folder or 'results'}: holds k = {', '.join(map(str, results.ks))} of {reward} for "
            f"the threshold {results.threshold!r}, and no scores from which others could be "
            "computed; name the folder of the run, with its scores.jsonl"
        )
    return results_of_folder(folder, ks=ks, threshold=threshold, column=column)


def _stored(source: ResultsSource) -> tuple[Results, Path | None]:
    """Return the results that are given or stored, and the folder of their run, if there is one."""
    if isinstance(source, Results):
        return source, None
    if isinstance(source, Mapping):
        return Results.from_json(source, place="results"), None
    path = Path(source)
    file = path / RESULTS if path.is_dir() else path
    if not file.is_file():
        of_a_run = "; a run has one when it has ended" if path.is_dir() else ""
        raise MissingFileError(f"{file}: no such results file{of_a_run}")
    return read_results(file), file.parent


def _answers(
    results: Results, ks: Sequence[int], threshold: float | None, column: str | None
) -> bool:
    """Return whether results are for these k, this threshold and this column; None is theirs."""
    return (
        all(k in results.ks for k in ks)
        and threshold in (None, results.threshold)
        and column in (None, results.column)
    )


def results_of_folder(
    folder: str | Path,
    *,
    ks: Sequence[int] = (),
    threshold: float | None = None,
    column: str | None = None,
) -> Results:
    """Return the results of the scores in a folder, as `evaluate` and `score` compute them.

    `ks` are beside 1, 2, 4, ...; `threshold` and `column` are as in `load_results`.

    Raises MissingFileError without scores.jsonl, DataError for a corrupt line or no scores at
    all, InvalidValueError for a k above the number of samples or a column that no score has.
    """
    folder = as_path("folder", folder)
    before = read_results(folder / RESULTS) if (folder / RESULTS).is_file() else None
    manifest: dict[str, Any] = {}
    if before is not None:
        # What the run took for its reward, and from where a sample passes, stay what they were.
        column = before.column if column is None else column
        threshold = before.passes_from if threshold is None else threshold
        manifest = before.manifest
    elif (folder / MANIFEST).is_file():
        manifest = read_json(folder / MANIFEST)
    scores = _counted(folder, column)
    ids = scores.problem_ids
    meta: Sequence[Mapping[str, Any]] | None = None
    if before is not None and set(before.ids) == set(ids):  # not so where the run has grown since
        ids = list(before.ids)
        meta = before.per_problem.meta
    samples = folder / SAMPLES
    return build_results(
        ids,
        read_typed(samples, Sample) if samples.is_file() else None,
        scores,
        manifest=manifest,
        ks=ks,
        threshold=recorded_threshold(manifest) if threshold is None else threshold,
        meta=meta,
    )


def scores_of_folder(folder: str | Path) -> ScoreTally:
    """Return the scores of a run, counted by its own reward; raises as `results_of_folder`."""
    return _counted(Path(folder), reward_column(folder))


def rewarded_scores(folder: str | Path, *, column: str | None = None) -> dict[Key, Score]:
    """Return the scores of a run by problem and sample, with what its results count as `reward`.

    Where a `column` stands in for it, by default the one that does so in the results, that is the
    number in the column, and None for a sample without one. Raises as `read_records`.
    """
    folder = Path(folder)
    scores = read_records(folder / SCORES, Score)
    column = reward_column(folder) if column is None else column
    if column is None:
        return scores
    tally = ScoreTally(column=column)
    return {
        key: dataclasses.replace(score, reward=tally.reward_of(score))
        for key, score in scores.items()
    }


def reward_column(folder: str | Path) -> str | None:
    """Return the column that stands in for the reward in a run's results; None for none."""
    path = Path(folder) / RESULTS
    return read_results(path).column if path.is_file() else None


def recorded_problems(folder: str | Path) -> str | None:
    """Return the file, or the benchmark, of a run's problems as its results name it, or None."""
    path = Path(folder) / RESULTS
    source = read_results(path).recorded("problems_file") if path.is_file() else None
    return source if isinstance(source, str) else None


def passing_reward(folder: str | Path) -> float:
    """Return the reward from which a sample of a run passes: that of its files, else 1."""
    results = Path(folder) / RESULTS
    if results.is_file():
        return read_results(results).passes_from
    manifest = Path(folder) / MANIFEST
    return recorded_threshold(read_json(manifest)) if manifest.is_file() else CEILING


def _counted(folder: Path, column: str | None) -> ScoreTally:
    scores = ScoreTally(column=column)
    path = folder / SCORES
    visit_typed(path, Score, scores.add)
    if not scores.problem_ids:
        raise DataError(f"{path}: holds no scores")
    return scores
