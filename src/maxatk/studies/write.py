"""What a finished study leaves: results.json, tables, figures and one page."""

from __future__ import annotations

from pathlib import Path

from maxatk.evaluation.folder import RESULTS
from maxatk.folders import read_training, write_json
from maxatk.report.figures import entropy_figure, figure1
from maxatk.report.page import write_report
from maxatk.studies.demo import remarks
from maxatk.studies.findings import StudiedModel, Study, build_study, pooled
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
    comparison = pooled(models, baseline=recipe.baseline)
    pairs = paired_names(recipe.variants, recipe.pairs)
    study = build_study(models, comparison, title=recipe.title, pairs=pairs)
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / RESULTS, study.to_json())
    write_tables(study, out / "tables")
    for suffix in ("svg", "pdf"):
        figure1(comparison, out / "figures" / f"metric.{suffix}")
        entropy_figure(comparison, out / "figures" / f"entropy.{suffix}")
    seed, *others = recipe.seeds
    results = {run.name: run.results for run in comparison.runs}
    write_report(
        comparison if others else comparison.seeds[0],
        out / PAGE,
        title=recipe.title,
        # Of one seed: the curves of all would hide each other.
        curves=[
            {"name": model.name, **read_training(model.trainings[seed])}
            for model in models
            if seed in model.trainings
        ],
        remarks=None if others else remarks(recipe, results),
    )
    return study


def studied_models(recipe: StudyRecipe) -> list[StudiedModel]:
    """Return the models of a study with their folders, the base first."""
    work, found = recipe.work_folder, {}
    for place in places(recipe):
        name, levels = place.variant.name, place.variant.levels
        model = found.setdefault(name, StudiedModel(name, levels, {}, {}))
        model.evaluations[place.seed] = work / place.chain["eval"]
        if place.training is not None:
            model.trainings[place.seed] = work / place.training
    return list(found.values())
