"""The verb `train`: one training run from a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from maxatk.cli.progress import ProgressMode, progress_bar
from maxatk.cli.recipe import read_recipe
from maxatk.settings import from_mapping


def command(
    recipe: Annotated[Path, tyro.conf.Positional],
    overrides: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    /,
    check: bool = False,
    progress: ProgressMode = "auto",
) -> None:
    """Train a model as a recipe says.

    Killed and started again, it goes on from the last checkpoint; a finished run is left alone.

    Example: maxatk train recipe.yaml trainer.k=4 out=runs/k4

    Args:
        recipe: A YAML file with model, problems, out, reward, judge and trainer.
        overrides: Settings that win over the recipe, such as trainer.k=4 out=runs/k4.
        check: Check the settings, without looking for model and problems, and stop.
        progress: A bar on the terminal, JSON lines on standard output, or nothing.
    """
    settings = read_recipe(recipe, overrides)
    from maxatk.train import TrainRecipe, check_settings, train  # takes seconds to import

    chosen = from_mapping(TrainRecipe, settings, where="recipe")
    if check:
        check_settings(chosen)
        print("the settings are fine")  # noqa: T201
        return
    with progress_bar("train", progress) as report:
        out = train(chosen, progress=report)
    print(f"trained model: {out}")  # noqa: T201
