"""Which format a file has: by the ending of its name, and by the fields of its first row."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from maxatk.errors import DataError
from maxatk.exchange.file_rows import CSV_ENDINGS, row_of
from maxatk.exchange.formats import FORMATS, OURS, TABLE
from maxatk.exchange.log_rows import LogFormat, PlacedRow, RawRow
from maxatk.table_files import TextRow

FORMAT_OF_SUFFIX = {".eval": "inspect", ".pt": "slime"}

LOG_ENDINGS = (*CSV_ENDINGS, ".jsonl", ".jsonl.gz", ".parquet", *FORMAT_OF_SUFFIX)
"""How the names of files end that are logs whatever they hold; a log may have another name too."""

OWN_FORMATS = (TABLE, OURS)
"""What files hold where no format is named, and no tool's is recognised."""


def is_named_as_log(path: Path) -> bool:
    """Say whether the name of a file ends as that of a log, in capitals too."""
    return path.name.lower().endswith(LOG_ENDINGS)


def first_row_of(head: Sequence[PlacedRow]) -> RawRow | None:
    """Return the first row of a log; None where it has none, or one that is no object."""
    for _, value in head:
        with contextlib.suppress(ValueError):
            return row_of(value)
    return None


def format_by_row(first_row: RawRow | None, default: str) -> str:
    """Return the name of the format that a file has by its first row; `default` if no other."""
    if first_row is None:
        return default
    if default == OURS and isinstance(first_row, TextRow) and FORMATS[TABLE].matches(first_row):
        return TABLE  # samples.jsonl has types, and this file none
    if FORMATS[default].matches(first_row):
        return default
    recognised = _recognised(first_row)
    return default if recognised is None or recognised in OWN_FORMATS else recognised


def refuse_other_form(path: Path, named: LogFormat, first_row: RawRow | None) -> None:
    """Raise DataError for a file that has another form than the one that was named."""
    if first_row is None or named.matches(first_row):
        return
    recognised = _recognised(first_row)
    hint = ""
    if recognised is not None:
        hint = f"; as {FORMATS[recognised].title} it is read without --format"
    raise DataError(
        f"{path}: this does not look like {named.title}; got the fields "
        f"{', '.join(sorted(map(str, first_row)))}{hint}"
    )


def _recognised(row: RawRow) -> str | None:
    return next((name for name, form in FORMATS.items() if form.matches(row)), None)
