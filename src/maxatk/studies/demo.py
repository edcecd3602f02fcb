"""What a demo says at its end: its conclusion, beside what eight other seeds showed."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from importlib import resources

import numpy as np

from maxatk.evaluation.results import Results
from maxatk.report.page import Remarks
from maxatk.report.tables import share, table_of_rows
from maxatk.statistics.intervals import FloatArray, student_mean
from maxatk.studies.recipe import StudyRecipe

MANY = 128
"""The number of answers of which a demo's conclusion speaks."""

MODELS = ("base", "grpo", "bon_loo1")
SEEDS = "recipes/mini/demo_seeds.csv"
"""max@k after the demo's recipe on other seeds: model, seed, and a column for each k."""


def remarks(recipe: StudyRecipe, results: Mapping[str, Results]) -> Remarks | None:
    """Return what a study of one seed of the built-in model says of results by model.

    None for another model, for a training without k, and without `MODELS` and max@128.
    """
    k = recipe.train.get("trainer", {}).get("k")
    best = {name: found.metrics["max@k"].get(MANY) for name, found in results.items()}
    values = {name: mean.mean for name, mean in best.items() if mean and mean.mean is not None}
    if recipe.mini is None or not k or not set(MODELS) <= set(values):
        return None
    text = (resources.files("maxatk") / SEEDS).read_text(encoding="utf-8")
    _, _, *ks = next(csv.reader(text.splitlines()))
    rows = list(csv.DictReader(text.splitlines()))  # the seeds of every model in one order
    found = {
        name: np.array([[float(row[k]) for k in ks] for row in rows if row["model"] == name])
        for name in MODELS
    }
    many = {name: scores[:, ks.index(str(MANY))] for name, scores in found.items()}
    seeds = len(many["base"])
    others = (
        f"On {seeds} other seeds, GRPO minus the model before training at {MANY} is "
        f"{_interval(many['grpo'] - many['base'])}, and max@8 training minus GRPO is "
        f"{_interval(many['bon_loo1'] - many['grpo'])}."
    )
    means = ([name, *map(share, scores.mean(axis=0))] for name, scores in found.items())
    table = table_of_rows(("model", *(f"max@{k}" for k in ks)), means)
    caption = f"The mean of {seeds} other seeds of the demo's recipe."
    return Remarks([*_this_run(values, k), others], table, caption)


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
    """Return the mean over seeds, its 95% t-interval, and how many seeds are above 0."""
    mean = student_mean(differences[:, None])
    return (
        f"{mean.mean[0]:+.3f} [{mean.low[0]:.3f}, {mean.high[0]:.3f}] "
        f"({(differences > 0).sum()} of {len(differences)} above 0)"
    )
