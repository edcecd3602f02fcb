"""Where the rows of a benchmark come from, and how each becomes a problem."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from maxatk.check import needing, one_of
from maxatk.errors import (
    DataError,
    InvalidValueError,
)
from maxatk.folders import file_digest
from maxatk.models import why_missing
from maxatk.problems.benchmarks import BENCHMARKS, base
from maxatk.problems.benchmarks.base import Converted, LeftOut, Row, SolvedProblem
from maxatk.problems.files import data_files, read_rows
from maxatk.settings import from_mapping
from maxatk.verifier.jobs import refuse_tests
from maxatk.verifier.languages import LANGUAGES

BadRows: TypeAlias = Literal["stop", "leave_out"]
"""What becomes of a row without the schema."""


@dataclasses.dataclass(frozen=True)
class Source:
    """A benchmark as asked for: rows of the hub, or of the local `file`, a file or a folder.

    Raises InvalidValueError for an unknown name, split or option.
    """

    benchmark: str
    split: str | None = None
    file: str | None = None
    revision: str | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        one_of("benchmark", self.benchmark, BENCHMARKS)
        if self.split is not None:
            one_of("split", self.split, self.kind.splits)
        if self.file is None and not self.kind.hub:
            raise InvalidValueError(f"{self.benchmark}: needs options.hub, a data set, or a file")
        if self.file is not None and self.revision is not None:
            raise InvalidValueError("revision: is for the hub; a local file has none")

    def outcomes(
        self, *, start: int = 0, bad_rows: BadRows = "stop"
    ) -> Iterator[tuple[Row, Converted]]:
        """Yield every row with its problem, or with why it is left out, from row `start` on.

        Raises DataError for a row without the schema, unless `bad_rows` leaves it out.
        """
        for row_name, row in self.rows(start):
            try:
                outcome = self._convert(row, row_name)
            except DataError as error:
                if bad_rows == "stop":
                    raise
                outcome = LeftOut(row_name, f"bad row: {error.__cause__!r:.100}")
            yield row, outcome

    def rows(
        self, start: int = 0, *, only: Sequence[str] | None = None
    ) -> Iterator[tuple[str, Row]]:
        """Yield every row with its name for messages, such as "FILE, row 3", from `start` on.

        Of parquet files only the columns `only` are read, where they are given.
        """
        if not self.files:
            for number, row in enumerate(self._hub_rows(start, only), start):
                yield f"{self.kind.hub}, {self.split_read}, row {number}", row
            return
        named_rows = (
            (f"{path}, row {number}", row)
            for path in self.files
            for number, row in enumerate(read_rows(path, unused=self.kind.unused, only=only))
        )
        yield from itertools.islice(named_rows, start, None)

    @functools.cached_property
    def chosen(self) -> base.RowOptions:
        """The options, checked."""
        kind = BENCHMARKS[self.benchmark]
        where = f"options of {self.benchmark}"
        options = from_mapping(kind.options, self.options, where=where)
        one_of(f"{where}: language", options.language, LANGUAGES)
        if options.language not in kind.languages:
            raise InvalidValueError(
                f"{where}: language: its tests call functions of Python, so that programs in "
                f"{options.language!r} cannot be asked for"
            )
        return options

    @functools.cached_property
    def kind(self) -> base.Benchmark:
        """The row of `BENCHMARKS`; that of a table has the data set that its options name."""
        kind = BENCHMARKS[self.benchmark]
        hub = getattr(self.chosen, "hub", None)
        config = getattr(self.chosen, "config", None)
        return dataclasses.replace(kind, hub=hub, config=config) if hub else kind

    @functools.cached_property
    def split_read(self) -> str | None:
        """The split that is read; None for a local file, whose rows are all read."""
        if self.split:
            return self.split
        is_file = self.file is not None and not Path(self.file).is_dir()
        return None if is_file else self.kind.default_split

    @functools.cached_property
    def files(self) -> list[Path]:
        """The local files, none for rows of the hub; raises as `data_files`.

        Of a single file all rows are read, unless they tell their split.
        """
        if self.file is None:
            return []
        path = Path(self.file)
        kind = self.kind
        if self.split is not None and not path.is_dir() and kind.split_of is None:
            raise InvalidValueError(
                f"split: a local file is read whole, so {self.split!r} cannot be chosen from it; "
                "leave out split or file, or give a folder of files"
            )
        split = self.split_read
        names = kind.data_files(split, self.chosen) if kind.data_files and split else None
        splits = () if kind.split_of else kind.splits
        return data_files(path, split=split, names=names, splits=splits)

    @functools.cached_property
    def commit(self) -> str:
        """The revision of the hub that is read; raises DataError where it cannot be found out."""
        pinned = self.revision or self.kind.revision
        if pinned:
            return pinned
        with _hub(self.kind.hub):
            from huggingface_hub import HfApi

            return str(HfApi().dataset_info(self.kind.hub).sha)

    def check(self) -> None:
        """Raise DataError when the first row of a local file does not have the schema."""
        if self.files:
            for row_name, row in itertools.islice(self.rows(), 1):
                self._convert(row, row_name)

    def describe(self) -> dict[str, Any]:
        """Return what identifies the rows: the files' hashes, or the hub's revision and split."""
        files = [
            {"name": path.name, "bytes": path.stat().st_size, "sha256": file_digest(path)}
            for path in self.files
        ]
        return {
            "benchmark": self.benchmark,
            **({"files": files} if files else {"hub": self.kind.hub, "revision": self.commit}),
            **({} if self.split_read is None else {"split": self.split_read}),
            "options": dataclasses.asdict(self.chosen),
        }

    def _hub_rows(self, start: int, only: Sequence[str] | None) -> Iterator[Row]:
        kind = self.kind
        split = str(self.split_read)
        commit = self.commit
        with _hub(kind.hub):
            from datasets import load_dataset

            reason = why_missing(kind.hub, kind="dataset", revision=commit)
            if reason is not None:  # soon: the loader below would ask for half a minute
                raise ConnectionError(reason)
            if kind.data_files is None:
                columns = {} if only is None else {"columns": list(only)}
                rows = load_dataset(
                    kind.hub, kind.config, split=split, revision=commit, streaming=True, **columns
                )
            else:
                names = kind.data_files(split, self.chosen)
                files = [f"hf://datasets/{kind.hub}@{commit}/{name}" for name in names]
                rows = load_dataset("json", data_files=files, split="train", streaming=True)
            yield from rows.skip(start)

    def _convert(self, row: Row, row_name: str) -> Converted:
        """Return the problem of a row, or why it is left out; raises DataError for a bad row."""
        remedy = (
            f"a row of {self.kind.hub or 'a table'} is wanted; bad_rows=leave_out leaves it out"
        )
        try:
            split = self.kind.split_of(row) if self.files and self.kind.split_of else None
            if split and self.split_read not in (None, split):
                return LeftOut(row_name, f"is in the split {split}")
            outcome = self.kind.convert(row, self.chosen)
            if isinstance(outcome, LeftOut):
                return outcome
            refuse_tests(outcome.problem)  # else a file is written that no verifier takes
            return _with_distinct_tests(outcome)
        except KeyError as error:
            missing = error.args[0]
            if self.benchmark == "table":
                remedy = f"--map FIELD=COLUMN or FIELD=path.to.value says where it is; {remedy}"
            raise DataError(
                f"{row_name}: missing column {missing!r}; got {sorted(row)}; {remedy}"
            ) from error
        except (TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
            raise DataError(f"{row_name}: does not have the schema ({error}); {remedy}") from error


def _with_distinct_tests(solved: SolvedProblem) -> SolvedProblem:
    # A repeated test costs a run, and its outcome would have double weight in the reward.
    tests = tuple(dict.fromkeys(solved.problem.tests))
    dropped = len(solved.problem.tests) - len(tests)
    if not dropped:
        return solved
    problem = dataclasses.replace(solved.problem, tests=tests)
    return dataclasses.replace(solved, problem=problem, dropped=dropped)


@contextlib.contextmanager
def _hub(name: str) -> Iterator[None]:
    """Raise MissingDependencyError without `datasets`, and DataError for what fails inside."""
    with needing(
        "loading a benchmark from the hub needs the package 'datasets': "
        "pip install 'maxatk[train]', or give a local file"
    ):
        import datasets  # noqa: F401
    try:
        yield
    except Exception as error:  # the libraries behind raise errors of several trees
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(
            f"{name}: cannot be loaded from the hub ({reason:.200}); without a network, make "
            "problems.jsonl of a local file or folder of the same schema: maxatk problems prepare "
            "NAME --file FILE --out problems.jsonl"
        ) from error
