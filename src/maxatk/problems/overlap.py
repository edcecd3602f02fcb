"""Problems of Codeforces that another data set holds: known by contest and index."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from maxatk.problems.benchmarks import BENCHMARKS
from maxatk.problems.benchmarks.base import Row
from maxatk.problems.files import starting_with
from maxatk.problems.load import Source

_COLUMNS = ("name", "cf_contest_id", "cf_index")  # what `contest_keys` needs of CodeContests
_KEY = re.compile(r"(?:CODE_?\w+/)?([1-9]\d*)(?:/|_(?=[A-Z]\d*\. ))([A-Z]\d*)(?:\. |\Z)")


@dataclasses.dataclass(frozen=True)
class Overlap:
    """Another data set whose problems are left out: its name, and where to read it.

    `splits` are those of the hub or of a folder (empty: all); `file` as in `PrepareSettings`, or
    a prepared problems.jsonl.
    """

    benchmark: Literal["code_contests"] = "code_contests"
    file: str | None = None
    splits: list[str] = dataclasses.field(default_factory=list)
    revision: str | None = None

    def sources(self) -> list[Source]:
        """Return what is read, one source a split."""
        every = self.splits or list(BENCHMARKS[self.benchmark].splits)
        splits: Sequence[str | None] = every
        if self.file is not None and not Path(self.file).is_dir():
            splits = [None]
        elif self.file is not None and not self.splits:  # those that the folder has
            splits = [name for name in every if starting_with(Path(self.file), name)] or [None]
        return [Source(self.benchmark, name, self.file, self.revision) for name in splits]

    def keys(self) -> set[tuple[str, str]]:
        """Return the keys of every problem of the data set."""
        rows = (row for source in self.sources() for _, row in source.rows(only=_COLUMNS))
        return {key for row in rows for key in contest_keys(row)}


def contest_keys(row: Row) -> set[tuple[str, str]]:
    """Return every (contest, index) of a row of CodeContests or Codeforces, or of its problem.

    They come from its id, its name (`1041_E. Tree Reconstruction`), its aliases and its columns.
    """
    pairs = (("cf_contest_id", "cf_index"), ("contest_id", "index"))
    columns = [f"{row.get(contest)}/{row.get(index)}" for contest, index in pairs]
    names = [row.get("id"), row.get("name"), *(row.get("aliases") or ()), *columns]
    found = (_KEY.match(str(name).strip().upper()) for name in names)
    return {(match[1], match[2]) for match in found if match}
