"""The files that settings name, such as those of a user's functions, and what they hold."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

_MOST_FILES = 256  # of a package that count: each is read


def digest_of_file(target: str) -> str | None:
    """Return the SHA-256 of the file in `file.py:function`, None where there is no such file.

    Where it imports modules and packages that lie beside it, the digest is of all their files.
    """
    path = Path(target.rpartition(":")[0])
    if path.suffix != ".py" or not path.is_file():
        return None
    files = [file for module in modules_beside(path).values() for file in _files_of(module)]
    return _digest(path, *files)


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

    Of a package it is the `__init__.py`, or the folder where it has none. A file that is no Python
    imports nothing.
    """
    folder = path.resolve().parent
    modules: dict[str, Path] = {}
    unread = [path.resolve()]
    while unread:
        for name in _imported(unread.pop()):
            module = None if name in modules else _module_beside(folder, name)
            if module is not None and module != path.resolve():
                modules[name] = module
                unread += _files_of(module)
    return modules


def _module_beside(folder: Path, name: str) -> Path | None:
    """Return what an import of a name would find in a folder, None for nothing."""
    # A package comes before a module of its name, as in Python.
    for file in (folder / name / "__init__.py", folder / f"{name}.py"):
        if file.is_file():
            return file
    package = folder / name
    if not package.is_dir():
        return None
    # A package without an `__init__.py` comes behind all others, also those that are installed.
    installed = PathFinder.find_spec(name)
    is_ours = installed is None or installed.origin is None
    return package if is_ours else None


def _files_of(module: Path) -> list[Path]:
    """Return the Python files of a module, the nearest ones of a package with very many."""
    if module.is_file() and module.name != "__init__.py":
        return [module]
    package = module if module.is_dir() else module.parent
    files = sorted(package.rglob("*.py"), key=lambda file: (len(file.parts), file))
    return files[:_MOST_FILES]


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
