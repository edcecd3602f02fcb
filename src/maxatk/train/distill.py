"""Best-of-N distillation: rounds of supervised training on what the best of k samples would be.

Each sample of a problem is weighted by its chance to be the best of k (`chance_of_best`).
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from maxatk.errors import DataError
from maxatk.evaluation.evaluation import UnitProgress
from maxatk.evaluation.folder import SAMPLES
from maxatk.evaluation.load import rewarded_scores
from maxatk.evaluation.run import evaluate
from maxatk.evaluation.run import plan as plan_drawing
from maxatk.evaluation.store import read_records
from maxatk.exchange.export import Exported, sft_rows
from maxatk.models import load_tokenizer, quiet_libraries
from maxatk.problems import load_problems, problems_by_id
from maxatk.records import Problem, Sample
from maxatk.train.distill_recipe import DistillRecipe, checked_settings, config_of
from maxatk.train.fit import fit
from maxatk.train.folder import (
    alone_in,
    check_plan,
    has_finished,
    out_folder,
    refuse_to_go_on,
)
from maxatk.train.launch import process_count
from maxatk.train.recipe import lora_config
from maxatk.train.reporter import Reporter
from maxatk.train.start_checks import refuse_closed_hub
from maxatk.train.weighted_sft import WeightedSFTTrainer, sft_dataset


def distill(recipe: DistillRecipe, *, progress: UnitProgress | None = None) -> Path:
    """Distil the best of k as `recipe` says and return the folder of the distilled model.

    What is there already of the same recipe is kept and gone on with; another recipe is refused.
    `progress(done, total, part)` counts the "samples" and "scores" of all rounds, and the "steps"
    of the round that trains.

    Raises InvalidValueError, MissingFileError and MissingDependencyError as `train`, before any
    work, and DataError where no problem has samples of different rewards.
    """
    out = Path(recipe.out)
    folder = out_folder(recipe, "distill")
    folder.check_content()
    refuse_to_go_on(out, recipe)
    if has_finished(out, recipe):
        return out
    folder.check()
    refuse_closed_hub(checked_settings(recipe))
    with alone_in(folder):
        model = recipe.model
        for number in range(recipe.rounds):
            target = out if number + 1 == recipe.rounds else out / f"round-{number}"
            refuse_to_go_on(target, recipe)
            if not has_finished(target, recipe):
                _run_round(recipe, number, model=model, out=target, progress=progress)
            model = str(target)
    return out


def plan_distillation(recipe: DistillRecipe) -> dict[str, Any]:
    """Return what `distill` would draw and train on, after all its checks; raises as it does.

    `samples_to_draw` are those of all rounds; without `max_steps` the steps are known once it is
    known which samples are worth a place. The same distillation may be under way in the folder.
    """
    check_plan(out_folder(recipe, "distill"), recipe)
    config = checked_settings(recipe)
    drawing = recipe.eval_recipe(recipe.model, _samples_folder(recipe, 0), 0)
    samples = drawing.sampling.samples
    if recipe.run is None:
        problems = len(_problems_of_round(recipe, 0))
        plan_drawing(drawing)
    else:
        problems = len(load_problems(recipe.problems))
        _weighted_rows(recipe, Path(recipe.run))
    rows = config.train_batch_size * config.gradient_accumulation_steps
    return {
        "problems": problems,
        "samples_of_a_problem": samples if recipe.run is None else None,
        "samples_to_draw": problems * samples * recipe.rounds if recipe.run is None else 0,
        "rounds": recipe.rounds,
        "k": recipe.k,
        "epochs": config.num_train_epochs if config.max_steps <= 0 else None,
        "optimizer_steps_of_a_round": config.max_steps if config.max_steps > 0 else None,
        "rows_of_an_optimizer_step": rows * process_count(),
        "out": recipe.out,
    }


def _run_round(
    recipe: DistillRecipe,
    number: int,
    *,
    model: str,
    out: Path,
    progress: UnitProgress | None,
) -> None:
    """Train a model into `out` on its weighted samples, which are drawn where no run has them."""
    folder = _samples_folder(recipe, number)
    drawing = recipe.eval_recipe(model, folder, number)
    if recipe.problems_of_a_round is not None:
        problems = _problems_of_round(recipe, number)
        drawing = dataclasses.replace(drawing, problems=problems, limit=None)
    if recipe.run is None:
        evaluate(drawing, progress=_over_all_rounds(progress, number, recipe.rounds))
    rows = _weighted_rows(recipe, folder)
    with quiet_libraries():
        tokenizer = load_tokenizer(model, prompt=drawing.prompt)
        trainer = WeightedSFTTrainer(
            model=model,
            args=config_of(recipe, out),
            processing_class=tokenizer,
            train_dataset=sft_dataset(rows, tokenizer, drawing.prompt),
            peft_config=lora_config(recipe.peft),
        )
        if progress:
            trainer.add_callback(Reporter(lambda done, total: progress(done, total, "steps")))
        fit(trainer, recipe, out)


def _over_all_rounds(
    progress: UnitProgress | None, number: int, rounds: int
) -> UnitProgress | None:
    """Return what tells `progress` the samples of all rounds in place of those of round `number`.

    Every round has the same number of them.
    """
    if progress is None:
        return None
    tell = progress

    def tell_of_all(done: int, total: int, part: str) -> None:
        tell(number * total + done, rounds * total, part)

    return tell_of_all


def _problems_of_round(recipe: DistillRecipe, number: int) -> list[Problem]:
    """Return the problems for which a round draws.

    The rounds go through the problems in their order, and after the last begin again.
    """
    problems = load_problems(recipe.problems, limit=recipe.eval.get("limit"))
    size = recipe.problems_of_a_round
    if size is None:
        return problems
    first = number * size
    return [problems[index % len(problems)] for index in range(first, first + size)]


def _samples_folder(recipe: DistillRecipe, number: int) -> Path:
    """Return the folder with the samples of a round."""
    return Path(recipe.run or Path(recipe.out) / f"samples-{number}")


def _weighted_rows(recipe: DistillRecipe, folder: Path) -> list[dict[str, Any]]:
    """Return the rows of `sft_rows` of the samples in a folder; raise DataError where none is."""
    problems = problems_by_id(load_problems(recipe.problems), source=recipe.problems)
    samples = read_records(folder / SAMPLES, Sample)
    scores = rewarded_scores(folder)
    exported = [
        Exported(score, samples.get(key), problems.get(score.problem_id))
        for key, score in scores.items()
    ]
    rows = sft_rows(exported, k=recipe.k)
    if not rows:
        raise DataError(
            f"{folder}: no problem has samples of different rewards, so there is nothing to distil"
        )
    return rows
