"""A run on several machines: each takes a slice of the problems, in a folder of its own."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from maxatk.check import require
from maxatk.errors import DataError, InvalidValueError
from maxatk.folders import read_json, write_json
from maxatk.settings import typed

_FILE = "shard.json"
_FORM = "a number of a number of shards, such as 3/16, the first 1/16"
_FOLDER = re.compile(r"([1-9]\d*)-of-([1-9]\d*)")


@dataclasses.dataclass(frozen=True, order=True)
class Shard:
    """One of `of` parts of a run; `number` counts from 1."""

    of: int
    number: int

    @classmethod
    def read(cls, text: str) -> Shard:
        """Return the shard of a text such as "3/16"; raises InvalidValueError."""
        numbers = re.fullmatch(r"(\d{1,9})/(\d{1,9})", str(text))
        require(numbers is not None, "shard", _FORM, text)
        assert numbers is not None
        shard = cls(int(numbers[2]), int(numbers[1]))
        require(1 <= shard.number <= shard.of, "shard", _FORM, text)
        return shard

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @property
    def folder(self) -> str:
        """The name of its folder inside that of the run."""
        return f"{self.number}-of-{self.of}"

    def range_of(self, count: int) -> range:
        """Return the places of its contiguous part of `count` things.

        All parts in order are all things, and none has two more than another. Raises
        InvalidValueError where a part would be empty.
        """
        if self.of > count:
            raise InvalidValueError(
                f"shard: must be one of {count} at most, as there are so many problems, got "
                f"'{self}'"
            )
        return range(count * (self.number - 1) // self.of, count * self.number // self.of)


def shard_folders(run: Path) -> dict[Shard, Path]:
    """Return the folders of the shards of a run, in order."""
    folders = {}
    for path in run.iterdir() if run.is_dir() else ():
        numbers = _FOLDER.fullmatch(path.name)
        if numbers is not None and path.is_dir():
            folders[Shard(int(numbers[2]), int(numbers[1]))] = path
    return dict(sorted(folders.items()))


@dataclasses.dataclass(frozen=True)
class ShardPlan:
    """What a shard has to do: the file `shard.json` of its folder, written before any work.

    `ranges` are the places of its samples among those of the whole run, as [first, count]; `k` is
    that of the recipe.
    """

    ranges: tuple[tuple[int, int], ...]
    k: tuple[int, ...] = ()

    @classmethod
    def of_places(cls, places: Iterable[int], *, k: Sequence[int]) -> ShardPlan:
        """Return the plan of samples that are at these places, in ascending order."""
        ranges: list[tuple[int, int]] = []
        for place in places:
            if ranges and place == sum(ranges[-1]):
                ranges[-1] = (ranges[-1][0], ranges[-1][1] + 1)
            else:
                ranges.append((place, 1))
        return cls(tuple(ranges), tuple(k))

    @classmethod
    def read(cls, folder: Path) -> ShardPlan | None:
        """Return the plan in a folder, None without one; raises DataError for a damaged file."""
        path = folder / _FILE
        if not path.is_file():
            return None
        row = read_json(path)
        try:
            return typed(row, cls, where="shard")
        except (ValueError, TypeError) as error:
            raise DataError(f"{path}: {error}") from error

    def write(self, folder: Path) -> None:
        """Write the plan into a folder."""
        write_json(folder / _FILE, dataclasses.asdict(self))

    @property
    def total(self) -> int:
        """How many samples the shard has."""
        return sum(count for _, count in self.ranges)

    def places(self) -> Iterator[int]:
        """Yield the places of its samples in order."""
        for first, count in self.ranges:
            yield from range(first, first + count)
