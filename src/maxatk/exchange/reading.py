"""Read a log of any known format, every row checked before anything is returned."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.check import existing_file
from maxatk.errors import DataError, InvalidValueError, unknown_name
from maxatk.exchange import log
from maxatk.exchange.formats import FORMATS, OURS, TABLE
from maxatk.exchange.log import LogFormat, LogRow, PlacedRow, RawRow
from maxatk.jsonl import bad_lines, json_object, lines_of
from maxatk.problems.files import csv_rows, read_rows, whole_row

_OF_SUFFIX = {".eval": "inspect", ".pt": "slime"}
_OWN = (TABLE, OURS)  # what files hold where no format is named
_TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")


def read_log(
    path: str | Path,
    *,
    log_format: str | None = None,
    mapping: Mapping[str, str] | None = None,
    accept: Callable[[LogRow], LogRow] = lambda row: row,
) -> list[LogRow]:
    """Return the samples of a log, in the order of the file, each with its index.

    Without `log_format` it is that of `format_of`. `mapping` says where a field of `MAPPED` is, as
    `choices.0.text`, or what a format has to choose. `accept` changes or refuses samples.

    Raises MissingFileError, InvalidValueError for an unknown format or mapping, and one
    DataError that lists every bad row, or names the format that the file seems to have.
    """
    path, mapping = Path(path), dict(mapping or {})
    name = log_format or format_of(path)
    if name not in FORMATS:
        raise unknown_name("format", name, FORMATS)
    chosen = FORMATS[name]
    allowed = [*log.MAPPED, *filter(None, [chosen.choice])]
    for unknown in mapping.keys() - set(allowed):
        raise unknown_name(f"map, for the format {name}", unknown, allowed)
    if not (mapping or name in _OWN or chosen.rows):
        _check_form(path, chosen)
    found: dict[tuple[str, int], LogRow] = {}
    errors: list[tuple[str, str]] = []
    choices: set[str] = set()
    counts: Counter[str] = Counter()
    for place, value in (chosen.rows or _placed_rows)(path):
        try:
            row = _row(value)
            choices.add(str(row.get(chosen.choice)))
            for sample in map(accept, _mapped(chosen.convert(row, mapping), row, mapping)):
                problem = sample.problem_id
                if sample.sample is None:
                    sample.sample = counts[problem]
                counts[problem] += 1
                if (problem, sample.sample) in found:
                    raise DataError(f"sample {sample.sample} of {problem!r:.80} occurs twice")
                found[problem, sample.sample] = sample
        except ValueError as error:
            errors.append((place, str(error)))
    if len(choices) > 1 and chosen.choice not in mapping:
        raise DataError(
            f"{path}: field {chosen.choice!r}: has {', '.join(sorted(choices))}; "
            f"--map {chosen.choice}=NAME chooses one"
        )
    if errors:
        raise DataError(bad_lines(path, errors))
    if not found:
        raise DataError(f"{path}: holds no samples")
    return list(found.values())


def format_of(path: str | Path, default: str = TABLE) -> str:
    """Return the name of the format that a file has by its first row; `default` if no other.

    Raises MissingFileError without the file, MissingDependencyError for parquet without PyArrow.
    """
    path = Path(path)
    if path.suffix in _OF_SUFFIX:
        return _OF_SUFFIX[path.suffix]
    row, seems = _first_row(path)
    own = row is None or FORMATS[default].matches(row) or seems in ("", *_OWN)
    return default if own else seems


def _check_form(path: Path, chosen: LogFormat) -> None:
    """Raise DataError for a file that has another form than the one that was named."""
    row, seems = _first_row(path)
    if row is None or chosen.matches(row):
        return
    hint = f"; as {FORMATS[seems].title} it is read without --format" if seems else ""
    raise DataError(
        f"{path}: this does not look like {chosen.title}; got the fields "
        f"{', '.join(sorted(map(str, row)))}{hint}"
    )


def _first_row(path: Path) -> tuple[RawRow | None, str]:
    """Return the first row of a file, None for a bad one, and the format that it is of."""
    for _, value in _placed_rows(path):
        with contextlib.suppress(ValueError):
            row = _row(value)
            return row, next((name for name, known in FORMATS.items() if known.matches(row)), "")
        break
    return None, ""


def _placed_rows(path: Path) -> Iterator[PlacedRow]:
    """Return the rows of a file with their places; one of an unknown ending has a row a line."""
    existing_file(path)
    if path.name.endswith(_TABLES):
        return ((f"{path}:{number}", row) for number, row in csv_rows(path))
    if path.suffix == ".parquet":
        return ((f"{path}, row {number}", row) for number, row in enumerate(read_rows(path)))
    value = _json(path) if path.suffix == ".json" else None
    if value is None:
        return ((f"{path}:{number}", line) for number, line in lines_of(path))
    if isinstance(value, list):
        return ((f"{path}, item {number}", item) for number, item in enumerate(value))
    return iter([(str(path), value)])


def _json(path: Path) -> Any:
    """Return what a JSON file holds, None where that is a row a line, whatever the file's name."""
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        if getattr(error, "msg", "") == "Extra data":
            return None
        raise DataError(f"{path}: not a JSON file: {error}") from error


def _row(value: Any) -> RawRow:
    """Return the row that stands at a place of a file; raises DataError where there is none."""
    if isinstance(value, bytes):
        return json_object(value)
    if not isinstance(value, Mapping):
        raise DataError(f"must be a JSON object, got {type(value).__name__}")
    return whole_row(value)


def _mapped(rows: Sequence[LogRow], raw: RawRow, mapping: Mapping[str, str]) -> Sequence[LogRow]:
    """Return the samples of a row with the fields that stand where the mapping says."""
    for name in mapping.keys() & set(log.MAPPED) if rows else ():
        path = mapping[name]
        value = log.field(raw, path)  # one for all, as is a conversation, or a list of one each
        one = not isinstance(value, list) or log.is_list_of(Mapping, value)
        values = [value] * len(rows) if one else value
        rows = [
            dataclasses.replace(row, **{name: log.typed(name, item, path)})
            for row, item in zip(rows, log.one_each(values, len(rows), path), strict=True)
        ]
    return rows


def parse_mapping(items: Sequence[str]) -> dict[str, str]:
    """Return the mapping of `field=path` items; raises InvalidValueError for another form."""
    mapping = {}
    for item in items:
        field, equals, path = item.partition("=")
        if not equals or not field or not path:
            raise InvalidValueError(f"map: {item!r} must have the form field=path.to.value")
        mapping[field] = path
    return mapping
