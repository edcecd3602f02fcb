"""The command `mini`: the built-in model and its problems."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from maxatk.cli.flags import set_threads
from maxatk.cli.progress import ProgressMode, progress_of
from maxatk.errors import InvalidValueError
from maxatk.mini import MiniSettings, build_mini
from maxatk.settings import from_mapping, read_recipe


def command(
    out: Annotated[Path, tyro.conf.Positional],
    /,
    settings: Annotated[MiniSettings, tyro.conf.arg(name="")] = MiniSettings(),  # noqa: B008
    recipe: Path | None = None,
    progress: ProgressMode = "auto",
) -> None:
    """Make problems (train.jsonl, test.jsonl) and the warm-started model (base) in a folder.

    Example: maxatk mini runs/mini --test-problems 96

    Args:
        out: The folder; what it already holds for the same settings is left alone.
        settings: Sizes and seed.
        recipe: A YAML file with the settings, such as test_problems, instead of flags.
    """
    if recipe is not None:
        if settings != MiniSettings():
            raise InvalidValueError("mini: give either --recipe or settings as flags")
        settings = from_mapping(MiniSettings, read_recipe(recipe), where="recipe")
    set_threads()
    with progress_of("warm start", progress) as report:
        build_mini(out, settings, progress=report)
    print(f"model: {out / 'base'}")
