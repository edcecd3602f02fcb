"""What a demo says at its end: its conclusion, beside what eight other seeds showed."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from importlib import resources

import numpy as np

from maxatk.evaluation.results import Results
from maxatk.report.page import Remarks
from maxatk.report.tables import Cell, Table, share
from maxatk.statistics.intervals import FloatArray, student_mean
from maxatk.studies.recipe import StudyRecipe

MANY = 128
"""The number of answers of which a demo's conclusion speaks."""

MODELS = ("base", "grpo", "bon_loo1")
SEEDS = "recipes/mini/demo_seeds.csv"
"""max@k after the demo's recipe on other seeds: model, seed, and a column for each k."""

Scores = Mapping[str, Mapping[int, float]]
"""Model -> k -> max@k."""


def remarks(recipe: StudyRecipe, results: Mapping[str, Results]) -> Remarks | None:
    """Return what a study of one seed of the built-in model says of results by model.

    None for another model, for a training without k, and without `MODELS` and max@128.
    """
    k = recipe.train.get("trainer", {}).get("k")
    if recipe.mini is None or not k:
        return None
    best = {name: found.metrics["max@k"].get(MANY) for name, found in results.items()}
    values = {name: mean.mean for name, mean in best.items() if mean and mean.mean is not None}
    if not set(MODELS) <= set(values):
        return None
    found = _read()
    return Remarks(
        [*_this_run(values, k), _other_seeds(found)],
        Table(
            ("model", *(f"max@{size}" for size in next(iter(found.values()))["base"])),
            tuple(_row(name, [scores[name] for scores in found.values()]) for name in MODELS),
        ),
        f"The mean of {len(found)} other seeds of the demo's recipe.",
    )


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


def _other_seeds(found: Mapping[int, Scores]) -> str:
    lost, gained = _difference(found, "grpo", "base"), _difference(found, "bon_loo1", "grpo")
    return (
        f"On {len(found)} other seeds, GRPO minus the model before training at {MANY} is "
        f"{_interval(lost)}, and max@8 training minus GRPO is {_interval(gained)}."
    )


def _read() -> dict[int, dict[str, dict[int, float]]]:
    """Return seed -> model -> k -> max@k of the table that the package carries."""
    text = (resources.files("maxatk") / SEEDS).read_text(encoding="utf-8")
    found: dict[int, dict[str, dict[int, float]]] = {}
    for row in csv.DictReader(text.splitlines()):
        model, seed = row.pop("model"), int(row.pop("seed"))
        found.setdefault(seed, {})[model] = {int(k): float(value) for k, value in row.items()}
    return found


def _difference(found: Mapping[int, Scores], model: str, other: str) -> FloatArray:
    return np.array([scores[model][MANY] - scores[other][MANY] for scores in found.values()])


def _interval(differences: FloatArray) -> str:
    """Return the mean over seeds, its 95% t-interval, and how many seeds are above 0."""
    mean = student_mean(differences[:, None])
    return (
        f"{mean.mean[0]:+.3f} [{mean.low[0]:.3f}, {mean.high[0]:.3f}] "
        f"({(differences > 0).sum()} of {len(differences)} above 0)"
    )


def _row(name: str, by_seed: Sequence[Mapping[int, float]]) -> tuple[Cell, ...]:
    means = (sum(one[k] for one in by_seed) / len(by_seed) for k in by_seed[0])
    return (Cell(name), *(Cell(share(mean)) for mean in means))
