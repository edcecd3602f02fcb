"""Rewards as they come (arrays, ragged lists, tensors, series, flat with ids) as rows of floats."""

from __future__ import annotations

import dataclasses
import itertools
import math
import warnings
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from maxatk.errors import InvalidValueError, counted
from maxatk.objectives.checks import FloatArray, as_floats, is_na, package_of, plain_ids


@dataclasses.dataclass(frozen=True, eq=False)
class Layout:
    """Where the samples of rewards lie in the rows of groups, (P, n)."""

    form: Any  # the rewards as they came: results take their form
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

    @property
    def _is_ragged(self) -> bool:
        return self.places is not None and not self.ids

    def rows(self, field: str, values: Any) -> FloatArray:
        """Return a column of numbers beside the rewards as rows (P, n), NaN where padded."""
        flat = as_floats(field, self._leaves(field, values) if self._is_ragged else values)
        if flat.shape != self.shape:
            raise InvalidValueError(
                f"{field}: must have the shape of the rewards {self.shape}, got {flat.shape}"
            )
        if self.places is None:
            return flat if flat.ndim == 2 else flat.reshape(len(self.sizes), self.width)
        return np.where(self.places < 0, np.nan, flat[self.places])

    def rewards(self, values: Any) -> FloatArray:
        """Return rewards in the form of those of this layout as rows (P, n)."""
        return self.rows("rewards", values)

    def sums(self, field: str, values: Any) -> FloatArray:
        """Return a column that is summed over the rows of a sample, of which it has one here."""
        return self.rows(field, values)

    def codes(self, field: str, values: Any, *, missing: bool = True) -> npt.NDArray[np.intp]:
        """Return a column of hashable values as rows (P, n) of small integers, one a value.

        None and NaN are one value, refused unless `missing`. Where padded the integers mean
        nothing.
        """
        codes = _numbered(field, self._leaves(field, values), missing=missing)
        if self.places is None:
            return codes.reshape(len(self.sizes), self.width)
        return codes[self.places]

    def of_samples(self, values: FloatArray) -> Any:
        """Return values of the samples (P, n) in the form of the rewards."""
        index = getattr(self.form, "index", None)  # of a series
        if self.places is None:
            return _like(self.form, values.reshape(self.shape), index)
        flat = np.empty(self.shape)
        filled = self.places >= 0
        flat[self.places[filled]] = values[filled]
        if self.ids:
            return _like(self.form, flat, index)
        return np.split(flat, np.cumsum(self.sizes)[:-1])

    def of_groups(self, values: FloatArray) -> Any:
        """Return values of the groups (P, ...) as what holds the rewards."""
        if self.places is None:
            values = values.reshape(self.shape[:-1] + values.shape[1:])
        return _like(self.form, values, self.ids)

    def warn_of_fewer(self, needed: int, effect: str, *, depth: int) -> None:
        """Warn of groups with fewer samples than are needed, `depth` calls below the caller."""
        if self.places is None and self.width >= needed:  # which takes no time
            return
        warn_of_small(self, self.sizes, counted(needed, "sample"), needed, effect, depth=depth + 1)

    def name_of_group(self, group: int) -> Any:
        """Return the id of a group, or its place where groups have no ids."""
        return self.ids[group] if self.ids else group

    def _leaves(self, field: str, values: Any) -> list[Any]:
        """Return the values inside nested lists, whose lengths must be those of the rewards'."""
        # Of each level, from the outermost in, how long each of its lists must be.
        lengths = [[n] * math.prod(self.shape[:axis]) for axis, n in enumerate(self.shape)]
        if self._is_ragged:
            lengths = [[len(self.form)], self.sizes.tolist()]
        leaves = [values]
        for lengths_of_level in lengths:
            lists = []
            for leaf, length in zip(leaves, lengths_of_level, strict=True):
                entries = _listed(leaf)
                if entries is None or len(entries) != length:
                    got = "no list" if entries is None else f"a list of {len(entries)}"
                    raise InvalidValueError(
                        f"{field}: must have the shape of the rewards {self.shape}, got {got} "
                        f"where they have {length}"
                    )
                lists.append(entries)
            leaves = list(itertools.chain.from_iterable(lists))
        return leaves


def warn_of_small(
    layout: Layout,
    sizes: npt.NDArray[np.intp],
    wanted: str,
    needed: int,
    effect: str,
    *,
    depth: int,
) -> None:
    """Warn of groups with fewer than are needed, `depth` calls below the caller."""
    few = np.flatnonzero(sizes < needed)
    if few.size:
        place = int(few[0])
        first = f"{layout.ids[place]!r}" if layout.ids else f"at index {place}"
        warnings.warn(
            f"rewards: {few.size} of {counted(sizes.size, 'group')} with fewer than {wanted},"
            f" the first of them group {first}; {effect}",
            stacklevel=depth + 1,
        )


def layout_of(rewards: Any, groups: Any = None) -> tuple[Layout, FloatArray]:
    """Return the layout of rewards and their rows (P, n), float64.

    Raises InvalidValueError for what are no finite numbers or NaN, for a single number, and for
    `groups` that are not one hashable id for each of the flat rewards.
    """
    rewards = _groups_of_column(rewards)
    ragged = groups is None and _is_ragged(rewards)
    values = rewards if ragged else as_floats("rewards", rewards)
    if ragged:
        sizes = np.array([len(group) for group in rewards])
        starts = np.cumsum(sizes) - sizes
        column = np.arange(sizes.max())
        places = np.where(column < sizes[:, None], starts[:, None] + column, -1)
        layout = Layout(rewards, (int(sizes.sum()),), places)
    elif groups is not None:
        ids = _listed(groups) or []
        if not ids or values.shape != (len(ids),):
            raise InvalidValueError(
                f"groups: must be one id for each of the flat rewards, got "
                f"{counted(len(ids), 'id')} for rewards of shape {values.shape}"
            )
        layout = layout_of_ids(ids, form=rewards)
    elif values.ndim == 0:
        raise InvalidValueError("rewards: must have a last axis of samples, got a single number")
    else:
        layout = Layout(rewards, values.shape)
    rows = layout.rows("rewards", values)
    allowed = "finite, or NaN for a sample that could not be scored"
    infinite = rows[np.isinf(rows)]
    if infinite.size:
        raise InvalidValueError(f"rewards: must be {allowed}, got {infinite[0]}")
    return layout, rows


def layout_of_ids(ids: Sequence[Any], *, least: int = 1, form: Any = None) -> Layout:
    """Return the layout of flat rewards by group ids, in order of appearance, `least` or wider."""
    groups = _numbered("groups", ids, missing=False)
    first = np.unique(groups, return_index=True)[1]
    # Sorted by group, a sample's column is its place minus the place where its group starts.
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups)
    starts = np.cumsum(sizes) - sizes
    columns = np.arange(len(order)) - np.repeat(starts, sizes)
    width = max(least, sizes.max())
    places = np.full((len(sizes), width), -1, dtype=np.intp)
    places[groups[order], columns] = order
    return Layout(form, (len(order),), places, [ids[i] for i in first])


def _numbered(field: str, values: Sequence[Any], *, missing: bool = True) -> npt.NDArray[np.intp]:
    """Return the number of each among the different values; None and NaN are one, if allowed."""
    number_of: dict[Hashable, int] = {}
    listed = []
    ids = plain_ids(field, values)
    try:
        for value in ids:
            listed.append(number_of.setdefault(value, len(number_of)))
        # NaN differs from itself, so that each is a key of its own.
        absent = [value for value in number_of if value is None or is_na(value) or value != value]
    except (TypeError, ValueError) as error:
        raise InvalidValueError(f"{field}: must be hashable, got {value!r} ({error})") from error
    if absent and not missing:
        named = field.removesuffix("s")  # the group or the rollout
        raise InvalidValueError(
            f"{field}: must name the {named} of every sample, got {absent[0]!r}"
        )
    numbers = np.array(listed, dtype=np.intp)
    if len(absent) > 1:
        is_absent = np.isin(numbers, [number_of[value] for value in absent])
        numbers[is_absent] = number_of[absent[0]]
    return numbers


def _like(form: Any, values: FloatArray, index: Any = None) -> Any:
    """Return the values as what `form` is: float32 on its device for a tensor, else an array."""
    package = package_of(type(form))
    if package == "torch":
        with np.errstate(over="ignore"):
            single = values.astype(np.float32)
        if np.isinf(single).any() or (values.any() and not single.any()):
            raise InvalidValueError(
                f"rewards: the results for a tensor are float32, which cannot hold "
                f"{np.nanmax(np.abs(values)):g}; give an array"
            )
        return form.detach().float().new_tensor(single)
    if package == "pandas" and values.ndim == form.ndim == 1:
        return type(form)(values, index=index)
    return values


def _listed(values: Any) -> list[Any] | None:
    """Return the entries of a sequence, an array, a tensor or a frame; None for anything else."""
    if package_of(type(values)) == "pandas":
        values = values.to_numpy()
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, Sequence) and not isinstance(values, (str, bytes)):
        return list(values)
    return None


def _groups_of_column(rewards: Any) -> Any:
    """Return the groups of a column of lists as a list, and any other rewards as they are.

    Such a column is what `groupby(...).agg(list)` of pandas gives.
    """
    holds_objects = str(getattr(rewards, "dtype", "")) == "object"
    is_column = holds_objects and rewards.ndim == 1
    if is_column and all(hasattr(group, "__len__") for group in rewards):
        return list(rewards)
    return rewards


def _is_ragged(rewards: Any) -> bool:
    """Return whether rewards are a list of sequences of different lengths."""
    if not isinstance(rewards, Sequence):
        return False
    # A number, also one of NumPy, has no length: -1.
    sizes = {
        len(group) if hasattr(group, "__len__") and getattr(group, "shape", None) != () else -1
        for group in rewards
    }
    return len(sizes) > 1 and min(sizes) >= 0
