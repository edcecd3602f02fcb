"""The pages of the API list what a package exports, so that no name is forgotten."""

import importlib
import importlib.util
import re
from types import ModuleType
from typing import Any

import griffe

_PLACE = re.compile(r"^<!-- api: (?P<package>[\w.]+) -->$", re.MULTILINE)
_NAMES = re.compile(r"^<!-- names: (?P<package>[\w.]+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill `<!-- api: PACKAGE -->` with every name and `<!-- names: PACKAGE -->` with a list."""
    return _NAMES.sub(_list, _PLACE.sub(_entries, markdown))


def exported(package: str) -> list[str]:
    """Return the names in `__all__` of a package, sorted without regard to case."""
    return sorted(importlib.import_module(package).__all__, key=str.lower)


def path_of(package: str, name: str) -> str:
    """Return the dotted path of an exported name, also where a module has the same name."""
    module = importlib.import_module(package)
    if hasattr(module, "__path__") and importlib.util.find_spec(f"{package}.{name}"):
        return f"{getattr(module, name).__module__}.{name}"
    return f"{package}.{name}"


def _entries(place: re.Match[str]) -> str:
    package = place["package"]
    return "\n\n".join(f"::: {path_of(package, name)}" for name in exported(package))


def _list(place: re.Match[str]) -> str:
    module = importlib.import_module(place["package"])
    lines = []
    for name in exported(place["package"]):
        home = getattr(getattr(module, name), "__module__", "maxatk.objectives")
        package = ".".join(home.split(".")[:2])
        lines.append(f"| [`{name}`][{path_of(package, name)}] | {_summary(module, name)} |")
    return "\n".join(["| name | what it is |", "|---|---|", *lines])


def _summary(module: ModuleType, name: str) -> str:
    member = getattr(module, name)
    text = member.__doc__
    if not hasattr(member, "__name__"):  # a constant: its own text, and not that of its type
        text = griffe.load(path_of(module.__name__, name)).docstring.value
    return (text or "").partition("\n")[0]
