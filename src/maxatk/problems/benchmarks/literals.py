"""Values as Python literals, the same text in every process and for every hash seed."""

from __future__ import annotations

import json
import math


def python_literal(value: object) -> str:
    """Return `repr(value)` with sets in one order, so that every process makes the same tests.

    Raises ValueError for a float that has no literal (nan); infinities are written as 1e999.
    """
    match value:
        case set() if value:
            return "{" + ", ".join(sorted(map(python_literal, value))) + "}"
        case list():
            return "[" + ", ".join(map(python_literal, value)) + "]"
        case tuple():
            return "(" + ", ".join(map(python_literal, value)) + (",)" if len(value) == 1 else ")")
        case dict():
            return (
                "{"
                + ", ".join(f"{python_literal(k)}: {python_literal(v)}" for k, v in value.items())
                + "}"
            )
        case float() if math.isnan(value):
            raise ValueError("nan has no Python literal")
        case float() if math.isinf(value):
            return "1e999" if value > 0 else "-1e999"
        case _:
            return repr(value)


def json_literal(text: str) -> str:
    """Return the Python literal of a JSON value; raises ValueError for text that is not one."""
    return python_literal(json.loads(text))
