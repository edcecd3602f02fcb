"""Read a log of any known format, every row checked before anything is returned."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.check import existing_file
from maxatk.errors import DataError, InvalidValueError, unknown_name
from maxatk.exchange.formats import FORMATS, OURS, TABLE
from maxatk.exchange.log import LogFormat, LogRow, PlacedRow, RawRow, identifier, index, reward
from maxatk.jsonl import bad_lines, json_object, lines_of
from maxatk.problems.files import csv_rows, read_rows, whole_row

MAPPED = ("problem_id", "sample", "reward", "completion", "prompt", "answer")
"""The fields of a sample that `mapping` can take from elsewhere in a row."""

_OF_SUFFIX = {".eval": "inspect", ".pt": "slime"}
_OWN = (TABLE, OURS)  # what files hold where no format is named


def read_log(
    path: str | Path,
    *,
    log_format: str | None = None,
    mapping: Mapping[str, str] | None = None,
    accept: Callable[[LogRow], LogRow] = lambda row: row,
) -> list[LogRow]:
    """Return the samples of a log, in the order of the file, each with its index.

    Without `log_format` it is that of `format_of`.
    `mapping` says where a field of `MAPPED` is in a row, as names and indices joined by dots, such
    as `metrics.exact_match` or `choices.0.text`, and holds the choices of a format. `accept`
    returns what is taken for a sample, or refuses it with a ValueError.

    Raises MissingFileError without the file, InvalidValueError for an unknown format or mapping,
    and one DataError that lists every bad row with file, line and field, or names the format
    that the file seems to have.
    """
    path, mapping = Path(path), dict(mapping or {})
    name = log_format or format_of(path)
    if name not in FORMATS:
        raise unknown_name("format", name, FORMATS)
    chosen = FORMATS[name]
    _check_mapping(mapping, name, chosen)
    found: list[LogRow] = []
    errors: list[tuple[str, str]] = []
    kinds: set[str] = set()
    numbered = _numbering()
    row = None if mapping or name in _OWN or chosen.rows else _first_row(path)
    if row is not None and not chosen.matches(row):
        seems = recognised(row)
        hint = f"; as {FORMATS[seems].title} it is read without --format" if seems else ""
        raise DataError(
            f"{path}: this does not look like {chosen.title}; got the fields "
            f"{', '.join(sorted(map(str, row)))}{hint}"
        )
    for place, read in (chosen.rows or placed_rows)(path):
        try:
            row = read()
            kinds.add(str(row.get(chosen.single)) if chosen.single else "")
            for sample in _mapped(chosen.convert(row, mapping), row, mapping):
                found.append(numbered(accept(sample)))
        except ValueError as error:
            errors.append((place, str(error)))
    if len(kinds) > 1 and chosen.single not in mapping:
        raise DataError(
            f"{path}: field {chosen.single!r}: has {', '.join(sorted(kinds))}; "
            f"--map {chosen.single}=NAME chooses one"
        )
    if errors:
        raise DataError(bad_lines(path, errors))
    if not found:
        raise DataError(f"{path}: holds no samples")
    return found


def format_of(path: str | Path, default: str = TABLE) -> str:
    """Return the name of the format that a file has by its first row; `default` if no other.

    That is a table with the columns problem_id, sample and reward, or `OURS`, the samples to be
    verified. Raises as `placed_rows`.
    """
    path = Path(path)
    if path.suffix in _OF_SUFFIX:
        return _OF_SUFFIX[path.suffix]
    row = _first_row(path)
    found = None if row is None or FORMATS[default].matches(row) else recognised(row)
    return default if found is None or found in _OWN else found


def _first_row(path: Path) -> RawRow | None:
    """Return the first row of a file, None where it is a bad one: it is named with all others."""
    for _, read in placed_rows(path):
        with contextlib.suppress(ValueError):
            return read()
        break
    return None


def placed_rows(path: Path) -> Iterator[PlacedRow]:
    """Yield every row of a file with its place, such as `scores.csv:3`.

    A file that is not named as CSV, JSON or parquet has a JSON object a line. Raises
    MissingFileError without the file, DataError for a file that holds no rows,
    MissingDependencyError for parquet without PyArrow.
    """
    existing_file(path)
    reader = next((read for end, read in _READERS.items() if path.name.endswith(end)), _json_lines)
    return reader(path)


def _json_lines(path: Path) -> Iterator[PlacedRow]:
    for number, line in lines_of(path):
        yield f"{path}:{number}", functools.partial(json_object, line)


def _json(path: Path) -> Iterator[PlacedRow]:
    try:
        value = json.loads(path.read_bytes())
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":  # lines, whatever the file is called
            yield from _json_lines(path)
            return
        raise DataError(f"{path}: not a JSON file: {error}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not a JSON file: {error}") from error
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield f"{path}, item {number}", functools.partial(_an_object, item)
    else:
        yield str(path), functools.partial(_an_object, value)


def _an_object(value: Any) -> RawRow:
    if not isinstance(value, dict):
        raise DataError(f"must be a JSON object, got {type(value).__name__}")
    return value


def _csv(path: Path) -> Iterator[PlacedRow]:
    for number, row in csv_rows(path):
        yield f"{path}:{number}", functools.partial(whole_row, row)


def _parquet(path: Path) -> Iterator[PlacedRow]:
    for number, row in enumerate(read_rows(path)):
        yield f"{path}, row {number}", functools.partial(_an_object, row)


_READERS: dict[str, Callable[[Path], Iterator[PlacedRow]]] = {
    **dict.fromkeys((".csv", ".csv.gz", ".tsv", ".tsv.gz"), _csv),
    ".json": _json,
    ".parquet": _parquet,
}


def recognised(row: RawRow) -> str | None:
    """Return the name of the format that a row seems to have, or None."""
    return next((name for name, known in FORMATS.items() if known.matches(row)), None)


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


def _numbering() -> Callable[[LogRow], LogRow]:
    """Return what gives every sample its index and refuses one that occurs twice."""
    counts: Counter[str] = Counter()
    seen: set[tuple[str, int]] = set()

    def numbered(row: LogRow) -> LogRow:
        number = counts[row.problem_id] if row.sample is None else row.sample
        counts[row.problem_id] += 1
        if (row.problem_id, number) in seen:
            raise DataError(f"sample {number} of {row.problem_id!r:.80} occurs twice")
        seen.add((row.problem_id, number))
        return row if row.sample is not None else dataclasses.replace(row, sample=number)

    return numbered


def parse_mapping(items: Sequence[str]) -> dict[str, str]:
    """Return the mapping of `field=path` items; raises InvalidValueError for another form."""
    mapping = {}
    for item in items:
        field, equals, path = item.partition("=")
        if not equals or not field or not path:
            raise InvalidValueError(f"map: {item!r} must have the form field=path.to.value")
        mapping[field] = path
    return mapping
