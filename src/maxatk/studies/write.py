"""What a finished study leaves: its results, tables, figures and one page with its conclusion."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maxatk.evaluation.folder import RESULTS
from maxatk.folders import read_training, write_json
from maxatk.report.comparison import ALPHA, Comparison
from maxatk.report.figures import entropy_figure, figure1
from maxatk.report.page import write_report
from maxatk.report.tables import change, change_interval, three_decimals
from maxatk.studies.demo_conclusion import demo_conclusion
from maxatk.studies.findings import Study, build_study, logged_until, pooled_models
from maxatk.studies.findings_tables import write_tables
from maxatk.studies.front import Front, RivalTest, front_of
from maxatk.studies.front_figure import front_figure
from maxatk.studies.problem_values import write_problem_values
from maxatk.studies.recipe import StudyRecipe
from maxatk.studies.schedule import SeededModel

PAGE = "report.html"


def write_study(recipe: StudyRecipe, seeded_models: Sequence[SeededModel]) -> Study:
    """Write everything below the study's folder `out`, when all stages have finished."""
    out = Path(recipe.out)
    front_ks = [] if recipe.front is None else recipe.front.ks
    comparison = pooled_models(seeded_models, baseline=recipe.baseline, ks=[*recipe.ks, *front_ks])
    front = _front(recipe, seeded_models, comparison)
    pairs = recipe.paired_names()
    study = build_study(
        seeded_models, comparison, title=recipe.title, pairs=pairs, ks=recipe.ks, front=front
    )
    write_tables(study, out / "tables")
    write_problem_values(comparison, study.seeds, out)
    write_json(out / RESULTS, study.to_json())
    shown = comparison if front is None else _at_their_best(comparison, front)
    for suffix in ("svg", "pdf"):
        figure1(shown, out / "figures" / f"metric.{suffix}")
        entropy_figure(shown, out / "figures" / f"entropy.{suffix}")
        drawn_front = out / "figures" / f"front.{suffix}"
        if front is not None:
            front_figure(front, comparison, drawn_front)
        else:
            drawn_front.unlink(missing_ok=True)  # of the same study with other settings
    has_several_seeds = len(recipe.seeds) > 1
    sentences = [] if has_several_seeds else demo_conclusion(recipe, comparison)
    write_report(
        shown if has_several_seeds else shown.seeds[0],  # that of one seed has its samples
        out / PAGE,
        title=recipe.title,
        curves=_curves(seeded_models, shown.names, seed=recipe.seeds[0]),
        remarks=sentences if front is None else [*sentences, *front_sentences(front)],
    )
    return study


def _front(
    recipe: StudyRecipe, seeded_models: Sequence[SeededModel], comparison: Comparison
) -> Front | None:
    settings = recipe.front
    if settings is None:
        return None
    choice = None
    if recipe.chooses_on_problems:
        choice = pooled_models(
            seeded_models, baseline=recipe.baseline, ks=settings.ks, choosing=True
        )
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


def _ends(test: RivalTest) -> str:
    """Return the interval of a difference, which it lacks where it is the same everywhere."""
    if test.low is None or test.high is None:
        return "(the same everywhere)"
    return change_interval(test.low, test.high)


def _curves(
    seeded_models: Sequence[SeededModel], names: Sequence[str], *, seed: int
) -> list[dict[str, Any]]:
    """Return the logs of the trainings of one seed: the curves of all would hide each other.

    That of a checkpoint ends there.
    """
    curves = []
    for model in seeded_models:
        if model.seed == seed and model.training and model.variant.name in names:
            record = read_training(model.training)
            history = logged_until(record, model.variant.checkpoint)
            curves.append({"name": model.variant.name, **record, "log_history": history})
    return curves
