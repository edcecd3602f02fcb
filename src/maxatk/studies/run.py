"""What a finished study leaves: results.json, tables, figures and one page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maxatk.folders import write_json
from maxatk.report import write_report
from maxatk.studies.figures import write_figures
from maxatk.studies.plan import StudyRecipe, paired_names, places
from maxatk.studies.study import StudiedModel, Study, build_study, log_history, pooled
from maxatk.studies.tables import write_tables

RESULTS = "results.json"


def write_study(recipe: StudyRecipe) -> Study:
    """Write everything below the study's folder `out` and return the study.

    All stages must have finished.
    """
    out = Path(recipe.out)
    models = _models(recipe)
    results = pooled(models)
    study = build_study(
        models,
        results,
        title=recipe.title,
        baseline=recipe.baseline,
        pairs=paired_names(recipe),
    )
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / RESULTS, study.to_json())
    write_tables(study, out / "tables")
    write_figures(study, out / "figures", recipe.figures)
    write_report(
        results,
        out / "report.html",
        title=recipe.title,
        baseline=recipe.baseline,
        curves=_curves(models, recipe.seeds[0]),
    )
    return study


def _models(recipe: StudyRecipe) -> list[StudiedModel]:
    work = Path(recipe.work)
    evaluations: dict[str, dict[int, Path]] = {}
    trainings: dict[str, dict[int, Path]] = {}
    levels: dict[str, Mapping[str, str]] = {}
    for place in places(recipe):
        name = place.cell.name
        levels[name] = place.cell.levels
        evaluations.setdefault(name, {})[place.seed] = work / place.evaluation
        trained = trainings.setdefault(name, {})
        if place.training is not None:
            trained[place.seed] = work / place.training
    return [StudiedModel(n, levels[n], evaluations[n], trainings[n]) for n in levels]


def _curves(models: list[StudiedModel], seed: int) -> list[dict[str, Any]]:
    """Return the training curves of one seed: those of all seeds would hide each other."""
    return [
        {"name": model.name, "log_history": log_history(model.trainings[seed])}
        for model in models
        if seed in model.trainings
    ]
