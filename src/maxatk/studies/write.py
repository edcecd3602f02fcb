"""What a finished study leaves: results.json, tables, figures and one page with its conclusion."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

import numpy as np

from maxatk.evaluation.folder import RESULTS
from maxatk.folders import read_training, write_json
from maxatk.report.comparison import Comparison
from maxatk.report.figures import entropy_figure, figure1
from maxatk.report.page import write_report
from maxatk.statistics.intervals import FloatArray, student_mean
from maxatk.studies.findings import Study, build_study, pooled_models, write_tables
from maxatk.studies.recipe import StudyRecipe
from maxatk.studies.schedule import Place

PAGE = "report.html"
MANY = 128  # the number of answers of which a demo's conclusion speaks
MODELS = ("base", "grpo", "bon_loo1")
SEEDS = "recipes/mini/demo_seeds.csv"  # max@k of the demo's recipe on other seeds


def write_study(recipe: StudyRecipe, places: Sequence[Place]) -> Study:
    """Write everything below the study's folder `out`, when all stages have finished."""
    out, pairs = Path(recipe.out), recipe.paired_names()
    comparison = pooled_models(places, baseline=recipe.baseline)
    study = build_study(places, comparison, title=recipe.title, pairs=pairs)
    write_tables(study, out / "tables")
    write_json(out / RESULTS, study.to_json())
    for suffix in ("svg", "pdf"):
        figure1(comparison, out / "figures" / f"metric.{suffix}")
        entropy_figure(comparison, out / "figures" / f"entropy.{suffix}")
    seed, *others = recipe.seeds
    write_report(
        comparison if others else comparison.seeds[0],  # with its samples
        out / PAGE,
        title=recipe.title,
        # Of one seed: the curves of all would hide each other.
        curves=[
            {"name": place.variant.name, **read_training(place.training)}
            for place in places
            if place.seed == seed and place.training
        ],
        remarks=[] if others else remarks(recipe, comparison),
    )
    return study


def remarks(recipe: StudyRecipe, comparison: Comparison) -> list[str]:
    """Return what a study of one seed of the built-in model says of `MODELS`, if it has them."""
    k = recipe.train.get("trainer", {}).get("k")
    best = {run.name: run.results.metrics["max@k"].get(MANY) for run in comparison.runs}
    values = {name: mean.mean for name, mean in best.items() if mean and mean.mean is not None}
    if recipe.mini is None or not k or not values.keys() >= set(MODELS):
        return []
    text = (resources.files("maxatk") / SEEDS).read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))  # the seeds of every model in one order
    base, grpo, ours = (
        np.array([float(row[str(MANY)]) for row in rows if row["model"] == name]) for name in MODELS
    )
    others = (
        f"On {len(base)} other seeds, each with its own problems, at a learning rate of 3e-4, GRPO "
        f"minus the model before training at {MANY} is {_interval(grpo - base)}, and max@8 "
        f"training minus GRPO is {_interval(ours - grpo)}."
    )
    smaller = (
        "The learning rate decides it: at half of this one GRPO loses nothing there, and max@8 "
        "training shows no gain over it."
    )
    return [*_this_run(values, k), others, smaller]


def _this_run(values: Mapping[str, float], k: int) -> list[str]:
    named = {"grpo": "after GRPO", "base": "before training", "bon_loo1": f"after max@{k} training"}
    *most, last = [f"{values[n]:.2f} {named[n]}" for n in sorted(MODELS, key=lambda n: values[n])]
    shown = values["grpo"] < min(values["base"], values["bon_loo1"])
    return [
        f"Of {MANY} answers, the best is worth {', '.join(most)} and {last}.",
        "Ordinary training lost part of it, and training for the best of k kept more of it."
        if shown
        else "This run does not show what the other seeds show: ordinary training loses part of "
        "it, and training for the best of k keeps more.",
    ]


def _interval(differences: FloatArray) -> str:
    mean = student_mean(differences[:, None])
    return (
        f"{mean.mean[0]:+.3f} [{mean.low[0]:.3f}, {mean.high[0]:.3f}] "
        f"({(differences > 0).sum()} of {len(differences)} above 0)"
    )
