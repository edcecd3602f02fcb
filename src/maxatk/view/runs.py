"""The trainings and evaluations in folders, each as a page watches it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from maxatk.check import existing_folder
from maxatk.errors import MissingFileError
from maxatk.evaluation.folder import SCORES
from maxatk.training.group_log import GROUPS
from maxatk.view.watched_evaluation import WatchedEvaluation
from maxatk.view.watched_training import WatchedTraining


def runs_in(folders: Mapping[str, Path]) -> dict[str, WatchedTraining | WatchedEvaluation]:
    """Return the runs of folders, of a study several; raises MissingFileError where is none."""
    runs: dict[str, WatchedTraining | WatchedEvaluation] = {}
    for name, folder in folders.items():
        existing_folder("folder", folder)
        of_folder = _run_or_runs(name, folder)
        if not of_folder:
            raise MissingFileError(
                f"{folder}: holds no {GROUPS}, which a training writes unless its log_groups is "
                f"0, no {SCORES} of an evaluation, and no folder that does"
            )
        runs |= of_folder
    return runs


def _run_or_runs(name: str, folder: Path) -> dict[str, WatchedTraining | WatchedEvaluation]:
    run = _run_of(folder)
    if run is not None:
        return {name: run}
    # A folder of runs, or of a study, which has them in `work`.
    runs = {}
    for path in sorted([*folder.glob("*"), *folder.glob("work/*")]):
        inner = _run_of(path)
        if inner is not None:
            runs[path.name] = inner
    return runs


def _run_of(folder: Path) -> WatchedTraining | WatchedEvaluation | None:
    if (folder / GROUPS).is_file():
        return WatchedTraining(folder)
    if (folder / SCORES).is_file():
        return WatchedEvaluation(folder)
    return None
