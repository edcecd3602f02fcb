"""Recipes, which are YAML files with `key=value` overrides on top, and the settings they hold.

Unknown keys and wrong types are refused, and no file or message shows a secret. PyYAML is
imported where a recipe is read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import re
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from maxatk.check import require
from maxatk.errors import DataError, InvalidValueError, MissingFileError, suggestion

SettingsT = TypeVar("SettingsT")

_SCALARS = (bool, int, float, str)
_MOST_LISTED = 40
_EXTENDS = "extends"
_PACKAGED = Path(__file__).parent / "recipes"

_YAML = "tag:yaml.org,2002:"
_TAGS = {f"{_YAML}{t}" for t in ("map", "seq", "str", "int", "float", "bool", "null", "merge")}
_MOST_VALUES = 100_000  # of a recipe whose aliases are written out

HIDDEN = "(hidden)"
_SECRET = re.compile(r"(?:^|_)(?:token|key|password|passwd|secret)$", re.IGNORECASE)
# Tokens of a tokenizer, which say how a model is trained.
_TEXT = re.compile(r"^(?:bos|eos|pad|unk|sep|cls|mask|image|video|audio)_token$", re.IGNORECASE)
_USER = re.compile(r"(?P<scheme>\b[a-zA-Z][a-zA-Z0-9+.-]{0,20}://)[^/?#\s@]*@(?=[^/?#\s])")


def packaged_recipes() -> dict[str, Path]:
    """Return the recipes that come with the package, by names such as `mini/train`."""
    return {
        str(path.relative_to(_PACKAGED).with_suffix("")): path
        for path in sorted(_PACKAGED.rglob("*.yaml"))
    }


def find_recipe(path: Path) -> Path:
    """Return a file that a user named: where it is, else the one that comes with the package.

    Of the latter the ending may be left out, and `recipes/` may stand before it. Raises
    MissingFileError where there is neither, with the closest name.
    """
    if path.is_file():
        return path
    inner = Path(*path.parts[1:]) if path.parts[:1] == (_PACKAGED.name,) else path
    for name in (inner, inner.with_name(f"{inner.name}.yaml")) if inner.name else ():
        if not inner.is_absolute() and ".." not in inner.parts and (_PACKAGED / name).is_file():
            return _PACKAGED / name
    if str(path).startswith("-"):
        raise InvalidValueError(f"unknown flag {str(path)!r}; --help lists those there are")
    hint = suggestion(str(path).removesuffix(".yaml"), packaged_recipes())
    raise MissingFileError(
        f"recipe: {str(path)!r} does not exist; `maxatk recipes list` shows those of the "
        f"package{hint}"
    )


def read_recipe(path: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Return the mapping of a recipe file with overrides such as `trainer.k=4` applied.

    The file may be named as `find_recipe` allows.

    Only true and false are booleans, as in YAML 1.2; no, off, yes and on are text.

    Raises MissingFileError without the file, DataError where it is not a YAML mapping and
    InvalidValueError for an override of another form.
    """
    import yaml

    path = find_recipe(path)
    try:
        recipe = _load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DataError(f"{path}{_place(error)}: not a YAML file: {_problem(error)}") from error
    if not isinstance(recipe, dict):
        raise DataError(f"{path}: must be a mapping of settings, got {type(recipe).__name__}")
    return apply_overrides(recipe, overrides)


def _place(error: Exception) -> str:
    """Return where PyYAML stumbled, as `, line 3, column 5`, or ""."""
    mark = getattr(error, "problem_mark", None)
    return "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"


def _problem(error: Exception) -> str:
    """Return what PyYAML says in one line; its own text has eight."""
    return getattr(error, "problem", None) or str(error).splitlines()[0]


def read_extended(path: Path) -> dict[str, Any]:
    """Return the mapping of a recipe file laid over that of the file its key `extends` names.

    The extended file lies beside it. A key of the file wins over that of the extended one; where
    both hold mappings they are laid over each other in the same way, all the way down, and a list
    replaces a list. Raises InvalidValueError for a recipe that extends itself, and as
    `read_recipe`.
    """
    return _with_extended(path, ())


def _with_extended(path: Path, before: tuple[Path, ...]) -> dict[str, Any]:
    path = find_recipe(path)
    if path.resolve() in before:
        raise InvalidValueError(f"{_EXTENDS}: {str(path)!r} extends itself")
    recipe = read_recipe(path)
    extended = recipe.pop(_EXTENDS, None)
    if extended is None:
        return recipe
    require(isinstance(extended, str), _EXTENDS, "the name of a file", extended)
    return _laid_over(_with_extended(path.parent / extended, (*before, path.resolve())), recipe)


def _laid_over(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    laid = {**under, **over}
    for key in under.keys() & over.keys():
        if isinstance(under[key], dict) and isinstance(over[key], dict):
            laid[key] = _laid_over(under[key], over[key])
    return laid


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
    import yaml

    try:
        section[names[-1]] = _load(text)
    except yaml.YAMLError as error:
        raise InvalidValueError(f"override {override!r}: {text!r} is not a YAML value") from error


@functools.cache
def _loader() -> Any:
    """Return YAML's safe types: of YAML 1.2 the booleans, true and false, and dates are text."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    # YAML 1.1 also reads no, off, yes and on as booleans, and `save_strategy: no` means the text.
    boolean = f"{_YAML}bool"
    Loader.yaml_implicit_resolvers = {
        first: [(tag, found) for tag, found in resolvers if tag in _TAGS - {boolean}]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    pattern = re.compile("^(?:true|True|TRUE|false|False|FALSE)$")
    Loader.add_implicit_resolver(boolean, pattern, list("tTfF"))
    return Loader


def _load(text: str) -> Any:
    import yaml

    loader = _loader()(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _count(node, {})
        return loader.construct_document(node)
    except RecursionError as error:
        raise yaml.YAMLError("nested too deeply") from error
    except ValueError as error:  # of a number with thousands of digits
        raise yaml.YAMLError(str(error)) from error
    finally:
        loader.dispose()


def _count(node: Any, counts: dict[int, int]) -> int:
    """Return the number of values of a YAML node with its aliases written out.

    Raises yaml.YAMLError for too many of them and for what is no setting.
    """
    import yaml

    def refuse(problem: str) -> None:
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)

    if id(node) not in counts:
        counts[id(node)] = 0  # until its parts are counted
        if node.tag not in _TAGS:
            refuse(f"{node.tag!r} is no type of a setting")
        text = node.value if isinstance(node.value, str) else ""
        if re.search("[\0\ud800-\udfff]", text):
            refuse("a text has a character that no file can hold")
        pairs = (item if isinstance(item, tuple) else (item,) for item in node.value)
        parts = () if isinstance(node.value, str) else [part for pair in pairs for part in pair]
        counts[id(node)] = 1 + sum(_count(part, counts) for part in parts)
    if not 0 < counts[id(node)] <= _MOST_VALUES:
        refuse(f"aliases stand for more than {_MOST_VALUES:,} values, or for themselves")
    return counts[id(node)]


def from_mapping(cls: type[SettingsT], mapping: Mapping[str, Any], *, where: str) -> SettingsT:
    """Return the dataclass `cls` made of `mapping`, nested dataclasses included.

    `where` is the path of the mapping inside its recipe and starts every message. Numbers
    written as text in YAML (such as 1e-4, which YAML 1.1 reads as a string) become numbers.

    Raises InvalidValueError naming the field, the value and what is allowed.
    """
    require(isinstance(mapping, Mapping), where, "a mapping of settings", mapping)
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}  # type: ignore[arg-type]
    for name in mapping:
        if name not in fields:
            raise InvalidValueError(
                f"{where}: unknown key {name!r}{suggestion(str(name), fields)}{_listed(fields)}"
            )
    missing = [name for name, f in fields.items() if _required(f) and name not in mapping]
    if missing:
        raise InvalidValueError(f"{where}: the key {missing[0]!r} is required")
    hints = typing.get_type_hints(cls)
    return cls(**{n: _convert(v, hints[n], where=f"{where}.{n}") for n, v in mapping.items()})


def _listed(names: typing.Collection[str]) -> str:
    """Return the allowed names for a message; nobody reads the 200 of a trainer."""
    return f"; allowed: {', '.join(sorted(names))}" if len(names) <= _MOST_LISTED else ""


def _required(field: dataclasses.Field[Any]) -> bool:
    no_default = field.default is dataclasses.MISSING
    return no_default and field.default_factory is dataclasses.MISSING


def _convert(value: Any, hint: Any, *, where: str) -> Any:
    """Return `value` as `hint` wants it; unions beyond scalars and dataclasses are not checked."""
    options = _union_members(hint)
    if value is None:
        if type(None) in options or Any in options:
            return None
        raise InvalidValueError(f"{where}: must be {_names(options)}, got nothing")
    nested = [o for o in options if dataclasses.is_dataclass(o) and isinstance(o, type)]
    if nested and not isinstance(value, nested[0]):
        return from_mapping(nested[0], value, where=where)
    literals = [arg for o in options for arg in typing.get_args(o) if _is_literal(o)]
    if literals and value not in literals:
        raise InvalidValueError(
            f"{where}: got {value!r}; allowed: {', '.join(map(str, literals))}"
            f"{suggestion(str(value), map(str, literals))}"
        )
    wanted = [o for o in options if o is not type(None)]
    if len(wanted) == 1 and typing.get_origin(wanted[0]) in (list, tuple, dict):
        return _convert_container(value, wanted[0], where=where)
    scalars = [o for o in wanted if o in _SCALARS]
    if not scalars or len(scalars) < len(wanted):
        return value
    return _convert_scalar(value, scalars, where=where)


def _convert_container(value: Any, hint: Any, *, where: str) -> Any:
    container = typing.get_origin(hint)
    written = dict if container is dict else list  # YAML has no tuples
    require(isinstance(value, (container, written)), where, _names([written]), value)
    if container is dict:
        return value
    item = typing.get_args(hint)[0]
    return container(
        _convert(v, item, where=f"{where}[{number}]") for number, v in enumerate(value)
    )


def _convert_scalar(value: Any, allowed: list[type], *, where: str) -> Any:
    number = value
    if float in allowed and type(value) in (int, str) and type(value) not in allowed:
        with contextlib.suppress(ValueError, OverflowError):
            number = float(value)
    require(type(number) in allowed, where, _names(allowed), value)
    finite = type(number) is not float or math.isfinite(number)
    require(finite, where, "a finite number", value)
    small = type(number) is not int or abs(number) <= sys.maxsize
    require(small, where, "an integer of 64 bits", value)
    return number


def _union_members(hint: Any) -> tuple[Any, ...]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.get_args(hint)
    return (hint,)


def _is_literal(hint: Any) -> bool:
    return typing.get_origin(hint) is typing.Literal


def _names(options: typing.Iterable[Any]) -> str:
    return " or ".join(getattr(o, "__name__", str(o)) for o in options if o is not type(None))


def masked(settings: Any) -> Any:
    """Return settings with every secret replaced by `HIDDEN`; mappings and sequences are copied.

    Secret are texts under a name that ends in token, key, password or secret, and what stands
    before the host in a URL.
    """
    if isinstance(settings, Mapping):
        return {
            name: HIDDEN if _is_secret(name, value) else masked(value)
            for name, value in settings.items()
        }
    if isinstance(settings, (list, tuple)):
        return type(settings)(masked(value) for value in settings)
    return masked_url(settings) if isinstance(settings, str) else settings


def masked_url(text: str) -> str:
    """Return a text in which no URL names a user or a password."""
    return _USER.sub(rf"\g<scheme>{HIDDEN}@", text)


def _is_secret(name: object, value: object) -> bool:
    if not isinstance(name, str) or not isinstance(value, str) or not value:
        return False
    return _SECRET.search(name) is not None and _TEXT.search(name) is None
