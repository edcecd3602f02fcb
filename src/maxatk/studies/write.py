"""What a finished study leaves: results.json, tables, figures and one page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from maxatk.evaluation.folder import RESULTS
from maxatk.folders import read_training, write_json
from maxatk.report import write_report
from maxatk.studies.demo import remarks
from maxatk.studies.figures import write_figures
from maxatk.studies.findings import StudiedModel, Study, build_study
from maxatk.studies.recipe import StudyRecipe, paired_names
from maxatk.studies.schedule import places
from maxatk.studies.tables import write_tables

PAGE = "report.html"


def write_study(recipe: StudyRecipe) -> Study:
    """Write everything below the study's folder `out` and return the study.

    The page of a single seed shows its samples problem by problem; that of several has the
    problems of all of them. All stages must have finished.
    """
    out = Path(recipe.out)
    models = studied_models(recipe)
    study = build_study(
        models,
        title=recipe.title,
        baseline=recipe.baseline,
        pairs=paired_names(recipe.variants, recipe.pairs),
    )
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / RESULTS, study.to_json())
    write_tables(study, out / "tables")
    write_figures(study, out / "figures", list(recipe.figures))
    seed, *others = recipe.seeds
    results = {run.name: run.results for run in study.comparison.runs}
    write_report(
        study.comparison if others else study.comparison.seeds[0],
        out / PAGE,
        title=recipe.title,
        curves=_curves(models, seed),
        remarks=None if others else remarks(recipe, results),
    )
    return study


def studied_models(recipe: StudyRecipe) -> list[StudiedModel]:
    """Return the models of a study with their folders, the base first."""
    work, everywhere = recipe.work_folder, places(recipe)
    found = []
    for model in recipe.variants:
        mine = [place for place in everywhere if place.variant.name == model.name]
        evaluations = {place.seed: work / place.chain["eval"] for place in mine}
        trainings = {p.seed: work / p.training for p in mine if p.training is not None}
        found.append(StudiedModel(model.name, model.levels, evaluations, trainings))
    return found


def _curves(models: list[StudiedModel], seed: int) -> list[dict[str, Any]]:
    """Return the training curves of one seed: those of all seeds would hide each other."""
    return [
        {"name": model.name, **read_training(model.trainings[seed])}
        for model in models
        if seed in model.trainings
    ]
