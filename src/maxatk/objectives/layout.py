"""Rewards as they come (arrays, ragged lists, tensors, series, flat with ids) as rows of floats."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from maxatk.check import require
from maxatk.errors import InvalidValueError
from maxatk.objectives.checks import FloatArray, as_floats, package_of


@dataclasses.dataclass(frozen=True, eq=False)
class Layout:
    """Where the samples of the given rewards lie in the rows of groups, (P, n)."""

    given: Any
    shape: tuple[int, ...]  # of the rewards as an array
    places: npt.NDArray[np.intp] | None = None  # (P, n) among flat or ragged samples, -1 if padded
    ids: list[Any] | None = None  # of the groups of flat rewards

    @property
    def width(self) -> int:
        """Return the number of samples of the largest group."""
        return self.shape[-1] if self.places is None else self.places.shape[1]

    @property
    def sizes(self) -> npt.NDArray[np.intp]:
        """Return the number of samples of each group, (P,)."""
        if self.places is None:
            return np.full(math.prod(self.shape[:-1]), self.shape[-1], dtype=np.intp)
        return np.asarray((self.places >= 0).sum(axis=1))

    def rows(self, field: str, values: Any) -> FloatArray:
        """Return a column of numbers beside the rewards as rows (P, n), NaN where padded."""
        ragged = self.places is not None and not self.ids
        flat = as_floats(field, self._leaves(field, values) if ragged else values)
        if flat.shape != self.shape:
            raise InvalidValueError(
                f"{field}: must have the shape of the rewards {self.shape}, got {flat.shape}"
            )
        if self.places is None:
            return flat if flat.ndim == 2 else flat.reshape(len(self.sizes), self.width)
        return np.where(self.places < 0, np.nan, flat[self.places])

    def codes(self, field: str, values: Any) -> npt.NDArray[np.intp]:
        """Return a column of hashable values as rows (P, n) of small integers, one a value."""
        codes = _numbered(field, self._leaves(field, values))
        if self.places is None:
            return codes.reshape(len(self.sizes), self.width)
        return codes[self.places]

    def of_samples(self, values: FloatArray) -> Any:
        """Return values of the samples (P, n) in the form of the rewards."""
        if self.places is None:
            return _like(self.given, values.reshape(self.shape))
        flat = np.empty(self.shape)
        flat[self.places[self.places >= 0]] = values[self.places >= 0]
        if self.ids:
            return _like(self.given, flat, getattr(self.given, "index", None))
        return np.split(flat, np.cumsum(self.sizes)[:-1])

    def of_groups(self, values: FloatArray) -> Any:
        """Return values of the groups (P, ...) as what holds the rewards."""
        if self.places is None:
            values = values.reshape(self.shape[:-1] + values.shape[1:])
        return _like(self.given, values, self.ids)

    def warn_of_fewer(self, needed: int, effect: str, *, depth: int) -> None:
        """Warn of groups with fewer samples than are needed, `depth` calls below the caller."""
        if self.places is None and self.width >= needed:  # which takes no time
            return
        few = np.flatnonzero(self.sizes < needed)
        if few.size:
            first = self.ids[few[0]] if self.ids else int(few[0])
            warnings.warn(
                f"rewards: {few.size} of {self.sizes.size} groups have fewer than {needed} samples,"
                f" the first of them {first!r}; {effect}",
                stacklevel=depth + 1,
            )

    def _leaves(self, field: str, values: Any) -> list[Any]:
        """Return what lies in lists of the same lengths as the rewards', from the outermost in."""
        lengths = [[n] * math.prod(self.shape[:axis]) for axis, n in enumerate(self.shape)]
        if self.places is not None and not self.ids:
            lengths = [[len(self.given)], self.sizes.tolist()]
        leaves = [values]
        for wanted in lengths:
            lists = [_listed(leaf) for leaf in leaves]
            for own, length in zip(lists, wanted, strict=True):
                if own is None or len(own) != length:
                    found = "no list" if own is None else f"a list of {len(own)}"
                    raise InvalidValueError(
                        f"{field}: must have the shape of the rewards {self.shape}, got {found} "
                        f"where they have {length}"
                    )
            leaves = [leaf for own in lists for leaf in own or ()]
        return leaves


def layout_of(rewards: Any, groups: Any = None) -> tuple[Layout, FloatArray]:
    """Return the layout of rewards and their rows (P, n), float64.

    Raises InvalidValueError for what are no finite numbers or NaN, for a single number, and for
    `groups` that are not one hashable id for each of the flat rewards.
    """
    ragged = groups is None and _is_ragged(rewards)
    values = rewards if ragged else as_floats("rewards", rewards)
    if ragged:
        sizes = np.array([len(group) for group in rewards])
        starts, cell = np.cumsum(sizes) - sizes, np.arange(sizes.max())
        places = np.where(cell < sizes[:, None], starts[:, None] + cell, -1)
        layout = Layout(rewards, (int(sizes.sum()),), places)
    elif groups is not None:
        ids = _listed(groups) or []
        if not ids or values.shape != (len(ids),):
            raise InvalidValueError(
                f"groups: must be one id for each of the flat rewards, got {len(ids)} ids for "
                f"rewards of shape {values.shape}"
            )
        layout = layout_of_ids(ids, given=rewards)
    elif values.ndim == 0:
        raise InvalidValueError("rewards: must have a last axis of samples, got a single number")
    else:
        layout = Layout(rewards, values.shape)
    rows = layout.rows("rewards", values)
    allowed = "finite, or NaN for a sample that could not be scored"
    require(not np.isinf(rows).any(), "rewards", allowed, np.inf)
    return layout, rows


def layout_of_ids(ids: Sequence[Any], *, least: int = 1, given: Any = None) -> Layout:
    """Return the layout of flat rewards by group ids, in order of appearance, `least` or wider."""
    groups = _numbered("groups", ids, missing=False)
    first = np.unique(groups, return_index=True)[1]
    order, sizes = np.argsort(groups, kind="stable"), np.bincount(groups)
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    places = np.full((len(sizes), max(least, sizes.max())), -1, dtype=np.intp)
    places[groups[order], place] = order
    return Layout(given, (len(order),), places, [ids[i] for i in first])


def _numbered(field: str, values: Sequence[Any], *, missing: bool = True) -> npt.NDArray[np.intp]:
    """Return the number of each among the different values; None and NaN are one, if allowed."""
    seen: dict[Hashable, int] = {}
    found = []
    try:
        for value in values:
            found.append(seen.setdefault(value, len(seen)))
        absent = [value for value in seen if value is None or value != value]  # NaN is not itself
    except (TypeError, ValueError) as error:
        raise InvalidValueError(f"{field}: must be hashable, got {value!r} ({error})") from error
    if absent and not missing:
        raise InvalidValueError(f"{field}: must name the group of every sample, got {absent[0]!r}")
    numbers = np.array(found, dtype=np.intp)
    if len(absent) > 1:
        numbers[np.isin(numbers, [seen[value] for value in absent])] = seen[absent[0]]
    return numbers


def _like(given: Any, values: FloatArray, index: Any = None) -> Any:
    """Return the values as what `given` is: float32 on its device for a tensor, else an array."""
    package = package_of(type(given))
    if package == "torch":
        with np.errstate(over="ignore"):
            single = values.astype(np.float32)
        if np.isinf(single).any() or (values.any() and not single.any()):
            raise InvalidValueError(
                f"rewards: the results for a tensor are float32, which cannot hold "
                f"{np.nanmax(np.abs(values)):g}; give an array"
            )
        return given.detach().float().new_tensor(single)
    if package == "pandas" and values.ndim == given.ndim == 1:
        return type(given)(values, index=index)
    return values


def _listed(values: Any) -> list[Any] | None:
    """Return the entries of a sequence, an array, a tensor or a frame; None for anything else."""
    if package_of(type(values)) == "pandas":
        values = values.to_numpy()
    found = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(found, Sequence) and not isinstance(found, (str, bytes)):
        return list(found)
    return None


def _is_ragged(rewards: Any) -> bool:
    """Say whether rewards are a list or a column of sequences of different lengths."""
    if not isinstance(rewards, Sequence):
        return False
    sizes = {
        len(group) if hasattr(group, "__len__") and getattr(group, "shape", None) != () else -1
        for group in rewards
    }
    return len(sizes) > 1 and min(sizes) >= 0
