"""What the demo concludes: one seed of the built-in model, beside other seeds of its recipe."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from importlib import resources

import numpy as np

from maxatk.report.comparison import Comparison
from maxatk.statistics.intervals import FloatArray, student_mean
from maxatk.studies.recipe import StudyRecipe

DEMO_MODELS = ("base", "grpo", "bon_loo1")
ANSWERS = 128  # of which the best is spoken of
OTHER_SEEDS = "recipes/mini/demo_seeds.csv"  # a table of the package: max@k of the DEMO_MODELS
AT_OTHER_TEMPERATURES = (
    "All of this is sampled at temperature 1. At the best temperature for each, the model before "
    "training has 0.33 at 1, 0.62 at 8 and 0.94 at 128 on four other seeds."
)


def demo_conclusion(recipe: StudyRecipe, comparison: Comparison) -> list[str]:
    """Return the sentences about one seed of the built-in model, if it has the `DEMO_MODELS`."""
    k = (recipe.train or {}).get("trainer", {}).get("k")
    values = {}
    for run in comparison.runs:
        cell = run.results.metrics["max@k"].get(ANSWERS)
        if cell is not None and cell.mean is not None:
            values[run.name] = cell.mean
    if recipe.mini is None or not k or not values.keys() >= set(DEMO_MODELS):
        return []
    base = _on_other_seeds("base")
    grpo = _on_other_seeds("grpo")
    bon_loo1 = _on_other_seeds("bon_loo1")
    on_other_seeds = (
        f"On {len(base)} other seeds, each with its own problems, at a learning rate of 3e-4, GRPO "
        f"minus the model before training at {ANSWERS} is {_interval(grpo - base)}, and max@8 "
        f"training minus GRPO is {_interval(bon_loo1 - grpo)}, with 95% intervals over seeds."
    )
    at_smaller_rate = (
        "The learning rate decides it: on five of these seeds GRPO at half of this one loses "
        "nothing there, and max@8 training shows no gain over it."
    )
    return [*_on_this_seed(values, k), on_other_seeds, at_smaller_rate, AT_OTHER_TEMPERATURES]


def _on_other_seeds(model: str) -> FloatArray:
    """Return max@128 of a model of the demo on each of the `OTHER_SEEDS`."""
    text = (resources.files("maxatk") / OTHER_SEEDS).read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return np.array([float(row[str(ANSWERS)]) for row in rows if row["model"] == model])


def _on_this_seed(values: Mapping[str, float], k: int) -> list[str]:
    """Return what the best of the answers is worth by the `values` of this run, and a verdict."""
    moments = {
        "grpo": "after GRPO",
        "base": "before training",
        "bon_loo1": f"after max@{k} training",
    }
    ascending = sorted(DEMO_MODELS, key=lambda model: values[model])
    *lower, highest = [f"{values[model]:.2f} {moments[model]}" for model in ascending]
    worth = f"Of {ANSWERS} answers, the best is worth {', '.join(lower)} and {highest}."
    if values["grpo"] < min(values["base"], values["bon_loo1"]):
        verdict = (
            "Ordinary training lost part of it, and training for the best of k kept more of it."
        )
    else:
        verdict = (
            "This run does not show what the other seeds show: ordinary training loses part of "
            "it, and training for the best of k keeps more."
        )
    return [worth, verdict]


def _interval(differences: FloatArray) -> str:
    mean = student_mean(differences[:, None])
    return (
        f"{mean.mean[0]:+.3f} [{mean.low[0]:.3f}, {mean.high[0]:.3f}] "
        f"({(differences > 0).sum()} of {len(differences)} above 0)"
    )
