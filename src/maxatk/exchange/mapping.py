"""Where the fields of a sample are in a row: `--map field=path.to.value`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from maxatk.check import one_of, require, several
from maxatk.errors import InvalidValueError
from maxatk.exchange import log_rows
from maxatk.exchange.formats import FORMATS
from maxatk.exchange.log_rows import LogRow, RawRow
from maxatk.exchange.rollouts import CHOICE, check_choice


def parse_mapping(items: Sequence[str]) -> dict[str, str]:
    """Return the mapping of `field=path` items.

    Raises InvalidValueError for another form, and for a field that is given twice.
    """
    several("map", items, "texts such as field=path.to.value")
    mapping: dict[str, str] = {}
    for item in items:
        require(isinstance(item, str), "map", "texts such as field=path.to.value", item)
        field, equals, path = item.partition("=")
        if not equals or not field or not path:
            raise InvalidValueError(f"map: {item!r} must have the form field=path.to.value")
        if field in mapping:
            raise InvalidValueError(
                f"map: {field!r} is given twice, as {mapping[field]!r} and {path!r}; give one"
            )
        mapping[field] = path
    return mapping


def check_mapping(format_name: str, mapping: Mapping[str, str]) -> None:
    """Raise InvalidValueError for an unknown format, or a field that it does not take."""
    one_of("format", format_name, FORMATS)
    check_choice(mapping.get(CHOICE))
    rules = FORMATS[format_name].rules
    allowed = [*log_rows.MAPPED, CHOICE, *rules]
    choice = FORMATS[format_name].choice
    if choice is not None:
        allowed.append(choice)
    for field, path in mapping.items():
        one_of(f"map, for the format {format_name}", field, allowed)
        require(isinstance(path, str), f"map.{field}", "text", path)
        if field in rules:
            one_of(f"map: {field}", path, rules[field])


def mapped(samples: Sequence[LogRow], row: RawRow, mapping: Mapping[str, str]) -> Sequence[LogRow]:
    """Return the samples of a row with the fields that stand where the mapping says.

    Raises DataError for a field that is missing, or of another kind or number than the samples.
    """
    if not samples:
        return samples
    for name in mapping.keys() & set(log_rows.MAPPED):
        path = mapping[name]
        value = log_rows.field(row, path)
        # One value for all samples of the row, as a conversation is, or a list of one for each.
        is_shared = not isinstance(value, list) or log_rows.is_list_of(Mapping, value)
        values = [value] * len(samples) if is_shared else value
        values = log_rows.one_each(values, len(samples), path)
        samples = [
            dataclasses.replace(sample, **{name: log_rows.typed(name, item, path, row)})
            for sample, item in zip(samples, values, strict=True)
        ]
    return samples
