"""Settings from plain mappings (a recipe's YAML): unknown keys and wrong types are refused."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from maxatk.errors import InvalidValueError, suggestion

SettingsT = TypeVar("SettingsT")

_SCALARS = (bool, int, float, str)
_MOST_LISTED = 40


def from_mapping(cls: type[SettingsT], mapping: Mapping[str, Any], *, where: str) -> SettingsT:
    """Return the dataclass `cls` made of `mapping`, nested dataclasses included.

    `where` is the path of the mapping inside its recipe and starts every message. Numbers
    written as text in YAML (such as 1e-4, which YAML 1.1 reads as a string) become numbers.

    Raises InvalidValueError naming the field, the value and what is allowed.
    """
    if not isinstance(mapping, Mapping):
        raise InvalidValueError(f"{where}: must be a mapping of settings, got {mapping!r}")
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
    if len(wanted) == 1 and typing.get_origin(wanted[0]) in (list, dict):
        return _convert_container(value, wanted[0], where=where)
    scalars = [o for o in wanted if o in _SCALARS]
    if not scalars or len(scalars) < len(wanted):
        return value
    return _convert_scalar(value, scalars, where=where)


def _convert_container(value: Any, hint: Any, *, where: str) -> Any:
    container = typing.get_origin(hint)
    if not isinstance(value, container):
        raise InvalidValueError(f"{where}: must be {_names([container])}, got {value!r}")
    if container is dict:
        return value
    (item,) = typing.get_args(hint)
    return [_convert(v, item, where=f"{where}[{number}]") for number, v in enumerate(value)]


def _convert_scalar(value: Any, allowed: list[type], *, where: str) -> Any:
    if type(value) in allowed:
        return value
    if float in allowed and type(value) in (int, str):
        try:
            return float(value)
        except ValueError:
            pass
    raise InvalidValueError(f"{where}: must be {_names(allowed)}, got {value!r}")


def _union_members(hint: Any) -> tuple[Any, ...]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.get_args(hint)
    return (hint,)


def _is_literal(hint: Any) -> bool:
    return typing.get_origin(hint) is typing.Literal


def _names(options: typing.Iterable[Any]) -> str:
    return " or ".join(getattr(o, "__name__", str(o)) for o in options if o is not type(None))
