"""Methods from the settings of a recipe: a name, or a mapping with parameters of its own."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

from maxatk.errors import InvalidValueError, unknown_name
from maxatk.objectives.methods import Method, as_method
from maxatk.objectives.order import OrderWeights

_MAKERS: Mapping[str, Callable[..., OrderWeights]] = {
    "max": OrderWeights.max,
    "min": OrderWeights.min,
    "mean": OrderWeights.mean,
    "top": OrderWeights.top,
    "quantile": OrderWeights.quantile,
    "cvar": OrderWeights.cvar,
    "mixture": OrderWeights.mixture,
    "any_k": OrderWeights.any_k,
    "harmonic": OrderWeights.harmonic,
    "weights": OrderWeights,
}
"""Key of a credit -> what makes its weights; its keyword-only arguments are further keys."""

_ENTROPIC = "entropic"


def method_of(setting: object) -> Method:
    """Return the method of a setting: a name in `METHODS`, a `Method`, or a mapping.

    A mapping has the keys of `Method`; its `credit` is a name or a mapping of one constructor of
    `OrderWeights` to its argument, such as {"cvar": 0.25, "of": 8}, or {"entropic": b}.

    Raises InvalidValueError naming the field, the value and what is allowed.
    """
    if not isinstance(setting, Mapping):
        return as_method(setting)  # type: ignore[arg-type]
    _check_keys("method", setting, [field.name for field in dataclasses.fields(Method)])
    for name in ("credit", "baseline"):
        if name not in setting:
            raise InvalidValueError(f"method: the key {name!r} is required, got {dict(setting)}")
    fields: dict[str, Any] = dict(setting)
    if isinstance(fields["credit"], Mapping):
        fields |= _credit(fields["credit"])
    return Method(**fields)


def _credit(setting: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a method that a mapping for its credit stands for."""
    kinds = [*_MAKERS, _ENTROPIC]
    named = [name for name in setting if name in kinds]
    if len(named) != 1:
        first = str(next(iter(setting), ""))
        raise unknown_name("method.credit", first if not named else ", ".join(named), kinds)
    (kind,) = named
    others = {name: value for name, value in setting.items() if name != kind}
    maker = _MAKERS.get(kind)
    arguments = inspect.signature(maker).parameters.values() if maker else ()
    keys = {one.name: one for one in arguments if one.kind is one.KEYWORD_ONLY}
    _check_keys(f"method.credit.{kind}", others, keys)
    for name, one in keys.items():
        if one.default is one.empty and name not in others:
            raise InvalidValueError(f"method.credit: {kind!r} needs the key {name!r}")
    if maker is None:
        return {"credit": _ENTROPIC, "inverse_temperature": setting[kind]}
    return {"credit": maker(setting[kind], **others)}


def _check_keys(field: str, setting: Mapping[str, Any], allowed: Collection[str]) -> None:
    for name in setting:
        if name not in allowed:
            raise unknown_name(field, str(name), allowed)
