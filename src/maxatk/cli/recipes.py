"""The command `recipes`: those that come with the package."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import tyro

from maxatk.cli.output import OutputFormat, emit, shown
from maxatk.settings import find_recipe, packaged_recipes


def list_recipes(format: OutputFormat = "text") -> None:
    """List the recipes of the package with their first sentence; every command takes them by name.

    Example: maxatk recipes list
    """
    rows = [
        {"recipe": name, "about": _about(path), "path": str(path)}
        for name, path in packaged_recipes().items()
    ]
    emit({"recipes": shown(rows, "recipe", "about")}, format)


def show_recipe(name: Annotated[str, tyro.conf.Positional], /) -> None:
    """Print a recipe, such as to change a copy of it.

    Example: maxatk recipes show mini/train > mine.yaml

    Args:
        name: A name of the list.
    """
    print(find_recipe(Path(name)).read_text(encoding="utf-8"), end="")


def _about(path: Path) -> str:
    """Return the first sentence of the comment that a recipe begins with."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), path.open(encoding="utf-8"))
    text = " ".join(line.strip("# \n") for line in lines)
    return re.split(r"(?<=[.?])(?<!\bDr\.)\s+(?=[A-Z`\[])", text)[0]


COMMANDS: dict[str, Callable[..., None]] = {"list": list_recipes, "show": show_recipe}
