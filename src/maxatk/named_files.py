"""The files that settings name, such as those of a user's functions, and what they hold."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def digest_of_file(target: str) -> str | None:
    """Return the SHA-256 of the file in `file.py:function`, None where there is no such file.

    Where it imports modules that lie beside it, the digest is of all of them.
    """
    path = Path(target.rpartition(":")[0])
    if path.suffix != ".py" or not path.is_file():
        return None
    return _digest(path, *modules_beside(path).values())


def files_named(settings: Any) -> dict[str, str]:
    """Return the SHA-256 of the files that a recipe names, by how it names them.

    They are those of functions and classes, `file.py:name`, and of chat templates.
    """
    digests: dict[str, str] = {}
    for key, text in _texts(settings):
        if key != "template":
            digest = digest_of_file(text)
        elif Path(text).is_file():
            digest = _digest(Path(text))
        else:
            digest = None
        if digest is not None:
            digests[text] = digest
    return digests


def modules_beside(path: Path) -> dict[str, Path]:
    """Return by name the modules beside a Python file that it imports, and those that these import.

    Of a package it is the `__init__.py`. A file that is no Python imports nothing.
    """
    folder = path.resolve().parent
    modules: dict[str, Path] = {}
    unread = [path.resolve()]
    while unread:
        for name in _imported(unread.pop()):
            # A package comes before a module of its name, as in Python.
            for file in (folder / name / "__init__.py", folder / f"{name}.py"):
                if name not in modules and file.is_file() and file != path.resolve():
                    modules[name] = file
                    unread.append(file)
    return modules


def _imported(path: Path) -> list[str]:
    """Return the first names of the modules that a file imports."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return []
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            names.append(node.module)
    return [name.partition(".")[0] for name in names]


def _digest(*files: Path) -> str:
    """Return the SHA-256 of one file, or of those of several."""
    digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def _texts(value: Any, key: str | None = None) -> Iterator[tuple[str | None, str]]:
    """Yield every text inside of settings, with the key that it belongs to."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _texts(inner, name)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _texts(inner, key)
