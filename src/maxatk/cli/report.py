"""The verb `report`: evaluated models in one offline HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from maxatk.cli.tables import print_overview
from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.folders import TRAIN_RECORD, read_json
from maxatk.report import figure1_svg, write_report

FIGURE = "figure1.svg"


def command(
    results: Annotated[tuple[str, ...], tyro.conf.Positional],
    /,
    out: Path,
    baseline: str | None = None,
    train: tuple[str, ...] = (),
    title: str = "Best of N",
) -> None:
    """Write one offline HTML page about evaluated models, and Figure 1 beside it.

    Args:
        results: Folders written by eval or score, or name=folder to give a run a name.
        out: The page to write.
        baseline: The run the others are compared to; "base", else the first.
        train: Folders written by train, or name=folder, whose curves the page shows.
        title: Title of the page.
    """
    write_page(
        named_paths(results), out, baseline=baseline, trained=named_paths(train), title=title
    )


def write_page(
    results: Mapping[str, Path],
    out: Path,
    *,
    trained: Mapping[str, Path],
    title: str,
    baseline: str | None = None,
) -> None:
    """Write the page and Figure 1, print the table and where they are."""
    curves = [_curve(name, folder) for name, folder in trained.items()]
    write_report(results, out, title=title, baseline=baseline, curves=curves)
    figure1_svg(results, out.parent / FIGURE, baseline=baseline)
    print_overview(results)
    print(f"report: {out}")  # noqa: T201


def named_paths(items: Sequence[str]) -> dict[str, Path]:
    """Return the paths of `name=path` items; a bare path has the name of its last part."""
    named: dict[str, Path] = {}
    for item in items:
        name, equals, path = item.partition("=")
        if not equals:
            name, path = Path(item).name, item
        if not name or name in named:
            raise InvalidValueError(f"{item!r}: every run needs a name of its own: name=folder")
        named[name] = Path(path)
    return named


def _curve(name: str, folder: Path) -> dict[str, Any]:
    record = folder / TRAIN_RECORD
    if not record.is_file():
        raise MissingFileError(f"train: {str(folder)!r} holds no {TRAIN_RECORD}")
    try:
        history = read_json(record)["log_history"]
    except KeyError as error:
        raise DataError(f"{record}: the training has not finished") from error
    return {"name": name, "log_history": [row for row in history if "reward" in row]}
