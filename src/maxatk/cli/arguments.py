"""Arguments in the order that the parser reads: each flag once, behind what belongs to no flag."""

from __future__ import annotations

import re
from collections.abc import Sequence

from maxatk.errors import InvalidValueError

_FLAG = re.compile(r"--?[A-Za-z][\w.-]*")
_OF_EVERY_COMMAND = ("h", "help")  # switches


def merged_flags(
    arguments: Sequence[str], *, lists: Sequence[str], switches: Sequence[str] | None
) -> list[str]:
    """Return arguments with every flag once, behind the arguments that are no value of a flag.

    `lists` are the flags that take several values, all of which they get, and `switches` those that
    take none. Every other flag takes one, so that what follows it may stand among the flags. With
    None for the switches that is not known, and what follows a flag stays behind it.

    Raises InvalidValueError for another flag than a list that is given twice: which value holds
    would be a guess.
    """
    positional: list[str] = []
    values_of: dict[str, list[str]] = {}  # by flag
    flag = ""  # the last one
    for argument in arguments:
        match = _FLAG.match(argument)
        if match is None:
            has_room = flag and _takes_more(flag, values_of[flag], lists, switches)
            (values_of[flag] if has_room else positional).append(argument)
            continue
        flag = match[0].replace("_", "-")
        if flag in values_of and flag.lstrip("-") not in lists:
            first = f", first with {values_of[flag][0]!r}" if values_of[flag] else ""
            raise InvalidValueError(f"{flag}: is given twice{first}; give it once")
        values = values_of.setdefault(flag, [])
        _, equals, value = argument.partition("=")
        if equals:
            values.append(value)
    merged = positional
    for name, values in values_of.items():
        merged += [name, *values]
    return merged


def _takes_more(
    flag: str, values: Sequence[str], lists: Sequence[str], switches: Sequence[str] | None
) -> bool:
    """Return whether an argument behind a flag, which has these values, is one more of them."""
    name = flag.lstrip("-")
    if switches is None or name in lists:
        return True
    return not values and _asserted(name) not in (*switches, *_OF_EVERY_COMMAND)


def _asserted(name: str) -> str:
    """Return the name of the switch that `no-name`, or `group.no-name`, turns off."""
    group, dot, last = name.rpartition(".")
    return f"{group}{dot}{last.removeprefix('no-')}"
