"""Recipes: YAML files, with `key=value` overrides from the command line on top."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from maxatk.errors import DataError, InvalidValueError, MissingFileError


class _Loader(yaml.SafeLoader):
    """YAML's safe types, with the booleans of YAML 1.2: only true and false are ones."""


# YAML 1.1 also reads no, off, yes and on as booleans, and `save_strategy: no` means the text.
_BOOLEAN = "tag:yaml.org,2002:bool"
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOLEAN]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    _BOOLEAN, re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


def read_recipe(path: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Return the mapping of a recipe file with overrides such as `trainer.k=4` applied.

    Only true and false are booleans, as in YAML 1.2; no, off, yes and on are text.

    Raises MissingFileError without the file, DataError where it is not a YAML mapping and
    InvalidValueError for an override of another form.
    """
    if not path.is_file():
        raise MissingFileError(f"recipe: {str(path)!r} does not exist")
    try:
        recipe = _load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a YAML file ({error})") from error
    if not isinstance(recipe, dict):
        raise DataError(f"{path}: must be a mapping of settings, got {type(recipe).__name__}")
    return apply_overrides(recipe, overrides)


def _load(text: str) -> Any:
    return yaml.load(text, Loader=_Loader)  # a safe loader


def apply_overrides(settings: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Return `settings` with overrides of the form key=value or a.b=value put in.

    Raises InvalidValueError for an override of another form.
    """
    for override in overrides:
        _apply(settings, override)
    return settings


def _apply(recipe: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    names = key.split(".")
    if not equals or not all(names):
        raise InvalidValueError(f"override {override!r}: must have the form key=value or a.b=value")
    section = recipe
    for name in names[:-1]:
        section = section.setdefault(name, {})
        if not isinstance(section, dict):
            raise InvalidValueError(f"override {override!r}: {name!r} is not a section")
    try:
        section[names[-1]] = _load(text)
    except yaml.YAMLError as error:
        raise InvalidValueError(f"override {override!r}: {text!r} is not a YAML value") from error
