"""What a finished study leaves: results.json, tables, figures and one page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maxatk.evaluation.folder import RESULTS
from maxatk.folders import TRAIN_RECORD, read_json, write_json
from maxatk.report import write_report
from maxatk.studies.findings import StudiedModel, Study, build_study, pooled
from maxatk.studies.grids import paired_names
from maxatk.studies.schedule import places
from maxatk.studies.study_figures import write_figures
from maxatk.studies.study_recipe import StudyRecipe
from maxatk.studies.study_tables import write_tables

PAGE = "report.html"


def write_study(recipe: StudyRecipe) -> Study:
    """Write everything below the study's folder `out` and return the study.

    The page of a single seed shows its samples problem by problem; that of several has the
    problems of all of them. All stages must have finished.
    """
    out = Path(recipe.out)
    models = studied_models(recipe)
    results = pooled(models)
    study = build_study(
        models,
        results,
        title=recipe.title,
        baseline=recipe.baseline,
        pairs=paired_names(recipe.variants, recipe.pairs),
    )
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / RESULTS, study.to_json())
    write_tables(study, out / "tables")
    write_figures(study, out / "figures", list(recipe.figures))
    seed, *others = recipe.seeds
    write_report(
        results if others else {model.name: model.evaluations[seed] for model in models},
        out / PAGE,
        title=recipe.title,
        baseline=recipe.baseline,
        curves=_curves(models, seed),
        seeds=[{model.name: model.evaluations[seed] for model in models} for seed in recipe.seeds],
    )
    return study


def studied_models(recipe: StudyRecipe) -> list[StudiedModel]:
    """Return the models of a study with their folders, the base first."""
    work = recipe.work_folder
    evaluations: dict[str, dict[int, Path]] = {}
    trainings: dict[str, dict[int, Path]] = {}
    levels: dict[str, Mapping[str, str]] = {}
    for place in places(recipe):
        name = place.variant.name
        levels[name] = place.variant.levels
        evaluations.setdefault(name, {})[place.seed] = work / place.evaluation
        trained = trainings.setdefault(name, {})
        if place.training is not None:
            trained[place.seed] = work / place.training
    return [StudiedModel(n, levels[n], evaluations[n], trainings[n]) for n in levels]


def _curves(models: list[StudiedModel], seed: int) -> list[dict[str, Any]]:
    """Return the training curves of one seed: those of all seeds would hide each other."""
    return [
        {"name": model.name, **read_json(model.trainings[seed] / TRAIN_RECORD)}
        for model in models
        if seed in model.trainings
    ]
