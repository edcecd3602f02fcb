"""The command `recipes`: the recipes that come with the package."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import tyro

from maxatk.cli.tables import OutputFormat, print_json
from maxatk.errors import InvalidValueError
from maxatk.settings import find_recipe, packaged_recipes


def list_recipes(format: OutputFormat = "text") -> None:
    """List the recipes of the package with their first line; every command takes them by name.

    Example: maxatk recipes list

    Args:
        format: How they are printed; json is one object with a row a recipe.
    """
    found = packaged_recipes()
    if format == "json":
        rows = [{"recipe": n, "about": _about(p), "path": str(p)} for n, p in found.items()]
        print_json({"recipes": rows})
        return
    width = max(map(len, found))
    for name, path in found.items():
        print(f"{name:<{width}}  {_about(path)}")  # noqa: T201


def show(name: Annotated[str, tyro.conf.Positional], /) -> None:
    """Print a recipe.

    Example: maxatk recipes show mini/train

    Args:
        name: A name of the list.
    """
    print(_packaged(name).read_text(encoding="utf-8"), end="")  # noqa: T201


def copy(
    name: Annotated[str, tyro.conf.Positional],
    out: Annotated[Path | None, tyro.conf.Positional] = None,
    /,
) -> None:
    """Copy a recipe, to be changed.

    Example: maxatk recipes copy mini/train mine.yaml

    Args:
        name: A name of the list.
        out: The file to write, which must not exist; the recipe's own name here, if none is given.
    """
    source = _packaged(name)
    out = out or Path(source.name)
    if out.exists():
        raise InvalidValueError(f"out: {str(out)!r} exists already")
    out.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, out)
    print(f"recipe: {out}")  # noqa: T201


def _packaged(name: str) -> Path:
    return packaged_recipes().get(name.removesuffix(".yaml")) or find_recipe(Path(name))


def _about(path: Path) -> str:
    first = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("#").strip()
    sentence, end, _ = first.partition(". ")
    return sentence + end.strip()


HELP = "List, show and copy the recipes that come with the package."
SUBCOMMANDS = {"list": list_recipes, "show": show, "copy": copy}
