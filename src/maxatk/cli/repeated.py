"""Flags that are given more than once: lists take all their values, and others are refused."""

from __future__ import annotations

import re
from collections.abc import Sequence

from maxatk.errors import InvalidValueError

_FLAG = re.compile(r"--?[A-Za-z][\w.-]*")


def merged_flags(arguments: Sequence[str], lists: Sequence[str]) -> list[str]:
    """Return arguments with every flag once, those called as one of `lists` with all their values.

    Raises InvalidValueError for another flag that is given twice: which value holds would be a
    guess.
    """
    before: list[str] = []  # what stands before the first flag
    values_of: dict[str, list[str]] = {}  # by flag; what follows its value may be positional
    values = before
    for argument in arguments:
        match = _FLAG.match(argument)
        if match is None:
            values.append(argument)
            continue
        flag = match[0].replace("_", "-")
        is_new = flag not in values_of
        values = values_of.setdefault(flag, [])
        if not is_new and flag.lstrip("-") not in lists:
            first = f", first with {values[0]!r}" if values else ""
            raise InvalidValueError(f"{flag}: is given twice{first}; give it once")
        _, equals, value = argument.partition("=")
        if equals:
            values.append(value)
    merged = before
    for flag, of_flag in values_of.items():
        merged += [flag, *of_flag]
    return merged
