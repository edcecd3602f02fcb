"""Rewards as they come: arrays, ragged lists, tensors, series, or flat with a group id each.

Inside, groups are rows of one float64 array, padded with NaN; results go back in the form of the
rewards. torch and pandas are recognised by their objects and never imported.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

from maxatk.errors import InvalidValueError
from maxatk.objectives.checks import FloatArray, as_floats


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

    def rows(self, field: str, values: Any) -> FloatArray:
        """Return a column of numbers beside the rewards as rows, NaN where they are padded."""
        flat = as_floats(field, _leaves(values, 2) if self._ragged else _as_numpy(values))
        if flat.shape != self.shape:
            raise self._misshaped(field, flat.shape)
        if self.places is None:
            return flat
        return np.where(self.places < 0, np.nan, flat[self.places])

    def codes(self, field: str, values: Any) -> npt.NDArray[np.intp]:
        """Return a column of hashable values as rows of small integers, one for each value."""
        leaves = _leaves(values, 2 if self._ragged else len(self.shape))
        if len(leaves) != math.prod(self.shape):
            raise self._misshaped(field, (len(leaves),))
        seen: dict[Hashable, int] = {}
        try:
            codes = np.array([seen.setdefault(leaf, len(seen)) for leaf in leaves], dtype=np.intp)
        except TypeError as error:
            raise InvalidValueError(f"{field}: must be hashable ({error})") from error
        return codes.reshape(self.shape) if self.places is None else codes[self.places]

    def of_samples(self, values: FloatArray) -> Any:
        """Return values of the samples, in rows, in the form of the rewards."""
        if self.places is None:
            return _like(self.given, values)
        flat = np.empty(self.shape)
        flat[self.places[self.places >= 0]] = values[self.places >= 0]
        if self.ids:
            return _like(self.given, flat, getattr(self.given, "index", None))
        return np.split(flat, np.cumsum((self.places >= 0).sum(axis=1))[:-1])

    def of_groups(self, values: FloatArray) -> Any:
        """Return values of the groups (P, ...) as what holds the rewards."""
        return _like(self.given, values, self.ids)

    def warn_of_fewer(self, needed: int, *, depth: int) -> None:
        """Warn of groups, given in different sizes, that have fewer samples than are needed.

        `depth` is the number of calls between the caller's line and this one.
        """
        if self.places is None:
            return
        few = int(((self.places >= 0).sum(axis=1) < needed).sum())
        if few:
            warnings.warn(
                f"rewards: {few} of {len(self.places)} groups have fewer than {needed} samples; "
                "their metric is NaN and their advantages are 0",
                stacklevel=depth + 1,
            )

    @property
    def _ragged(self) -> bool:
        return self.places is not None and not self.ids

    def _misshaped(self, field: str, shape: tuple[int, ...]) -> InvalidValueError:
        return InvalidValueError(
            f"{field}: must have the shape of the rewards {self.shape}, got {shape}"
        )


def layout_of(rewards: Any, groups: Any = None) -> tuple[Layout, FloatArray]:
    """Return the layout of rewards and their rows (..., n), float64.

    Raises InvalidValueError for rewards that are no numbers, infinite rewards, and `groups` that
    are not one hashable id for each of the flat rewards.
    """
    if groups is not None:
        layout = _grouped(rewards, _leaves(groups, 1))
    elif _is_ragged(rewards):
        sizes = np.array([len(group) for group in rewards])
        starts, cell = np.cumsum(sizes) - sizes, np.arange(sizes.max())
        places = np.where(cell < sizes[:, None], starts[:, None] + cell, -1)
        layout = Layout(rewards, (int(sizes.sum()),), places)
    else:
        rows = as_floats("rewards", _as_numpy(rewards))
        layout = Layout(rewards, rows.shape)
    if layout.places is not None:
        rows = layout.rows("rewards", rewards)
    if not np.isfinite(rows).all() and np.isinf(rows).any():
        raise InvalidValueError(
            "rewards: must be finite, or NaN for a sample that could not be scored; got an infinity"
        )
    return layout, rows


def _grouped(rewards: Any, groups: list[Any]) -> Layout:
    shape = tuple(np.shape(rewards))
    if not groups or shape != (len(groups),):
        raise InvalidValueError(
            f"groups: must be one id for each of the flat rewards, got {len(groups)} ids for "
            f"rewards of shape {shape}"
        )
    members: dict[Hashable, list[int]] = {}
    try:
        for place, group in enumerate(groups):
            members.setdefault(group, []).append(place)
    except TypeError as error:
        raise InvalidValueError(f"groups: must be hashable ({error})") from error
    places = np.full((len(members), max(map(len, members.values()))), -1, dtype=np.intp)
    for row, own in zip(places, members.values(), strict=True):
        row[: len(own)] = own
    return Layout(rewards, shape, places, list(members))


def _package(values: Any) -> str:
    return type(values).__module__.partition(".")[0]


def _as_numpy(values: Any) -> Any:
    if _package(values) == "torch":
        return values.detach().cpu().double().numpy()
    return values.to_numpy() if _package(values) == "pandas" else values


def _like(given: Any, values: FloatArray, index: Any = None) -> Any:
    """Return the values as what `given` is: float32 on its device for a tensor, else an array."""
    if _package(given) == "torch":
        return given.detach().float().new_tensor(values.astype(np.float32))
    if _package(given) == "pandas" and values.ndim == 1:
        return type(given)(values, index=index)
    return values


def _leaves(values: Any, depth: int) -> list[Any]:
    """Return what lies `depth` levels deep in nested sequences, arrays, tensors or series."""
    listed = values.tolist() if hasattr(values, "tolist") else list(values)
    if depth <= 1:
        return listed
    return [leaf for row in listed for leaf in _leaves(row, depth - 1)]


def _is_ragged(rewards: Any) -> bool:
    """Say whether rewards are a list of sequences of different lengths."""
    if not isinstance(rewards, (list, tuple)):
        return False
    sizes = [len(group) if hasattr(group, "__len__") else -1 for group in rewards]
    return len(set(sizes)) > 1 and min(sizes) >= 0
