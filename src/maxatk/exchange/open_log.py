"""Read a log of any known format, every row checked before anything is returned."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from maxatk.check import as_path, require
from maxatk.errors import DataError, counted
from maxatk.exchange import log_rows
from maxatk.exchange.file_rows import placed_rows, row_of
from maxatk.exchange.formats import FORMATS, TABLE
from maxatk.exchange.log_rows import LogFormat, LogRow, PlacedRow, RawRow
from maxatk.exchange.mapping import check_mapping, mapped
from maxatk.exchange.prompt_ids import tell_apart
from maxatk.exchange.recognition import (
    FORMAT_OF_SUFFIX,
    OWN_FORMATS,
    first_row_of,
    format_by_row,
    refuse_other_form,
)
from maxatk.exchange.rollouts import CHOICE, RowAt, one_sample, rollouts_of
from maxatk.jsonl import bad_lines

_log = logging.getLogger(__name__)

MOST_ROWS = 1 << 20
"""Rows of one log: all of them are held, and checked, before anything is returned."""

_TOLD_EVERY = 1 << 12  # rows
_SILENCE_S = 5.0

Accept: TypeAlias = Callable[[LogRow], LogRow]
"""Changes a sample, or refuses it with a DataError."""


def read_log(
    path: str | Path,
    *,
    log_format: str | None = None,
    default: str = TABLE,
    mapping: Mapping[str, str] | None = None,
    accept: Accept = lambda row: row,
) -> list[LogRow]:
    """Return the samples of a log, in the order of the file, each with its index.

    Args:
        path: The file.
        log_format: The name of its format; if None, the one that its first row has.
        default: The format of a file whose first row has no other.
        mapping: Where a field of `MAPPED` is, as `choices.0.text`, or what a format has to choose.
        accept: Changes a sample, or refuses it with a DataError.

    Raises MissingFileError, InvalidValueError for an unknown format or mapping, one DataError that
    lists every bad row, or names the format that the file seems to have, and
    MissingDependencyError for parquet without PyArrow.
    """
    opened = open_log(path, log_format=log_format, default=default, mapping=mapping)
    return opened.samples(accept)


def open_log(
    path: str | Path,
    *,
    log_format: str | None = None,
    default: str = TABLE,
    mapping: Mapping[str, str] | None = None,
) -> OpenLog:
    """Return a log with its format, found by its first row where none is named.

    The arguments are those of `read_log`, which says what is raised; bad rows behind the first are
    found by `OpenLog.samples`.
    """
    path = as_path("path", path)
    is_mapping = mapping is None or isinstance(mapping, Mapping)
    require(is_mapping, "map", "a mapping of fields to paths", mapping)
    mapping = dict(mapping or {})
    name = log_format or FORMAT_OF_SUFFIX.get(path.suffix.lower())
    if name is not None:
        check_mapping(name, mapping)  # before the file is opened
        rows_of_tool = FORMATS[name].rows
        if rows_of_tool is not None:
            return OpenLog(path, name, mapping, rows_of_tool(path))
    rows = iter(placed_rows(path))
    head = list(itertools.islice(rows, 1))
    first_row = first_row_of(head)
    if name is None:
        name = format_by_row(first_row, default)
        check_mapping(name, mapping)
    elif not mapping and name not in OWN_FORMATS:
        refuse_other_form(path, FORMATS[name], first_row)
    rows_of_tool = FORMATS[name].rows
    if rows_of_tool is not None:
        # The first row has told that the tool's own reader is needed: it opens the file itself.
        return OpenLog(path, name, mapping, rows_of_tool(path))
    return OpenLog(path, name, mapping, itertools.chain(head, rows))


@dataclasses.dataclass(frozen=True)
class OpenLog:
    """A log whose format is known: its rows with their places, which can be read once."""

    path: Path
    format_name: str
    mapping: Mapping[str, str]
    rows: Iterable[PlacedRow]

    @property
    def format(self) -> LogFormat:
        """How its rows become samples."""
        return FORMATS[self.format_name]

    def samples(
        self, accept: Accept = lambda row: row, *, column: str | None = None
    ) -> list[LogRow]:
        """Return the samples, in the order of the file, each with its index; raises as `read_log`.

        `accept` changes a sample, or refuses it with a DataError. What stands in the field `column`
        of a row has to be a number, or empty.
        """
        bad_rows = _BadRows(self.path)
        rows, choices = self._converted(bad_rows, column)
        if "problem_id" not in self.mapping:
            tell_apart(at.row for at in rows)
        accepted_rows = _accepted(rows, accept, bad_rows)
        samples = self._numbered(accepted_rows, bad_rows)
        self._refuse_several(choices)
        bad_rows.refuse_any()
        if not samples:
            raise DataError(f"{self.path}: {self._why_none(choices)}")
        return samples

    def _converted(self, bad_rows: _BadRows, column: str | None) -> tuple[list[RowAt], set[str]]:
        """Return the samples of all rows, and what these have where the format has to choose."""
        converted: list[RowAt] = []
        choices: set[str] = set()
        left_out = 0
        for number, (place, value) in enumerate(_counted(self.path, self.rows)):
            try:
                row = row_of(value)
                if self.format.choice is not None:
                    choices.add(str(row.get(self.format.choice)))
                samples = self._samples_of(row)
                if not samples:
                    left_out += 1
                if column is not None:
                    log_rows.refuse_other_cell(row, column)
                converted += [RowAt(number, place, sample) for sample in samples]
            except ValueError as error:
                bad_rows.add(number, place, error)
        if left_out and self.mapping.get(log_rows.ON_ERROR) == "drop":
            requests = counted(left_out, "failed request")
            _log.warning("%s: %s left out, as on_error=drop says", self.path, requests)
        return converted, choices

    def _samples_of(self, row: RawRow) -> Sequence[LogRow]:
        """Return the samples of a row; raises DataError for one of another form."""
        try:
            return mapped(self.format.convert(row, self.mapping), row, self.mapping)
        except (TypeError, AttributeError, LookupError, OverflowError, RecursionError) as error:
            # A part that another tool's rows always have is missing, or of another kind.
            reason = f"{type(error).__name__}: {error!s:.80}"
            raise DataError(f"is no row of {self.format.title} ({reason})") from error

    def _numbered(self, rows: Sequence[RowAt], bad_rows: _BadRows) -> list[LogRow]:
        """Return the samples that rows are parts of, each with its index."""
        rule = self.mapping.get(CHOICE, self.format.rollout_reward)
        samples: list[LogRow] = []
        numbers = log_rows.SampleNumbers()
        for rows_of_rollout in rollouts_of(rows, unique=self.format.unique_rollouts):
            try:
                sample = one_sample([at.row for at in rows_of_rollout], rule)
                is_numbered = sample.sample is not None
                if not numbers.take(sample):
                    # Numbers are counted where there are none, and may be those of other samples.
                    hint = "" if is_numbered else ": number all samples of a problem, or none"
                    raise DataError(
                        f"sample {sample.sample} of {sample.problem_id!r:.80} occurs twice{hint}"
                    )
                samples.append(sample)
            except ValueError as error:
                first = rows_of_rollout[0]
                bad_rows.add(first.number, first.place, error)
        return samples

    def _refuse_several(self, choices: set[str]) -> None:
        """Raise DataError where rows differ in what has to be chosen, and not one was chosen."""
        field = self.format.choice
        left = choices.intersection(self._chosen) if self._chosen else choices
        if len(left) > 1:
            raise DataError(
                f"{self.path}: field {field!r}: has {', '.join(sorted(left))}; "
                f"--map {field}=NAME chooses one"
            )

    def _why_none(self, choices: set[str]) -> str:
        """Say why a log without a bad row holds no sample."""
        field = self.format.choice
        if field is None or not self._chosen or choices.intersection(self._chosen) or not choices:
            return "holds no samples"
        wanted = " or ".join(map(repr, self._chosen))
        hint = log_rows.other_names(field, self._chosen, choices)
        return f"field {field!r}: no row has {wanted}; {hint}"

    @property
    def _chosen(self) -> Sequence[str]:
        """The names that `--map` gives where the format has to choose; none for other formats."""
        field = self.format.choice
        return [] if field is None else log_rows.names_chosen(self.mapping, field)


class _BadRows:
    """The rows of a log that are wrong, each with the first thing that is wrong with it.

    A row that is wrong does not end the reading, so that one message names all of them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._causes: dict[int, tuple[str, str]] = {}  # by the number of the row in the file

    def add(self, number: int, place: str, error: ValueError) -> None:
        """Note what is wrong with a row at a place of the file, unless something was before."""
        self._causes.setdefault(number, (place, str(error)))

    def refuse_any(self) -> None:
        """Raise one DataError that lists all of them in the order of the file, if there are any."""
        if self._causes:
            causes = [self._causes[number] for number in sorted(self._causes)]
            raise DataError(bad_lines(self._path, causes))


def _accepted(rows: Iterable[RowAt], accept: Accept, bad_rows: _BadRows) -> list[RowAt]:
    """Return rows as `accept` gives them, without those that it refuses."""
    accepted: list[RowAt] = []
    for at in rows:
        try:
            accepted.append(at._replace(row=accept(at.row)))
        except ValueError as error:
            bad_rows.add(at.number, at.place, error)
    return accepted


def _counted(path: Path, rows: Iterable[PlacedRow]) -> Iterator[PlacedRow]:
    """Yield rows, and say how many were read where that takes long; DataError for too many."""
    last_told = time.monotonic()
    for number, row in enumerate(rows, start=1):
        if number > MOST_ROWS:
            raise DataError(
                f"{path}: has more than {MOST_ROWS:,} rows, the most that are read at once; "
                "divide it by problems"
            )
        if number % _TOLD_EVERY == 0 and time.monotonic() - last_told > _SILENCE_S:
            last_told = time.monotonic()
            _log.warning("%s: %s rows read so far", path, f"{number:,}")
        yield row
