"""What a finished study leaves: its results, tables, figures and one page with its conclusion."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from maxatk.evaluation.folder import RESULTS
from maxatk.folders import read_training, write_json
from maxatk.report.comparison import ALPHA, Comparison
from maxatk.report.figures import entropy_figure, figure1
from maxatk.report.page import write_report
from maxatk.report.tables import change, change_interval, three_decimals
from maxatk.statistics.intervals import FloatArray, student_mean
from maxatk.studies.findings import Study, build_study, logged_until, pooled_models
from maxatk.studies.findings_tables import write_tables
from maxatk.studies.front import Beyond, Front, front_of
from maxatk.studies.front_figure import front_figure
from maxatk.studies.problem_values import write_problem_values
from maxatk.studies.recipe import StudyRecipe
from maxatk.studies.schedule import Place

PAGE = "report.html"
MANY = 128  # the number of answers of which a demo's conclusion speaks
MODELS = ("base", "grpo", "bon_loo1")
SEEDS = "recipes/mini/demo_seeds.csv"  # max@k of the demo's recipe on other seeds
AT_OTHER_TEMPERATURES = (
    "All of this is sampled at temperature 1. At the best temperature for each, the model before "
    "training has 0.33 at 1, 0.62 at 8 and 0.94 at 128 on four other seeds."
)


def write_study(recipe: StudyRecipe, places: Sequence[Place]) -> Study:
    """Write everything below the study's folder `out`, when all stages have finished."""
    out = Path(recipe.out)
    front_ks = [] if recipe.front is None else recipe.front.ks
    comparison = pooled_models(places, baseline=recipe.baseline, ks=[*recipe.ks, *front_ks])
    front = _front(recipe, places, comparison)
    pairs = recipe.paired_names()
    study = build_study(
        places, comparison, title=recipe.title, pairs=pairs, ks=recipe.ks, front=front
    )
    write_tables(study, out / "tables")
    write_problem_values(comparison, study.seeds, out)
    write_json(out / RESULTS, study.to_json())
    shown = comparison if front is None else _at_their_best(comparison, front)
    for suffix in ("svg", "pdf"):
        figure1(shown, out / "figures" / f"metric.{suffix}")
        entropy_figure(shown, out / "figures" / f"entropy.{suffix}")
        if front is not None:
            front_figure(front, comparison, out / "figures" / f"front.{suffix}")
    several = len(recipe.seeds) > 1
    sentences = [] if several else remarks(recipe, comparison)
    write_report(
        shown if several else shown.seeds[0],  # that of one seed has its samples
        out / PAGE,
        title=recipe.title,
        curves=_curves(places, shown.names, seed=recipe.seeds[0]),
        remarks=sentences if front is None else [*sentences, *front_sentences(front)],
    )
    return study


def _front(recipe: StudyRecipe, places: Sequence[Place], comparison: Comparison) -> Front | None:
    settings = recipe.front
    if settings is None:
        return None
    choice = None
    if recipe.chooses_on_problems:
        choice = pooled_models(places, baseline=recipe.baseline, ks=settings.ks, choosing=True)
    methods = {model.name: model.method for model in recipe.variants if model.levels}
    return front_of(comparison, methods, rivals=settings.rivals, ks=settings.ks, choice=choice)


def _at_their_best(comparison: Comparison, front: Front) -> Comparison:
    """Return the baseline and every method's best model for the largest N: all would be too many.

    They are those that all seeds choose.
    """
    largest = max(best.aim for best in front.best)
    names = {best.model for best in front.best if best.aim == largest}
    names.add(comparison.baseline.name)
    return Comparison(
        tuple(run for run in comparison.runs if run.name in names),
        tuple(
            Comparison(tuple(run for run in part.runs if run.name in names))
            for part in comparison.seeds
        ),
    )


def front_sentences(front: Front) -> list[str]:
    """Say for every N where the methods that are no rivals are beyond every rival's front."""
    sentences = []
    for aim in dict.fromkeys(test.aim for test in front.beyond):
        tests = [test for test in front.beyond if test.aim == aim]
        clear = [test for test in tests if test.adjusted_p <= ALPHA and test.difference is not None]
        above = [test for test in clear if (test.difference or 0.0) > 0]
        text = (
            f"Best of {aim}: beyond the rivals' front in {len(above)} of {len(tests)} comparisons "
            f"above floors of max@1, below it in {len(clear) - len(above)}"
        )
        if above:
            most = max(above, key=lambda test: test.difference or 0.0)
            text += (
                f"; most by {change(most.difference)} {_ends(most)}, {most.model} against "
                f"{most.rival} for max@1 of at least {three_decimals(most.floor)}"
            )
        sentences.append(f"{text}.")
    return sentences


def _ends(test: Beyond) -> str:
    """Return the interval of a difference, which it lacks where it is the same everywhere."""
    if test.low is None or test.high is None:
        return "(the same everywhere)"
    return change_interval(test.low, test.high)


def _curves(places: Sequence[Place], names: Sequence[str], *, seed: int) -> list[dict[str, Any]]:
    """Return the logs of the trainings of one seed: the curves of all would hide each other.

    That of a checkpoint ends there.
    """
    curves = []
    for place in places:
        if place.seed == seed and place.training and place.variant.name in names:
            record = read_training(place.training)
            history = logged_until(record, place.variant.checkpoint)
            curves.append({"name": place.variant.name, **record, "log_history": history})
    return curves


def remarks(recipe: StudyRecipe, comparison: Comparison) -> list[str]:
    """Return what a study of one seed of the built-in model says of `MODELS`, if it has them."""
    k = (recipe.train or {}).get("trainer", {}).get("k")
    values = {}
    for run in comparison.runs:
        cell = run.results.metrics["max@k"].get(MANY)
        if cell is not None and cell.mean is not None:
            values[run.name] = cell.mean
    if recipe.mini is None or not k or not values.keys() >= set(MODELS):
        return []
    base, grpo, ours = (_other_seeds(model) for model in MODELS)
    others = (
        f"On {len(base)} other seeds, each with its own problems, at a learning rate of 3e-4, GRPO "
        f"minus the model before training at {MANY} is {_interval(grpo - base)}, and max@8 "
        f"training minus GRPO is {_interval(ours - grpo)}, with 95% intervals over seeds."
    )
    smaller = (
        "The learning rate decides it: on five of these seeds GRPO at half of this one loses "
        "nothing there, and max@8 training shows no gain over it."
    )
    return [*_this_run(values, k), others, smaller, AT_OTHER_TEMPERATURES]


def _other_seeds(model: str) -> FloatArray:
    """Return max@128 of a model of the demo on each of the seeds of `SEEDS`."""
    text = (resources.files("maxatk") / SEEDS).read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return np.array([float(row[str(MANY)]) for row in rows if row["model"] == model])


def _this_run(values: Mapping[str, float], k: int) -> list[str]:
    called = {
        "grpo": "after GRPO",
        "base": "before training",
        "bon_loo1": f"after max@{k} training",
    }
    ascending = sorted(MODELS, key=lambda model: values[model])
    *lower, highest = [f"{values[model]:.2f} {called[model]}" for model in ascending]
    worth = f"Of {MANY} answers, the best is worth {', '.join(lower)} and {highest}."
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
