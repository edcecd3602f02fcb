"""A method as a setting of a recipe: a name, or a mapping of its parts."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from maxatk.check import one_of
from maxatk.errors import InvalidValueError, unknown_name
from maxatk.functions import load_function
from maxatk.objectives.methods import METHODS, Method, as_method
from maxatk.objectives.order import OrderWeights
from maxatk.python_numbers import with_python_numbers

_NAMES = [name for name, value in vars(OrderWeights).items() if isinstance(value, classmethod)]
_CONSTRUCTORS: Mapping[str, Callable[..., OrderWeights]] = {
    "weights": OrderWeights,
    **{name: getattr(OrderWeights, name) for name in _NAMES},
}
"""Key of a credit -> what makes its weights; its keyword-only arguments are further keys."""


def method_of(setting: object) -> Method:
    """Return the method of a setting: a name in `METHODS`, a `Method`, or a mapping.

    A mapping is {"statistic": "file.py:function"} or has the keys of `Method`, whose `credit` may
    be a constructor of `OrderWeights`, such as {"cvar": 0.25, "of": 8}, or {"entropic": b}.

    Raises MissingFileError without the file, InvalidValueError for what is not allowed.
    """
    if not isinstance(setting, Mapping):
        return as_method(setting)  # type: ignore[arg-type]
    if "statistic" in setting:
        _check_keys("method", setting, ["statistic"])
        function_name = str(setting["statistic"])
        function = load_function(function_name, field="method.statistic")
        return Method(credit=function, baseline="leave_one_out", source=function_name)
    fields = with_python_numbers(dict(setting))
    _check_keys("method", setting, [field.name for field in dataclasses.fields(Method)])
    for name in ("credit", "baseline"):
        if name not in setting:
            raise InvalidValueError(f"method: the key {name!r} is required, got {fields}")
    if isinstance(fields["credit"], Mapping):
        fields |= _fields_of_credit(fields["credit"])
    return Method(**fields)


def setting_of(method: object) -> str | dict[str, Any]:
    """Return a setting that is text or a mapping of JSON, of which `method_of` makes the same.

    A setting that already is one stays as it is; a `Method` that is a row of `METHODS` is its name.
    Raises as `method_of`, and InvalidValueError for a function, which only a name could stand for.
    """
    if isinstance(method, str):
        return method
    if isinstance(method, Mapping) and _is_json(method):
        return dict(method)
    row = method_of(method)
    for name, named in METHODS.items():
        if row in (named, dataclasses.replace(named, source="")):
            return name
    defaults = {
        field.name: field.default
        for field in dataclasses.fields(Method)
        if field.default is not dataclasses.MISSING
    }
    chosen = {name: getattr(row, name) for name in defaults if getattr(row, name) != defaults[name]}
    return {"credit": _setting_of_credit(row.credit), "baseline": row.baseline, **chosen}


def _setting_of_credit(credit: str | OrderWeights | Callable[..., float]) -> Any:
    """Return the setting of a credit, as `_fields_of_credit` reads it."""
    if isinstance(credit, str):
        return credit
    if not isinstance(credit, OrderWeights):
        name = getattr(credit, "__qualname__", type(credit).__name__)
        raise InvalidValueError(
            f"method: the function {name!r} is its credit, which no record can hold; allowed: "
            '{"statistic": "file.py:function"}'
        )
    if credit.by_rank:
        return {"harmonic": None}
    if credit.values:
        return {"weights": list(credit.values)}
    shares = dict.fromkeys((k for k, _ in credit.maxima), 0.0)
    for k, share in credit.maxima:
        shares[k] += share
    return {"mixture": shares}


def _is_json(value: object) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True


def _fields_of_credit(setting: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a method that a mapping for its credit stands for."""
    allowed = [*_CONSTRUCTORS, "entropic"]
    names = [name for name in setting if name in allowed]
    if len(names) != 1:
        wrong = ", ".join(names) or str(next(iter(setting), ""))
        raise unknown_name("method.credit", wrong, allowed)
    (name,) = names
    value = setting[name]
    options = {key: setting[key] for key in setting if key != name}
    if name == "entropic":
        _check_keys("method.credit.entropic", options, ())
        return {"credit": name, "inverse_temperature": value}
    if name == "mixture" and isinstance(value, Mapping):
        value = _with_whole_keys(value)
    constructor = _CONSTRUCTORS[name]
    parameters = {
        parameter.name: parameter
        for parameter in inspect.signature(constructor).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    _check_keys(f"method.credit.{name}", options, parameters)
    for key, parameter in parameters.items():
        if parameter.default is parameter.empty and key not in options:
            raise InvalidValueError(f"method.credit: {name!r} needs the key {key!r}")
    return {"credit": constructor(value, **options)}


def _with_whole_keys(shares: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the shares of a mixture by their k, which JSON has made text."""
    of_k = {}
    for key, share in shares.items():
        k = int(key) if isinstance(key, str) and key.isascii() and key.isdigit() else key
        if k in of_k:
            raise InvalidValueError(f"method.credit.mixture: has k={k} twice; give it one share")
        of_k[k] = share
    return of_k


def _check_keys(field: str, setting: Mapping[str, Any], allowed: Collection[str]) -> None:
    for name in setting:
        one_of(field, name, allowed)
