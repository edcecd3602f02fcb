"""Read a log of any known format, every row checked before anything is returned."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.bounded import BrokenJSONError, json_value, lines_of, placed, read_whole
from maxatk.errors import DataError, InvalidValueError, unknown_name
from maxatk.exchange import log
from maxatk.exchange.formats import FORMATS, OURS, TABLE
from maxatk.exchange.log import LogFormat, LogRow, PlacedRow, RawRow
from maxatk.exchange.rollouts import CHOICE, RowAt, check_choice, one_sample, rollouts_of
from maxatk.jsonl import bad_lines, json_object
from maxatk.tables import csv_rows, parquet_rows, whole_row

_log = logging.getLogger(__name__)

MOST_ROWS = 1 << 20
"""Rows of one log: all of them are held, and checked, before anything is returned."""

_TOLD_EVERY = 1 << 12  # rows
_SILENCE_S = 5.0
_CSV_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
_FORMAT_OF_SUFFIX = {".eval": "inspect", ".pt": "slime"}
LOG_ENDINGS = (*_CSV_ENDINGS, ".jsonl", ".jsonl.gz", ".parquet", *_FORMAT_OF_SUFFIX)
"""How the names of files end that are logs whatever they hold; a log may have another name too."""

_OWN_FORMATS = (TABLE, OURS)  # what files hold where no format is named
_LONGEST_ANSWER = 40  # characters of an answer that stands in an id


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

    def samples(self, accept: Callable[[LogRow], LogRow] = lambda row: row) -> list[LogRow]:
        """Return the samples, in the order of the file, each with its index; raises as `read_log`.

        `accept` changes a sample, or refuses it with a DataError.
        """
        rows: list[tuple[str, Sequence[LogRow] | ValueError]] = []  # by their places
        choices: set[str] = set()
        for place, value in _counted(self.path, self.rows):
            try:
                row = _row_of(value)
                choices.add(str(row.get(self.format.choice)))
                rows.append((place, self._converted(row)))
            except ValueError as error:  # the other rows are read, so that all errors are told
                rows.append((place, error))
        if "problem_id" not in self.mapping:
            _tell_apart(
                s for _, of_row in rows if not isinstance(of_row, ValueError) for s in of_row
            )

        errors: dict[int, tuple[str, str]] = {}  # by the number of the row in the file
        accepted: list[RowAt] = []
        for number, (place, of_row) in enumerate(rows):
            try:
                if isinstance(of_row, ValueError):
                    raise of_row
                accepted += [RowAt(number, place, row) for row in map(accept, of_row)]
            except ValueError as error:
                errors[number] = (place, str(error))
        samples = self._numbered(accepted, errors)
        if len(choices) > 1 and self.format.choice not in self.mapping:
            raise DataError(
                f"{self.path}: field {self.format.choice!r}: has {', '.join(sorted(choices))}; "
                f"--map {self.format.choice}=NAME chooses one"
            )
        if errors:
            raise DataError(bad_lines(self.path, [errors[number] for number in sorted(errors)]))
        if not samples:
            chosen = self.mapping.get(self.format.choice)
            if chosen is not None and choices and chosen not in choices:
                raise DataError(
                    f"{self.path}: field {self.format.choice!r}: no row has {chosen!r}; "
                    f"allowed: {', '.join(sorted(choices))}"
                )
            raise DataError(f"{self.path}: holds no samples")
        return list(samples.values())

    def _numbered(
        self, rows: Sequence[RowAt], errors: dict[int, tuple[str, str]]
    ) -> dict[tuple[str, int], LogRow]:
        """Return the samples that rows are of, by problem and index; add to the errors."""
        rule = self.mapping.get(CHOICE, self.format.rollout_reward)
        samples: dict[tuple[str, int], LogRow] = {}
        counts = Counter[str]()
        for of_rollout in rollouts_of(rows, unique=self.format.unique_rollouts):
            try:
                sample = one_sample([at.row for at in of_rollout], rule)
                if sample.sample is None:
                    sample.sample = counts[sample.problem_id]
                counts[sample.problem_id] += 1
                key = (sample.problem_id, sample.sample)
                if key in samples:
                    raise DataError(f"sample {key[1]} of {key[0]!r:.80} occurs twice")
                samples[key] = sample
            except ValueError as error:
                first = of_rollout[0]
                errors.setdefault(first.number, (first.place, str(error)))
        return samples

    def _converted(self, row: RawRow) -> Sequence[LogRow]:
        """Return the samples of a row; raises DataError for one of another form."""
        try:
            return _mapped(self.format.convert(row, self.mapping), row, self.mapping)
        except (TypeError, AttributeError, LookupError, OverflowError, RecursionError) as error:
            # A part that another tool's rows always have is missing, or of another kind.
            reason = f"{type(error).__name__}: {error!s:.80}"
            raise DataError(f"is no row of {self.format.title} ({reason})") from error


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


def read_log(
    path: str | Path,
    *,
    log_format: str | None = None,
    default: str = TABLE,
    mapping: Mapping[str, str] | None = None,
    accept: Callable[[LogRow], LogRow] = lambda row: row,
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
    path = Path(path)
    mapping = dict(mapping or {})
    name = log_format or _FORMAT_OF_SUFFIX.get(path.suffix.lower())
    if name is not None:
        _refuse_unknown(name, mapping)  # before the file is opened
        rows_of_tool = FORMATS[name].rows
        if rows_of_tool is not None:
            return OpenLog(path, name, mapping, rows_of_tool(path))
    rows = iter(_placed_rows(path))
    head = list(itertools.islice(rows, 1))
    first_row = _first_row(head)
    if name is None:
        name = _format_of(first_row, default)
        _refuse_unknown(name, mapping)
    elif not mapping and name not in _OWN_FORMATS:
        _refuse_other_form(path, FORMATS[name], first_row)
    rows_of_tool = FORMATS[name].rows
    if rows_of_tool is not None:
        # The first row has told that the tool's own reader is needed: it opens the file itself.
        return OpenLog(path, name, mapping, rows_of_tool(path))
    return OpenLog(path, name, mapping, itertools.chain(head, rows))


def is_named_as_log(path: Path) -> bool:
    """Say whether the name of a file ends as that of a log, in capitals too."""
    return path.name.lower().endswith(LOG_ENDINGS)


def _refuse_unknown(name: str, mapping: Mapping[str, str]) -> None:
    if name not in FORMATS:
        raise unknown_name("format", name, FORMATS)
    check_choice(mapping.get(CHOICE))
    allowed = [*log.MAPPED, CHOICE]
    if FORMATS[name].choice:
        allowed.append(FORMATS[name].choice)
    for field in mapping:
        if field not in allowed:
            raise unknown_name(f"map, for the format {name}", field, allowed)


def _refuse_other_form(path: Path, named: LogFormat, first_row: RawRow | None) -> None:
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


def _first_row(head: Sequence[PlacedRow]) -> RawRow | None:
    """Return the first row of a log; None where it has none, or one that is no object."""
    for _, value in head:
        with contextlib.suppress(ValueError):
            return _row_of(value)
    return None


def _format_of(first_row: RawRow | None, default: str) -> str:
    """Return the name of the format that a file has by its first row; `default` if no other."""
    if first_row is None or FORMATS[default].matches(first_row):
        return default
    recognised = _recognised(first_row)
    return default if recognised is None or recognised in _OWN_FORMATS else recognised


def _recognised(row: RawRow) -> str | None:
    return next((name for name, form in FORMATS.items() if form.matches(row)), None)


def _placed_rows(path: Path) -> Iterable[PlacedRow]:
    """Return the rows of a file with their places; one of an unknown ending has a row a line."""
    if path.name.lower().endswith(_CSV_ENDINGS):
        return ((f"{path}:{number}", row) for number, row in csv_rows(path))
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return ((f"{path}, row {number}", row) for number, row in enumerate(parquet_rows(path)))
    content = _json(path) if suffix == ".json" else None
    if content is None:
        return ((f"{path}:{number}", line) for number, line in lines_of(path))
    if isinstance(content, list):
        return [(f"{path}, item {number}", item) for number, item in enumerate(content)]
    return [(str(path), content)]


def _json(path: Path) -> Any:
    """Return what a JSON file holds, None where that is a row a line, whatever the file's name."""
    data = read_whole(path)
    with placed(f"{path}: not a JSON file"):
        try:
            return json_value(data)
        except BrokenJSONError as error:
            if error.extra:
                return None
            raise


def _row_of(value: Any) -> RawRow:
    """Return the row that stands at a place of a file; raises DataError where there is none."""
    if isinstance(value, bytes):
        return json_object(value)
    if not isinstance(value, Mapping):
        raise DataError(f"must be a JSON object, got {type(value).__name__}")
    return whole_row(value)


def _mapped(samples: Sequence[LogRow], row: RawRow, mapping: Mapping[str, str]) -> Sequence[LogRow]:
    """Return the samples of a row with the fields that stand where the mapping says."""
    if not samples:
        return samples
    for name in mapping.keys() & set(log.MAPPED):
        path = mapping[name]
        value = log.field(row, path)
        # One value for all samples of the row, as a conversation is, or a list of one for each.
        shared = not isinstance(value, list) or log.is_list_of(Mapping, value)
        values = [value] * len(samples) if shared else value
        samples = [
            dataclasses.replace(sample, **{name: log.typed(name, item, path)})
            for sample, item in zip(samples, log.one_each(values, len(samples), path), strict=True)
        ]
    return samples


def _tell_apart(samples: Iterable[LogRow]) -> None:
    """Give samples of one prompt with several answers an id for each of these problems.

    It is for logs that name a problem by its prompt alone. An id has the answer, or its hash where
    that is long, so that it is the same in every file with these answers.
    """
    by_prompt = [s for s in samples if s.named_by_prompt and s.answer is not None]
    answers: dict[str, set[str]] = defaultdict(set)
    for sample in by_prompt:
        answers[sample.problem_id].add(str(sample.answer))
    several = {prompt for prompt, of_prompt in answers.items() if len(of_prompt) > 1}
    for sample in by_prompt:
        if sample.problem_id in several:
            answer = str(sample.answer)
            if len(answer) > _LONGEST_ANSWER:
                answer = hashlib.sha256(answer.encode("utf-8", "replace")).hexdigest()[:12]
            sample.problem_id = f"{sample.problem_id} [answer {answer}]"


def parse_mapping(items: Sequence[str]) -> dict[str, str]:
    """Return the mapping of `field=path` items; raises InvalidValueError for another form."""
    mapping = {}
    for item in items:
        field, equals, path = item.partition("=")
        if not equals or not field or not path:
            raise InvalidValueError(f"map: {item!r} must have the form field=path.to.value")
        mapping[field] = path
    return mapping
