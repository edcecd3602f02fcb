"""Arguments that name several runs: `folder` or `name=folder`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from maxatk.errors import InvalidValueError


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
