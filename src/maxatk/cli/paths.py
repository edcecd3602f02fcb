"""Arguments that name several runs: `folder` or `name=folder`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from maxatk.errors import InvalidValueError
from maxatk.evaluation.sources import label_of


def named_paths(items: Sequence[str]) -> dict[str, Path]:
    """Return the paths of `name=path` items.

    A bare path has the label that the run's recipe gave it, else the name of its last part.
    Raises InvalidValueError for two runs of one name.
    """
    named: dict[str, Path] = {}
    for item in items:
        name, equals, path = item.partition("=")
        if not equals:
            name, path = label_of(item) or Path(item).name, item
        if not name or name in named:
            held = f", and {name!r} is taken" if name else ""
            raise InvalidValueError(
                f"{item!r}: every run needs a name of its own: name=folder{held}"
            )
        named[name] = Path(path)
    return named
