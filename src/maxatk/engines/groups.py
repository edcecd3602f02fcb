"""Rows with group ids, as trainers hold them, to the table (groups, samples) and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


@dataclasses.dataclass(frozen=True)
class Groups:
    """Where each of N rows lies in a table of groups: its group and its place inside the group.

    `width` is the number of columns: the size of the largest group, or `least` if that is more.
    """

    group: npt.NDArray[np.intp]
    place: npt.NDArray[np.intp]
    width: int

    @classmethod
    def of(cls, ids: Sequence[object], *, least: int = 1) -> Groups:
        """Return the groups of rows: rows whose ids have the same text belong together.

        The groups may have any sizes and their rows any order; `least` is the least width.
        """
        names = np.asarray([str(one) for one in ids])
        _, group, sizes = np.unique(names, return_inverse=True, return_counts=True)
        order = np.argsort(group, kind="stable")
        first = np.cumsum(sizes) - sizes
        place = np.empty(len(names), dtype=np.intp)
        place[order] = np.arange(len(names)) - np.repeat(first, sizes)
        return cls(group, place, max(least, int(sizes.max())))

    def table(self, values: npt.ArrayLike, *, fill: float = np.nan) -> npt.NDArray[np.float64]:
        """Return one number a row (N,) as a table (P, width), float64, with `fill` in the gaps.

        The NaN of a gap is what `maxatk.advantages` reads as a sample that could not be scored.
        """
        table = np.full((int(self.group.max()) + 1, self.width), fill)
        table[self.group, self.place] = values
        return table

    def rows(self, table: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the table (P, width) as one number a row, (N,)."""
        found: npt.NDArray[np.float64] = table[self.group, self.place]
        return found
