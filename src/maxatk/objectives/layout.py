"""Rewards as they come: arrays, ragged lists, tensors, series, or flat with a group id each.

Inside, groups are rows of one float64 array, padded with NaN; results go back in the form of the
rewards. torch and pandas are recognised by their objects and never imported.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from maxatk.errors import InvalidValueError
from maxatk.objectives.checks import FloatArray, as_floats, package_of


@dataclasses.dataclass(frozen=True, eq=False)
class Layout:
    """Where the samples of the given rewards lie in the rows of groups.

    `places` (P, n) are positions among the samples, -1 where a row is padded; None for rewards
    that are an array already, of `shape`. `ids` name the groups of flat rewards.
    """

    given: Any
    shape: tuple[int, ...]
    places: npt.NDArray[np.intp] | None = None
    ids: list[Any] | None = None

    @property
    def width(self) -> int:
        """Return the number of samples of the largest group."""
        return self.shape[-1] if self.places is None else self.places.shape[1]

    @property
    def sizes(self) -> npt.NDArray[np.intp]:
        """Return the number of samples of each group."""
        if self.places is None:
            return np.full(math.prod(self.shape[:-1]), self.shape[-1], dtype=np.intp)
        filled: npt.NDArray[np.intp] = (self.places >= 0).sum(axis=1)
        return filled

    def rows(self, field: str, values: Any) -> FloatArray:
        """Return a column of numbers beside the rewards as rows, NaN where they are padded."""
        flat = as_floats(field, self._leaves(field, values, 2) if self._ragged else values)
        if flat.shape != self.shape:
            raise InvalidValueError(
                f"{field}: must have the shape of the rewards {self.shape}, got {flat.shape}"
            )
        if self.places is None:
            return flat
        return np.where(self.places < 0, np.nan, flat[self.places])

    def codes(self, field: str, values: Any) -> npt.NDArray[np.intp]:
        """Return a column of hashable values as rows of small integers, one for each value.

        None and NaN are one value.
        """
        leaves = self._leaves(field, values, 2 if self._ragged else len(self.shape))
        codes = _numbered(field, leaves)
        return codes.reshape(self.shape) if self.places is None else codes[self.places]

    def of_samples(self, values: FloatArray) -> Any:
        """Return values of the samples, in rows, in the form of the rewards."""
        if self.places is None:
            return _like(self.given, values)
        flat = np.empty(self.shape)
        flat[self.places[self.places >= 0]] = values[self.places >= 0]
        if self.ids:
            return _like(self.given, flat, getattr(self.given, "index", None))
        return np.split(flat, np.cumsum(self.sizes)[:-1])

    def of_groups(self, values: FloatArray) -> Any:
        """Return values of the groups (P, ...) as what holds the rewards."""
        return _like(self.given, values, self.ids)

    def warn_of_fewer(self, needed: int, effect: str, *, depth: int) -> None:
        """Warn of groups with fewer samples than are needed, naming the first, and of the effect.

        `depth` is the number of calls between the caller's line and this one.
        """
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

    @property
    def _ragged(self) -> bool:
        return self.places is not None and not self.ids

    def _leaves(self, field: str, values: Any, depth: int) -> list[Any]:
        """Return what lies `depth` levels deep in lists of the same lengths as the rewards'."""
        leaves, lengths = _unpacked(values, depth)
        expected = _lengths(self.shape)
        if self._ragged:
            expected = [len(self.given), *map(len, self.given)]
        for own, wanted in zip(lengths, expected, strict=False):
            if own != wanted:
                found = "no list" if own is None else f"a list of {own}"
                raise InvalidValueError(
                    f"{field}: must have the shape of the rewards {self.shape}, got {found} where "
                    f"they have {wanted}"
                )
        return leaves


def layout_of(rewards: Any, groups: Any = None) -> tuple[Layout, FloatArray]:
    """Return the layout of rewards and their rows (..., n), float64.

    Raises InvalidValueError for rewards that are no numbers, infinite rewards, and `groups` that
    are not one hashable id for each of the flat rewards.
    """
    if groups is not None:
        flat, ids = as_floats("rewards", rewards), _listed(groups)
        if not ids or flat.shape != (len(ids),):
            raise InvalidValueError(
                f"groups: must be one id for each of the flat rewards, got {len(ids or [])} ids "
                f"for rewards of shape {flat.shape}"
            )
        layout = layout_of_ids(ids, given=rewards)
        rows = layout.rows("rewards", flat)
    elif _is_ragged(rewards):
        sizes = np.array([len(group) for group in rewards])
        starts, cell = np.cumsum(sizes) - sizes, np.arange(sizes.max())
        places = np.where(cell < sizes[:, None], starts[:, None] + cell, -1)
        layout = Layout(rewards, (int(sizes.sum()),), places)
        rows = layout.rows("rewards", rewards)
    else:
        rows = as_floats("rewards", rewards)
        layout = Layout(rewards, rows.shape)
    if not np.isfinite(rows).all() and np.isinf(rows).any():
        raise InvalidValueError(
            "rewards: must be finite, or NaN for a sample that could not be scored; got an infinity"
        )
    return layout, rows


def layout_of_ids(ids: Sequence[Any], *, least: int = 1, given: Any = None) -> Layout:
    """Return the layout of flat rewards with one hashable group id each, in any order.

    Groups come in the order in which they appear; a row has `least` places at least. Results are
    arrays unless the `given` rewards are something else.
    """
    groups = _numbered("groups", ids, missing=False)
    first = np.unique(groups, return_index=True)[1]
    order, sizes = np.argsort(groups, kind="stable"), np.bincount(groups)
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    places = np.full((len(sizes), max(least, sizes.max())), -1, dtype=np.intp)
    places[groups[order], place] = order
    return Layout(given, (len(order),), places, [ids[i] for i in first])


def _numbered(field: str, values: Iterable[Any], *, missing: bool = True) -> npt.NDArray[np.intp]:
    """Return the number of each value among the different ones, in order of appearance.

    None and NaN are one value if they may be `missing`. Raises InvalidValueError where they may
    not, and for a value that is not hashable.
    """
    seen: dict[Hashable, int] = {}
    found = []
    try:
        for value in values:
            found.append(seen.setdefault(value, len(seen)))
        absent = [value for value in seen if value is None or value != value]  # NaN is not itself
    except (TypeError, ValueError) as error:
        raise InvalidValueError(f"{field}: must be hashable, got {value!r} ({error})") from error
    if absent and not missing:
        text = f"{field}: must name the group of every sample, got {absent[0]!r}"
        raise InvalidValueError(text)
    numbers = np.array(found, dtype=np.intp)
    if len(absent) > 1:
        numbers[np.isin(numbers, [seen[value] for value in absent])] = seen[absent[0]]
    return numbers


def _like(given: Any, values: FloatArray, index: Any = None) -> Any:
    """Return the values as what `given` is: float32 on its device for a tensor, else an array."""
    if package_of(given) == "torch":
        with np.errstate(over="ignore"):
            single = values.astype(np.float32)
        if np.isinf(single).any() or (values.any() and not single.any()):
            raise InvalidValueError(
                f"rewards: the results for a tensor are float32, which cannot hold "
                f"{np.nanmax(np.abs(values)):g}; give an array"
            )
        return given.detach().float().new_tensor(single)
    if package_of(given) == "pandas" and values.ndim == 1:
        return type(given)(values, index=index)
    return values


def _listed(values: Any) -> list[Any] | None:
    """Return the entries of a sequence, an array, a tensor or a frame; None for anything else."""
    if package_of(values) == "pandas":
        values = values.to_numpy()
    if hasattr(values, "tolist"):
        found = values.tolist()
        return found if isinstance(found, list) else None
    if isinstance(values, Sequence) and not isinstance(values, (str, bytes)):
        return list(values)
    return None


def _unpacked(values: Any, depth: int) -> tuple[list[Any], list[int | None]]:
    """Return what lies `depth` levels deep, and the lengths of the lists on the way to it."""
    listed = _listed(values)
    if listed is None:
        return [values], [None]
    if depth <= 1:
        return listed, [len(listed)]
    parts = [_unpacked(row, depth - 1) for row in listed]
    lengths = [length for _, inside in parts for length in inside]
    return [leaf for leaves, _ in parts for leaf in leaves], [len(listed), *lengths]


def _lengths(shape: tuple[int, ...]) -> list[int]:
    """Return the lengths of the lists that an array of the shape is made of, as `_unpacked`."""
    return [shape[0], *_lengths(shape[1:]) * shape[0]] if shape else []


def _is_ragged(rewards: Any) -> bool:
    """Say whether rewards are a list of sequences of different lengths."""
    if not isinstance(rewards, (list, tuple)):
        return False
    sizes = [
        len(group) if hasattr(group, "__len__") and getattr(group, "shape", None) != () else -1
        for group in rewards
    ]
    return len(set(sizes)) > 1 and min(sizes) >= 0
