"""Recipes, which are YAML files with `key=value` overrides on top, and the settings they hold."""

from __future__ import annotations

import dataclasses
import enum
import math
import re
import sys
import types
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from maxatk.bounded import read_text
from maxatk.check import require
from maxatk.errors import (
    DataError,
    InvalidValueError,
    MaxAtKError,
    MissingFileError,
    suggestion,
)
from maxatk.python_numbers import with_python_numbers
from maxatk.recipe_yaml import load_yaml

SettingsT = TypeVar("SettingsT")
SettingsErrorT = TypeVar("SettingsErrorT", bound=MaxAtKError)

_WORDS = {"array": "list", "object": "dict"}
_BOOLEANS_OF_YAML_1_1 = ("yes", "no", "on", "off", "y", "n")
_COMMENT = re.compile(r"(?:^|\s)#")  # where YAML may begin one
_EXTENDS = "extends"
_FORM = "must have the form key=value or a.b=value"
_PACKAGED = Path(__file__).parent / "recipes"
_LARGEST = 1 << 20  # bytes of a recipe

HIDDEN = "(hidden)"
# No secret are tokens of a tokenizer, which say how a model is trained.
_SECRET = re.compile(
    r"(?!(?:bos|eos|pad|unk|sep|cls|mask|image|video|audio)_token$)"
    r"(?:.*_)?(?:token|key|password|passwd|secret)$",
    re.IGNORECASE | re.DOTALL,
)
_USER = re.compile(r"(?P<scheme>\b[a-zA-Z][a-zA-Z0-9+.-]{0,20}://)[^/?#\s@]*@(?=[^/?#\s])")


def packaged_recipes() -> dict[str, Path]:
    """Return the recipes that come with the package, by names such as `mini/train`."""
    paths = sorted(_PACKAGED.rglob("*.yaml"))
    return {str(path.relative_to(_PACKAGED).with_suffix("")): path for path in paths}


def find_recipe(path: Path) -> Path:
    """Return a file that a user named: where it is, else the one that comes with the package.

    Of the latter `.yaml` and `recipes/` may be left out. Raises MissingFileError without either.
    """
    if path.is_file():
        return path
    packaged = _packaged(path)
    if packaged is not None:
        return packaged
    if str(path).startswith("-"):
        raise InvalidValueError(f"unknown flag {str(path)!r}; --help lists those there are")
    if path.is_dir():
        raise MissingFileError(f"recipe: {str(path)!r} is a folder; name a YAML file")
    hint = suggestion(str(path).removesuffix(".yaml"), packaged_recipes())
    raise MissingFileError(
        f"recipe: {str(path)!r} does not exist; `maxatk recipes list` shows those of the "
        f"package{hint}"
    )


def _packaged(path: Path) -> Path | None:
    """Return the file of the package that a path names, if it leads to none outside of it."""
    inner = Path(*path.parts[1:]) if path.parts[:1] == (_PACKAGED.name,) else path
    if not inner.name or inner.is_absolute() or ".." in inner.parts:
        return None
    for name in (inner, inner.with_name(f"{inner.name}.yaml")):
        if (_PACKAGED / name).is_file():
            return _PACKAGED / name
    return None


def read_recipe(path: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Return the mapping of a recipe that `find_recipe` finds, with overrides as `trainer.k=4`.

    Values are those of `load_yaml`, of YAML 1.2: no, off, yes and on are text, 1e-4 is a number.
    Raises MissingFileError, DataError where it is no YAML mapping, and as `apply_overrides`.
    """
    import yaml

    path = find_recipe(path)
    try:
        recipe = load_yaml(read_text(path, most=_LARGEST))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]  # not all 8 lines
        raise DataError(f"{path}{where}: not a YAML file: {problem}") from error
    if recipe is None:
        raise DataError(f"{path}: is empty; a recipe is a mapping of settings such as `k: 4`")
    if not isinstance(recipe, dict):
        raise DataError(f"{path}: must be a mapping of settings, got {type(recipe).__name__}")
    return apply_overrides(recipe, overrides)


def read_extended(path: Path, *, before: Sequence[Path] = ()) -> dict[str, Any]:
    """Return the mapping of a recipe laid over that of the file beside it that `extends` names.

    Mappings are laid over each other all the way down. Raises InvalidValueError for a recipe that
    extends itself, or one of `before`, and as `read_recipe`.
    """
    path = find_recipe(path)
    if path.resolve() in before:
        raise InvalidValueError(f"{_EXTENDS}: {str(path)!r} extends itself")
    recipe = read_recipe(path)
    extended = recipe.pop(_EXTENDS, None)
    if extended is None:
        return recipe
    require(isinstance(extended, str), _EXTENDS, "the name of a file", extended)
    under = read_extended(path.parent / extended, before=(*before, path.resolve()))
    return _laid_over(under, recipe)


def _laid_over(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of `over`, and those of `under` that it does not have."""
    merged = dict(under)
    for key, value in over.items():
        value_under = under.get(key)
        if isinstance(value, dict) and isinstance(value_under, dict):
            merged[key] = _laid_over(value_under, value)
        else:
            merged[key] = value
    return merged


def apply_overrides(settings: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Return `settings` with overrides put in; raises InvalidValueError for another form."""
    import yaml

    texts: dict[str, str] = {}
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals:
            raise InvalidValueError(f"override {override!r}: {_FORM}")
        if key in texts:
            raise InvalidValueError(
                f"override {key!r}: is given twice, as {texts[key]!r} and {text!r}; give one"
            )
        texts[key] = text
        try:
            value = load_yaml(text)
        except yaml.YAMLError as error:
            text = f"override {override!r}: {text!r} is not a YAML value"
            raise InvalidValueError(text) from error
        _refuse_comment(override, text, value)
        put(settings, key, value, where=f"override {override!r}")
    return settings


def _refuse_comment(override: str, text: str, value: Any) -> None:
    """Raise InvalidValueError where YAML takes the end of a value for a comment and drops it."""
    import yaml

    comment = _COMMENT.search(text)
    if comment is None:
        return
    try:
        without = load_yaml(text[: comment.start()])
    except yaml.YAMLError:  # the sign stands inside of quotes or brackets
        return
    if without == value:
        raise InvalidValueError(
            f"override {override!r}: YAML takes {text[comment.start() :].strip()!r} for a comment; "
            "put the value in quotes of its own"
        )


def put(settings: dict[str, Any], key: str, value: Any, *, where: str) -> None:
    """Put a value into settings at a key such as `trainer.k`.

    Its sections are made where they are missing or null. Raises InvalidValueError, which begins
    with `where`, for another form and for no section.
    """
    *sections, last = key.split(".")
    if not all((*sections, last)):
        raise InvalidValueError(f"{where}: {_FORM}")
    section = settings
    for name in sections:
        if section.get(name) is None:
            section[name] = {}
        section = section[name]
        if not isinstance(section, dict):
            raise InvalidValueError(f"{where}: {name!r} is not a section")
    section[last] = value


def from_mapping(cls: type[SettingsT], mapping: Mapping[str, Any], *, where: str) -> SettingsT:
    """Return the dataclass `cls` made of `mapping`, nested dataclasses included.

    `where` is the path of the mapping inside its recipe and starts every message. Raises
    InvalidValueError naming the field, the value and what is allowed.
    """
    require(isinstance(mapping, Mapping), where, "a mapping of settings", mapping)
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}  # type: ignore[arg-type]
    refuse_unknown(mapping, sorted(fields), where=where)
    mapping = with_python_numbers(dict(mapping))
    for name, field in fields.items():
        if name not in mapping and field.default is field.default_factory is dataclasses.MISSING:
            raise InvalidValueError(f"{where}: the key {name!r} is required")
    hints = typing.get_type_hints(cls)
    values = {
        name: _setting(value, hints[name], where=f"{where}.{name}")
        for name, value in mapping.items()
    }
    try:
        return cls(**values)
    except (InvalidValueError, MissingFileError) as error:
        raise located(error, where=where, fields=fields, name=cls.__name__) from error


def located(
    error: SettingsErrorT, *, where: str, fields: Collection[str], name: str = ""
) -> SettingsErrorT:
    """Return the refusal of settings with the paths of its fields, which are below `where`.

    Settings do not know where they stand. Their messages, one a line, begin with one of their
    `fields`, perhaps behind the `name` of their class, or with the name of their section.
    """
    above, dot, section = where.rpartition(".")

    def placed(match: re.Match[str]) -> str:
        if match["field"] == section:
            return f"{above}{dot}{section}"
        return f"{where}.{match['field']}" if match["field"] in fields else match[0]

    beginning = rf"^(?:{name}\.)?(?P<field>\w+)(?=[.:\[])"
    return type(error)(re.sub(beginning, placed, str(error), flags=re.MULTILINE))


def refuse_unknown(names: Iterable[object], allowed: Sequence[str], *, where: str) -> None:
    """Raise InvalidValueError for a name that is none of the fields allowed there."""
    for name in names:
        if name not in allowed:
            hint = suggestion(str(name), allowed)
            if len(allowed) <= 50:  # nobody reads the 200 of a trainer
                hint += f"; allowed: {', '.join(allowed)}"
            raise InvalidValueError(f"{where}: unknown key {name!r}{hint}")


def _setting(value: Any, hint: Any, *, where: str) -> Any:
    """Return the value of one setting as its annotation says."""
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    options = typing.get_args(hint) if is_union else (hint,)
    nested = [
        option
        for option in options
        if dataclasses.is_dataclass(option) and isinstance(option, type)
    ]
    if nested and not (value is None and type(None) in options):
        if isinstance(value, nested[0]):
            return value
        return from_mapping(nested[0], value, where=where)
    try:
        return typed(value, hint, where=where)
    except TypeError:  # of a union of another library that msgspec does not know
        return value


def typed(value: Any, kind: type[SettingsT], *, where: str) -> SettingsT:
    """Return a value, of JSON or YAML, as an annotation says: a list may become a tuple.

    Raises InvalidValueError naming the field below `where`, its value and what is allowed.
    """
    import msgspec

    try:
        converted = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, InvalidValueError):
            raise error.__cause__ from None
        raise _refusal(str(error), value, kind, where) from None
    _check_numbers(value, where)
    return converted


def _refusal(message: str, value: Any, kind: Any, where: str) -> InvalidValueError:
    """Return the refusal of a value from msgspec's message, which says where it is wrong."""
    message, _, path = message.partition(" - at `$")
    for name, number in re.findall(r"\.(\w+)|\[(\d+)\]", path.partition("[...]")[0]):
        value = value[name or int(number)]
        where += f".{name}" if name else f"[{number}]"
        if dataclasses.is_dataclass(kind):
            kind = typing.get_type_hints(kind)[name]
    expected = re.match("Expected `(.+?)`", message)
    choices = _choices(kind)
    if choices and "`array" not in message:
        hint = suggestion(str(value), choices)
        return InvalidValueError(f"{where}: got {value!r}; allowed: {', '.join(choices)}{hint}")
    if expected is None:
        missing = re.sub(".*missing required field `(.+)`", r"missing field '\1'", message)
        return InvalidValueError(f"{where}: {missing}, got {value!r:.80}")
    names = [_WORDS.get(name, name) for name in expected[1].split(" | ") if name != "null"]
    got = "nothing" if value is None else f"{value!r:.80}"
    if "bool" in names and str(value).lower() in _BOOLEANS_OF_YAML_1_1:
        got += "; YAML 1.2 writes true and false"
    return InvalidValueError(f"{where}: must be {' or '.join(names)}, got {got}")


def _choices(hint: Any) -> list[str]:
    inner = typing.get_args(hint)
    if typing.get_origin(hint) is typing.Literal:
        return list(map(str, inner))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return [str(choice.value) for choice in hint]
    return [choice for option in inner for choice in _choices(option)]


def _check_numbers(value: Any, where: str) -> None:
    """Raise InvalidValueError for a number in lists and mappings that no machine holds."""
    if isinstance(value, float):
        require(math.isfinite(value), where, "a finite number", value)
    elif isinstance(value, int):
        require(abs(value) <= sys.maxsize, where, "an integer of 64 bits", value)
    elif isinstance(value, dict):
        for name, inner in value.items():
            _check_numbers(inner, f"{where}.{name}")
    elif isinstance(value, (list, tuple)):
        for number, inner in enumerate(value):
            _check_numbers(inner, f"{where}[{number}]")


def masked(settings: Any) -> Any:
    """Return settings with `HIDDEN` for texts under names as `_SECRET`, and for users in URLs."""
    if isinstance(settings, Mapping):
        return {name: _masked_value(str(name), value) for name, value in settings.items()}
    if isinstance(settings, (list, tuple)):
        return type(settings)(masked(value) for value in settings)
    return masked_url(settings) if isinstance(settings, str) else settings


def _masked_value(name: str, value: Any) -> Any:
    if value and isinstance(value, str) and _SECRET.match(name):
        return HIDDEN
    return masked(value)


def masked_url(text: str) -> str:
    """Return a text in which no URL names a user or a password."""
    return _USER.sub(rf"\g<scheme>{HIDDEN}@", text)
