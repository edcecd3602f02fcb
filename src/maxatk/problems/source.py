"""A benchmark as asked for: split, revision or local file, and options, all checked at once."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from maxatk.errors import (
    DataError,
    InvalidValueError,
    MaxAtKError,
    MissingDependencyError,
    unknown_name,
)
from maxatk.models import why_missing
from maxatk.problems.benchmarks import BENCHMARKS
from maxatk.problems.benchmarks.base import Benchmark, Converted, LeftOut, Row, RowOptions
from maxatk.problems.files import data_files, file_fingerprint, read_rows
from maxatk.settings import from_mapping

BadRows: TypeAlias = Literal["stop", "leave_out"]
ContestKey: TypeAlias = tuple[str, str]
"""(contest, index) of a problem of Codeforces; one that two divisions share has several."""

KEY_COLUMNS = ("name", "cf_contest_id", "cf_index")  # what `contest_keys` needs of CodeContests

_KEY = re.compile(r"(?:CODE_?\w+/)?([1-9]\d*)(?:/|_(?=[A-Z]\d*\. ))([A-Z]\d*)(?:\. |\Z)")


@dataclasses.dataclass(frozen=True)
class Source:
    """Where the rows of a benchmark come from: local `files`, or a split and revision of the hub.

    `revision` is None where files are read, and `split` too where they are read whole.
    """

    name: str
    benchmark: Benchmark
    options: RowOptions
    split: str | None
    revision: str | None
    files: tuple[Path, ...]

    def rows(
        self, *, start: int = 0, only: Sequence[str] | None = None
    ) -> Iterator[tuple[str, Row]]:
        """Yield (place, row) from row `start` on; of parquet files the columns `only`, if given."""
        if not self.files:
            for number, row in enumerate(self._hub_rows(start, only), start=start):
                yield f"{self.benchmark.hub}, {self.split}, row {number}", row
            return
        placed = (
            (f"{path}, row {number}", row)
            for path in self.files
            for number, row in enumerate(read_rows(path, unused=self.benchmark.unused, only=only))
        )
        yield from itertools.islice(placed, start, None)

    def outcomes(
        self, *, start: int = 0, bad_rows: BadRows = "stop"
    ) -> Iterator[tuple[Row, Converted]]:
        """Yield every row with what it becomes, from row `start` on.

        Raises DataError for a row without the schema, unless `bad_rows` leaves it out.
        """
        for place, row in self.rows(start=start):
            try:
                outcome = self._convert(row, place)
            except DataError as error:
                if bad_rows == "stop":
                    raise
                outcome = LeftOut(place, f"bad row: {error.__cause__!r:.100}")
            yield row, outcome

    def check(self) -> None:
        """Raise DataError when the first row of a local file does not have the schema."""
        for place, row in itertools.islice(self.rows(), 1) if self.files else ():
            self._convert(row, place)

    def describe(self) -> dict[str, Any]:
        """Return what identifies the rows: the files' hashes, or the hub's revision and split."""
        hub = {"hub": self.benchmark.hub, "revision": self.revision}
        rows = {"files": file_fingerprint(self.files)} if self.files else hub
        split = {} if self.split is None else {"split": self.split}
        options = dataclasses.asdict(self.options)
        return {"benchmark": self.name, **rows, **split, "options": options}

    def _hub_rows(self, start: int, only: Sequence[str] | None) -> Iterator[Row]:
        _need_datasets()
        reason = why_missing(self.benchmark.hub, kind="dataset", revision=self.revision)
        if reason is not None:  # soon: the loader below would ask for half a minute
            raise _unreachable(self.benchmark, reason)
        try:
            yield from self._stream(only).skip(start)
        except Exception as error:  # the libraries below raise errors of several trees
            raise _unreachable(self.benchmark, error) from error

    def _stream(self, only: Sequence[str] | None) -> Any:
        from datasets import load_dataset

        benchmark, split, revision = self.benchmark, str(self.split), self.revision
        if benchmark.data_files is None:
            wanted: dict[str, Any] = {"split": split, "revision": revision, "streaming": True}
            if only is not None:
                wanted["columns"] = list(only)
            return load_dataset(benchmark.hub, benchmark.config, **wanted)
        names = benchmark.data_files(split, self.options)
        files = [f"hf://datasets/{benchmark.hub}@{revision}/{name}" for name in names]
        return load_dataset("json", data_files=files, split="train", streaming=True)

    def _convert(self, row: Row, place: str) -> Converted:
        remedy = f"a row of {self.benchmark.hub} is wanted; bad_rows=leave_out leaves it out"
        try:
            found = self.benchmark.split_of(row) if self.files and self.benchmark.split_of else None
            if self.split is not None and found not in (None, self.split):
                return LeftOut(place, f"is in the split {found}")
            made = self.benchmark.convert(row, self.options)
            return made if isinstance(made, LeftOut) else made.without_duplicate_tests()
        except KeyError as error:
            missing = error.args[0]
            raise DataError(
                f"{place}: missing column {missing!r}; got {sorted(row)}; {remedy}"
            ) from error
        except (TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
            raise DataError(f"{place}: does not have the schema ({error}); {remedy}") from error


def open_source(
    name: str,
    *,
    split: str | None = None,
    file: str | Path | None = None,
    revision: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Source:
    """Return a benchmark's source; nothing but the names of local files is looked at.

    A single local file is read whole, unless its rows tell their split. Raises InvalidValueError
    for an unknown name, split or option, MissingFileError without the file, and DataError where
    the newest revision has to be asked for and the hub does not answer.
    """
    if name not in BENCHMARKS:
        raise unknown_name("problems", name, BENCHMARKS)
    benchmark = BENCHMARKS[name]
    if split is not None and split not in benchmark.splits:
        raise unknown_name("split", split, benchmark.splits)
    chosen = _options(name, benchmark, options or {})
    if hub := getattr(chosen, "hub", None):  # the options of a table name its data set
        benchmark = dataclasses.replace(benchmark, hub=hub, config=getattr(chosen, "config", None))
    if file is None:
        if not benchmark.hub:
            raise InvalidValueError(f"{name}: needs options.hub, a data set's name, or a file")
        split = split or benchmark.default_split
        revision = revision or benchmark.revision or _newest_revision(benchmark)
        return Source(name, benchmark, chosen, split, revision, ())
    if revision is not None:
        raise InvalidValueError("revision: is for the hub; a local file has none")
    path = Path(file)
    if split is not None and not path.is_dir() and benchmark.split_of is None:
        raise InvalidValueError(
            f"split: a local file is read whole, so {split!r} cannot be chosen from it; leave out "
            "split or file, or give a folder of files"
        )
    if path.is_dir():
        split = split or benchmark.default_split
    names = benchmark.data_files(str(split), chosen) if benchmark.data_files and split else None
    files = data_files(path, split=split, names=names)
    return Source(name, benchmark, chosen, split, None, tuple(files))


@dataclasses.dataclass(frozen=True)
class Overlap:
    """Another data set whose problems are left out: its name, and where to read it.

    `splits` are those of the hub or of a folder (empty: all); `file` as in `PrepareSettings`, or
    a prepared problems.jsonl.
    """

    benchmark: str = "code_contests"
    file: str | None = None
    splits: list[str] = dataclasses.field(default_factory=list)
    revision: str | None = None

    def __post_init__(self) -> None:
        if self.benchmark != "code_contests":
            raise unknown_name("benchmark", self.benchmark, ["code_contests"])

    def sources(self) -> list[Source]:
        """Return what is read, one source a split."""
        whole = self.file is not None and not Path(self.file).is_dir()
        splits = [None] if whole else self.splits or BENCHMARKS[self.benchmark].splits
        return [
            open_source(self.benchmark, split=name, file=self.file, revision=self.revision)
            for name in splits
        ]

    def keys(self) -> set[ContestKey]:
        """Return the keys of every problem of the data set."""
        rows = (row for source in self.sources() for _, row in source.rows(only=KEY_COLUMNS))
        return {key for row in rows for key in contest_keys(row)}


def contest_keys(row: Row) -> set[ContestKey]:
    """Return the keys of a row of CodeContests or open-r1/codeforces, or of a problem made of one.

    They come from its id, its name (`1041_E. Tree Reconstruction`), its aliases and its columns.
    """
    pairs = (("cf_contest_id", "cf_index"), ("contest_id", "index"))
    columns = [f"{row.get(contest)}/{row.get(index)}" for contest, index in pairs]
    names = [row.get("id"), row.get("name"), *(row.get("aliases") or ()), *columns]
    found = (_KEY.match(str(name).strip().upper()) for name in names)
    return {(match[1], match[2]) for match in found if match}


def _options(name: str, benchmark: Benchmark, options: Mapping[str, Any]) -> RowOptions:
    where = f"options of {name}"
    try:
        return from_mapping(benchmark.options, options, where=where)
    except MaxAtKError as error:
        if str(error).startswith(where):
            raise
        raise InvalidValueError(f"{where}: {error}") from error


def _newest_revision(benchmark: Benchmark) -> str:
    _need_datasets()
    from huggingface_hub import HfApi

    try:
        return str(HfApi().dataset_info(benchmark.hub).sha)
    except Exception as error:  # the libraries below raise errors of several trees
        raise _unreachable(benchmark, error) from error


def _need_datasets() -> None:
    try:
        import datasets  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            "loading a benchmark from the hub needs the package 'datasets': "
            "pip install 'maxatk[train]', or give a local file"
        ) from error


def _unreachable(benchmark: Benchmark, error: Exception | str) -> DataError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return DataError(
        f"{benchmark.hub}: cannot be loaded from the hub ({reason:.200}); without a network, "
        "make problems.jsonl of a local file or folder of the same schema: maxatk problems prepare "
        "NAME --file FILE --out problems.jsonl"
    )
