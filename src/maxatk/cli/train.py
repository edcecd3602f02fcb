"""The verb `train`: one training run from a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from maxatk.cli.preview import as_json, as_text
from maxatk.cli.progress import ProgressMode, progress_bar
from maxatk.cli.recipe import read_recipe
from maxatk.settings import from_mapping


def command(
    recipe: Annotated[Path, tyro.conf.Positional],
    overrides: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    /,
    dry_run: bool = False,
    progress: ProgressMode = "auto",
) -> None:
    """Train a model as a recipe says.

    Killed and started again, it goes on from the last checkpoint; a finished run is left alone.

    Example: maxatk train recipe.yaml trainer.k=4 out=runs/k4

    Args:
        recipe: A YAML file with model, problems, out, reward, judge and trainer.
        overrides: Settings that win over the recipe, such as trainer.k=4 out=runs/k4.
        dry_run: Check everything without loading weights, show what the run would do, and stop.
        progress: A bar on the terminal, JSON lines on standard output, or nothing; with dry-run,
            json means one JSON object instead of text.
    """
    settings = read_recipe(recipe, overrides)
    from maxatk.train import TrainRecipe, preview, train  # takes seconds to import

    chosen = from_mapping(TrainRecipe, settings, where="recipe")
    if dry_run:
        found = preview(chosen)
        if found.main_process:  # under accelerate launch every process comes here
            print(as_json(found) if progress == "json" else as_text(found))  # noqa: T201
        return
    with progress_bar("train", progress) as report:
        out = train(chosen, progress=report)
    print(f"trained model: {out}")  # noqa: T201
