"""The trainings and evaluations in folders, each as a page watches it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from maxatk.check import existing_folder
from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.evaluation.folder import SCORES, refuse_file
from maxatk.folders import STAGE_NAMES, read_json
from maxatk.training.group_log import GROUPS
from maxatk.view.watched_evaluation import WatchedEvaluation
from maxatk.view.watched_training import WatchedTraining

WatchedRun: TypeAlias = WatchedTraining | WatchedEvaluation


def runs_in(folders: Mapping[str, Path]) -> dict[str, WatchedRun]:
    """Return the runs of folders, of a study several, by name.

    A run inside a folder has its own name, behind that of the folder where there are several.

    Raises MissingFileError where a folder has no run, InvalidValueError for two runs of one name
    and without a folder.
    """
    if not folders:
        raise InvalidValueError("folders: give one or more of trainings, evaluations or studies")
    runs: dict[str, WatchedRun] = {}
    for name, folder in folders.items():
        refuse_file("folder", folder)
        existing_folder("folder", folder)
        run = _run_of(folder)
        if run is not None:
            of_folder = {name: run}
        else:
            of_folder = _inner_runs(folder, prefix=f"{name}/" if len(folders) > 1 else "")
        if not of_folder:
            raise MissingFileError(
                f"{folder}: holds no {GROUPS}, which a training writes unless its log_groups is "
                f"0, no {SCORES} of an evaluation, and no folder that does; those of a study are "
                "in its folder `work`"
            )
        for name_of_run in of_folder:
            if name_of_run in runs:
                raise InvalidValueError(
                    f"{name_of_run!r}: two runs have this name; every run needs a name of its own: "
                    "name=folder"
                )
        runs |= of_folder
    return runs


def _inner_runs(folder: Path, *, prefix: str) -> dict[str, WatchedRun]:
    """Return the runs inside a folder of runs, or of a study, which has them in `work`."""
    runs: dict[str, WatchedRun] = {}
    for outer in (folder, folder / "work"):
        names = _stage_names(outer)
        for path in sorted(outer.glob("*")):
            run = _run_of(path)
            if run is not None:
                name = prefix + names.get(path.name, path.name)
                if name in runs:
                    name = prefix + str(path.relative_to(folder))
                runs[name] = run
    return runs


def _stage_names(folder: Path) -> dict[str, str]:
    """Return what people call the folders in one of a study: its stages have digests as names."""
    names: dict[str, str] = {}
    with contextlib.suppress(DataError, OSError):
        for stage, name in read_json(folder / STAGE_NAMES).items():
            names[stage] = str(name)
    return names


def _run_of(folder: Path) -> WatchedRun | None:
    if (folder / GROUPS).is_file():
        return WatchedTraining(folder)
    if (folder / SCORES).is_file():
        return WatchedEvaluation(folder)
    return None
