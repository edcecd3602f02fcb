"""Arguments in the order that the parser reads: each flag once, behind what belongs to no flag."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

from maxatk.errors import InvalidValueError

WHOLE = re.compile(r"[-+]?\d+")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
ASSIGNMENT = re.compile(r"[^=]+=.+", re.DOTALL)
METRIC = re.compile(r"\w+@\w+")
TEXT = re.compile(r".*", re.DOTALL)

_FLAG = re.compile(r"--?[A-Za-z][\w.-]*")
_OF_EVERY_COMMAND = ("h", "help")  # switches


@dataclasses.dataclass(frozen=True)
class FlagKinds:
    """The flags of a command that do not take one value each.

    `lists` are those that take several values, with the form of a value: an argument of another
    form belongs to no flag. `switches` take no value, and each has a `no-` of its own.
    """

    lists: Mapping[str, re.Pattern[str]] = dataclasses.field(default_factory=dict)
    switches: tuple[str, ...] = ()


def merged_flags(arguments: Sequence[str], kinds: FlagKinds) -> list[str]:
    """Return arguments with every flag once, behind the arguments that are no value of a flag.

    A list gets all its values. Raises InvalidValueError for another flag that is given twice: which
    value holds would be a guess.
    """
    positional: list[str] = []
    values_of: dict[str, list[str]] = {}  # by flag
    last_flag = ""
    for argument in arguments:
        match = _FLAG.match(argument)
        if match is None:
            is_value = last_flag and _takes(last_flag, argument, values_of[last_flag], kinds)
            (values_of[last_flag] if is_value else positional).append(argument)
            continue
        last_flag = match[0].replace("_", "-")
        if last_flag in values_of and last_flag.lstrip("-") not in kinds.lists:
            values = values_of[last_flag]
            first = f", first with {values[0]!r}" if values else ""
            raise InvalidValueError(f"{last_flag}: is given twice{first}; give it once")
        values = values_of.setdefault(last_flag, [])
        _, equals, value = argument.partition("=")
        if equals:
            values.append(value)
    merged = positional
    for flag, values in values_of.items():
        merged += [flag, *values]
    return merged


def _takes(flag: str, argument: str, values: Sequence[str], kinds: FlagKinds) -> bool:
    """Return whether an argument is one more value of a flag that has these values."""
    name = flag.lstrip("-")
    if _asserted(name) in (*kinds.switches, *_OF_EVERY_COMMAND):
        return False
    if not values:
        return True  # whatever its form is: the parser says what is wrong with it
    form = kinds.lists.get(name)
    return form is not None and form.fullmatch(argument) is not None


def _asserted(name: str) -> str:
    """Return the name of the switch that `no-name`, or `group.no-name`, turns off."""
    group, dot, last = name.rpartition(".")
    return f"{group}{dot}{last.removeprefix('no-')}"
