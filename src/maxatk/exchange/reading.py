"""Read a log of any known format, every row checked before anything is returned."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.errors import DataError, InvalidValueError, unknown_name
from maxatk.exchange.files import placed_rows
from maxatk.exchange.formats import FORMATS, TABLE
from maxatk.exchange.log import LogFormat, LogRow, RawRow, identifier, index, reward

MAPPED = ("problem_id", "sample", "reward", "completion", "prompt", "answer")
"""The fields of a sample that `mapping` can take from elsewhere in a row."""

_MOST_SHOWN = 50
_INSPECT_LOG = ".eval"


def read_log(
    path: str | Path, *, log_format: str | None = None, mapping: Mapping[str, str] | None = None
) -> list[LogRow]:
    """Return the samples of a log, in the order of the file, each with its index.

    Without `log_format` the file is a table with the columns problem_id, sample and reward.
    `mapping` says where a field of `MAPPED` is in a row, as names and indices joined by dots, such
    as `metrics.exact_match` or `choices.0.text`, and holds the choices of a format.

    Raises MissingFileError without the file, InvalidValueError for an unknown format or mapping,
    and one DataError that lists every bad row with file, line and field, or names the format
    that the file seems to have.
    """
    path, mapping = Path(path), dict(mapping or {})
    name = log_format or TABLE
    if name not in FORMATS:
        raise unknown_name("format", name, FORMATS)
    chosen = FORMATS[name]
    _check_mapping(mapping, name, chosen)
    if path.suffix == _INSPECT_LOG and chosen.rows is None:
        raise DataError(
            f"{path}: this looks like {FORMATS['inspect'].title}: --format inspect of maxatk score"
        )
    found: list[tuple[str, Sequence[LogRow]]] = []
    errors: list[str] = []
    kinds: set[str] = set()
    for place, read in placed_rows(path) if chosen.rows is None else chosen.rows(path):
        try:
            row = read()
            if not found and not errors and not mapping and not chosen.matches(row):
                _refuse_other_format(place, row, name)
            kinds.add(str(row.get(chosen.single)) if chosen.single else "")
            found.append((place, _mapped(chosen.convert(row, mapping), row, mapping)))
        except _OtherFormatError:
            raise
        except ValueError as error:
            errors.append(f"{place}: {error}")
    if len(kinds) > 1 and chosen.single not in mapping:
        raise DataError(
            f"{path}: field {chosen.single!r}: has {', '.join(sorted(kinds))}; "
            f"--map {chosen.single}=NAME chooses one"
        )
    rows = list(_numbered(found, errors))
    if errors:
        raise DataError(_report(path, errors))
    if not rows:
        raise DataError(f"{path}: holds no samples")
    return rows


def recognised(row: RawRow) -> str | None:
    """Return the name of the format that a row seems to have, or None."""
    return next((name for name, known in FORMATS.items() if known.matches(row)), None)


def first_row(path: str | Path) -> RawRow | None:
    """Return the first row of a file, or None where it cannot be read."""
    try:
        for _, read in placed_rows(Path(path)):
            return read()
    except ValueError:
        pass
    return None


class _OtherFormatError(DataError):
    """The file is not of the format that was asked for."""


def _refuse_other_format(place: str, row: RawRow, wanted: str) -> None:
    seems = recognised(row)
    if seems is not None:
        raise _OtherFormatError(
            f"{place}: this looks like {FORMATS[seems].title}: "
            + ("leave out --format" if seems == TABLE else f"--format {seems} of maxatk score")
        )
    if wanted != TABLE:
        raise _OtherFormatError(
            f"{place}: this does not look like {FORMATS[wanted].title}; "
            f"got the fields {', '.join(sorted(map(str, row)))}"
        )


def _check_mapping(mapping: Mapping[str, str], name: str, chosen: LogFormat) -> None:
    allowed = [*MAPPED, *chosen.choices]
    for field in mapping:
        if field not in allowed:
            raise unknown_name(f"map, for the format {name}", field, allowed)


def _mapped(rows: Sequence[LogRow], raw: RawRow, mapping: Mapping[str, str]) -> Sequence[LogRow]:
    taken = {field: path for field, path in mapping.items() if field in MAPPED}
    if not taken:
        return rows
    changed = list(rows)
    for field, path in taken.items():
        value = looked_up(raw, path)
        values = value if isinstance(value, list) else [value] * len(changed)
        if len(values) != len(changed):
            raise DataError(
                f"field {path!r}: {len(values)} values for the {len(changed)} samples of the row"
            )
        changed = [
            dataclasses.replace(row, **{field: _typed(field, item, path)})
            for row, item in zip(changed, values, strict=True)
        ]
    return changed


def _typed(field: str, value: Any, path: str) -> Any:
    if field == "problem_id":
        return identifier(value, path)
    if field == "sample":
        return index(value, path)
    if field == "reward":
        return reward(value, path)
    if value is not None and not isinstance(value, str):
        raise DataError(f"field {path!r}: must be text, got {value!r:.60}")
    return value


def looked_up(row: RawRow, path: str) -> Any:
    """Return what a path such as `a.b.0` leads to; raises DataError where it leads nowhere.

    A field whose own name is the path, dots included, comes first.
    """
    if path in row:
        return row[path]
    value: Any = row
    for name in path.split("."):
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            raise DataError(f"field {path!r}: is missing; got {', '.join(sorted(map(str, row)))}")
    return value


def _numbered(found: Sequence[tuple[str, Sequence[LogRow]]], errors: list[str]) -> Iterator[LogRow]:
    """Yield every sample with an index; add to `errors` each that occurs twice."""
    counts: Counter[str] = Counter()
    seen: set[tuple[str, int]] = set()
    for place, rows in found:
        for row in rows:
            number = counts[row.problem_id] if row.sample is None else row.sample
            counts[row.problem_id] += 1
            if (row.problem_id, number) in seen:
                errors.append(f"{place}: sample {number} of {row.problem_id!r} occurs twice")
            seen.add((row.problem_id, number))
            yield row if row.sample is not None else dataclasses.replace(row, sample=number)


def _report(path: Path, errors: Sequence[str]) -> str:
    if len(errors) == 1:
        return errors[0]
    shown = errors[:_MOST_SHOWN]
    rest = f", the first {len(shown)}" if len(errors) > len(shown) else ""
    return "\n  ".join([f"{path}: {len(errors):,} bad lines{rest}:", *shown])


def parse_mapping(items: Sequence[str]) -> dict[str, str]:
    """Return the mapping of `field=path` items; raises InvalidValueError for another form."""
    mapping = {}
    for item in items:
        field, equals, path = item.partition("=")
        if not equals or not field or not path:
            raise InvalidValueError(f"map: {item!r} must have the form field=path.to.value")
        mapping[field] = path
    return mapping
