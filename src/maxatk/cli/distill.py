"""The command `distill`: best-of-N distillation from a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from maxatk.cli import output
from maxatk.cli.flags import set_threads
from maxatk.cli.output import OutputFormat, facts_text
from maxatk.cli.progress import ProgressMode, progress_of
from maxatk.settings import from_mapping, read_recipe

_PARTS = {"samples": "samples drawn", "scores": "verified", "steps": "optimizer steps"}


def command(
    recipe: Annotated[Path, tyro.conf.Positional],
    overrides: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    /,
    dry_run: bool = False,
    format: OutputFormat = "text",
    progress: ProgressMode = "auto",
) -> None:
    """Train a model to answer at once as its best of k samples would.

    The samples of each problem are weighed by their chance to be the best of k, and the model is
    fitted to them with TRL's SFTTrainer. If interrupted, rerun the same command: it resumes.

    Example: maxatk distill mini/distill.yaml k=8 rounds=3

    Args:
        recipe: A YAML file with model, problems, out, k, run or eval, rounds, problems_of_a_round,
            trainer and peft.
        overrides: Settings that win over the recipe, such as k=8 out=runs/k8.
        dry_run: Check all that needs no weights, show what the run would do, and stop.
    """
    output.refuse_two_outputs(format, progress)
    settings = read_recipe(recipe, overrides)
    set_threads(str(settings.get("model")))
    from maxatk.train import DistillRecipe, distill, plan_distillation  # takes seconds to import

    chosen = from_mapping(DistillRecipe, settings, where="recipe")
    if dry_run:
        plan = plan_distillation(chosen)
        text = f"{facts_text(plan)}\nthe settings are fine"
        output.emit_facts(plan, format, text=text)
        return
    # Samples and steps are no sum; where samples are drawn, their number says how far it is.
    counted = ("samples", "scores") if chosen.run is None else ("steps",)
    with progress_of("distill", progress, parts=_PARTS, counted=counted) as report:
        out = distill(chosen, progress=report)
    if progress != "json":
        print(f"distilled model: {out}")
