"""The command `mini`: the built-in model and its problems, without training for best-of-N."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from maxatk.cli.progress import ProgressMode, progress_bar
from maxatk.mini import MiniSettings, build_mini
from maxatk.settings import from_mapping, read_recipe


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Make problems (train.jsonl, test.jsonl) and the warm-started model (base) in a folder.

    Example: maxatk mini runs/mini --test-problems 96

    Args:
        out: The folder; what it already holds for the same settings is left alone.
        settings: Sizes and seed.
        recipe: A YAML file with settings that are not given here, such as test_problems.
        progress: A bar on the terminal, JSON lines on standard output, or nothing.
    """

    out: tyro.conf.Positional[Path]
    settings: Annotated[MiniSettings, tyro.conf.arg(name="")] = dataclasses.field(
        default_factory=MiniSettings
    )
    recipe: Path | None = None
    progress: ProgressMode = "auto"


def run(arguments: Sequence[str]) -> None:
    """Do what the arguments of `maxatk mini` say: flags win over the recipe."""
    asked = _parse_over(MiniSettings(), arguments)
    if asked.recipe is not None:
        recipe = from_mapping(MiniSettings, read_recipe(asked.recipe), where="recipe")
        asked = _parse_over(recipe, arguments)
    with progress_bar("warm start", asked.progress) as report:
        build_mini(asked.out, asked.settings, progress=report)
    print(f"model: {asked.out / 'base'}")  # noqa: T201


def _parse_over(settings: MiniSettings, arguments: Sequence[str]) -> Arguments:
    default = Arguments(out=tyro.MISSING, settings=settings)
    return tyro.cli(Arguments, prog="maxatk mini", args=arguments, default=default)
