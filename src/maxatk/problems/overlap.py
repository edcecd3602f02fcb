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
from maxatk.problems.source import Source

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
        """Return the sources of the data set's rows, one a split."""
        splits: Sequence[str | None] = self.splits or BENCHMARKS[self.benchmark].splits
        if self.file is not None and not Path(self.file).is_dir():
            splits = [None]
        elif self.file is not None and not self.splits:
            folder = Path(self.file)  # it may hold some of the splits, or files of other names
            splits = [name for name in splits if name and starting_with(folder, name)] or [None]
        return [Source(self.benchmark, name, self.file, self.revision) for name in splits]

    def keys(self) -> set[tuple[str, str]]:
        """Return the keys of every problem of the data set."""
        keys: set[tuple[str, str]] = set()
        for source in self.sources():
            for _, row in source.rows(only=_COLUMNS):
                keys |= contest_keys(row)
        return keys


def contest_keys(row: Row) -> set[tuple[str, str]]:
    """Return every (contest, index) of a row of CodeContests or Codeforces, or of its problem.

    They come from its id, its name (`1041_E. Tree Reconstruction`), its aliases and its columns.
    """
    names = [
        row.get("id"),
        row.get("name"),
        *(row.get("aliases") or ()),
        f"{row.get('cf_contest_id')}/{row.get('cf_index')}",
        f"{row.get('contest_id')}/{row.get('index')}",
    ]
    matches = [_KEY.match(str(name).strip().upper()) for name in names]
    return {(match[1], match[2]) for match in matches if match}
