"""The models of a study: every combination of the levels of its axes, and pairs of them."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from maxatk.check import require
from maxatk.errors import InvalidValueError
from maxatk.report.comparison import BASE, check_name
from maxatk.settings import put

STEPS = "steps"  # the axis of the checkpoints
_SAMPLING = "eval.sampling."  # the start of a key that changes how a model is sampled
_SHARED = ("samples", "seed")  # of eval.sampling: all models of a study have the same


@dataclasses.dataclass(frozen=True)
class Variant:
    """One model of a study: its level on every axis, and how it is trained, if it is.

    The base has no levels and no training. `checkpoint` is the optimizer step after which a model
    is evaluated; None is the end. `sampling` has the keys of `eval.sampling` that are others for
    it, and `shared_axes` are those on which models have one training in common.
    """

    levels: Mapping[str, str]
    train: Mapping[str, Any] | None = None
    checkpoint: int | None = None
    sampling: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    shared_axes: frozenset[str] = frozenset()

    @property
    def method(self) -> str:
        """The level of the first axis, whose models a front chooses among; "base" of the base."""
        return next(iter(self.levels.values()), BASE)

    @property
    def name(self) -> str:
        """The level of the first axis, then `axis=level` of the others."""
        return _name_of(self.levels)

    @property
    def training_name(self) -> str:
        """The name without checkpoint and sampling: that of all models of one training."""
        levels = {
            axis: level for axis, level in self.levels.items() if axis not in self.shared_axes
        }
        return _name_of(levels)


def _name_of(levels: Mapping[str, str]) -> str:
    if not levels:
        return BASE
    (_, first), *other_levels = levels.items()
    return ",".join([first, *(f"{axis}={level}" for axis, level in other_levels)])


def variants_of(
    grids: Sequence[Any], train: Mapping[str, Any] | None, checkpoints: Sequence[int]
) -> list[Variant]:
    """Return the base, and the models of all combinations of levels of every grid.

    Each is trained as `train` says but for what its levels change, and evaluated after each of the
    `checkpoints`; where `train` is None no model is trained. A key of a level that begins with
    `eval.sampling.` changes how it is sampled, and all others how it is trained.

    Raises InvalidValueError for what is no grid, for axes that change the same key, for a key of a
    section `train` that there is not, and for a name that is there twice or cannot be printed.
    """
    variants = [Variant({})]
    for number, grid in enumerate(grids):
        _check_grid(grid, where=f"grids[{number}]")
        for combination in itertools.product(*(levels.items() for levels in grid.values())):
            levels = {axis: str(level) for axis, (level, _) in zip(grid, combination, strict=True)}
            if checkpoints and STEPS in levels:
                raise InvalidValueError(
                    f"grids[{number}].{STEPS}: is the axis of 'checkpoints'; name it otherwise"
                )
            train_changes, sampling_changes = _changes([changes for _, changes in combination])
            variant = Variant(
                levels,
                _changed(train, train_changes),
                sampling=sampling_changes,
                shared_axes=frozenset(axis for axis in grid if not _trains(grid[axis])),
            )
            variants += _at_checkpoints(variant, checkpoints)
    names = [variant.name for variant in variants]
    for name in names:
        check_name(name, where="grids")
        if names.count(name) > 1:
            raise InvalidValueError(f"grids: the model {name!r} is there twice")
    return variants


def _check_grid(grid: Any, *, where: str) -> None:
    is_grid = isinstance(grid, Mapping) and len(grid) > 0
    require(is_grid, where, "a mapping of axes to levels", grid)
    for axis, levels in grid.items():
        is_axis = isinstance(levels, Mapping) and len(levels) > 0
        require(is_axis, f"{where}.{axis}", "a mapping of levels to settings", levels)
        for level, changes in levels.items():
            allowed = (
                "a mapping of keys of the section train, such as trainer.method, or of "
                "eval.sampling, such as eval.sampling.temperature, to values"
            )
            require(isinstance(changes, Mapping), f"{where}.{axis}.{level}", allowed, changes)
            for key in changes:
                _check_key(str(key), where=f"{where}.{axis}.{level}")
    for first, second in itertools.combinations(grid, 2):
        _refuse_shared_keys(grid, first, second, where=where)


def _check_key(key: str, *, where: str) -> None:
    """Refuse a key of `eval` without which models of a study cannot be compared."""
    if not key.startswith("eval."):
        return
    if not key.startswith(_SAMPLING) or key.removeprefix(_SAMPLING) in _SHARED:
        raise InvalidValueError(
            f"{where}: {key!r}: must be the same for all models of a study; of `eval` a level may "
            f"change keys of `sampling` alone, and of these not {' or '.join(_SHARED)}"
        )


def _refuse_shared_keys(
    grid: Mapping[str, Mapping[str, Any]], first: str, second: str, *, where: str
) -> None:
    """Refuse two axes that change the same key, or one a key within that of the other.

    Every level of the one is combined with every level of the other, which would win silently.
    """
    for key in _keys_of(grid[first]):
        for other in _keys_of(grid[second]):
            if f"{key}.".startswith(f"{other}.") or f"{other}.".startswith(f"{key}."):
                change = key if key == other else f"{key} and {other}"
                raise InvalidValueError(
                    f"{where}: the axes {first!r} and {second!r} both change {change}, and one "
                    "would undo what the other says; change a key in one axis alone"
                )


def _keys_of(levels: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the keys that the levels of an axis change, each once."""
    return list(dict.fromkeys(str(key) for changes in levels.values() for key in changes))


def _trains(levels: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether the levels of an axis change how a model is trained, or nothing at all."""
    keys = _keys_of(levels)
    return not keys or not all(key.startswith(_SAMPLING) for key in keys)


def _changes(
    changes_of_levels: Sequence[Mapping[str, Any]],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the levels of a model change of the section `train`, and of `eval.sampling`."""
    train_changes: dict[str, Any] = {}
    sampling_changes: dict[str, Any] = {}
    for changes in changes_of_levels:
        for key, value in changes.items():
            if str(key).startswith(_SAMPLING):
                sampling_changes[str(key).removeprefix(_SAMPLING)] = value
            else:
                train_changes[str(key)] = value
    return train_changes, sampling_changes


def _changed(train: Mapping[str, Any] | None, changes: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the section `train`, if there is one, with the keys that the levels of a model change.

    Raises InvalidValueError for a key of it where there is none.
    """
    if train is None:
        if changes:
            raise InvalidValueError(
                f"grids: {next(iter(changes))!r}: the recipe has no section 'train'"
            )
        return None
    changed = copy.deepcopy(dict(train))
    for key, value in changes.items():
        put(changed, key, copy.deepcopy(value), where=f"grids: {key!r}")
    return changed


def _at_checkpoints(variant: Variant, checkpoints: Sequence[int]) -> list[Variant]:
    """Return a model at its end, or at each of the checkpoints, of which the last is its end."""
    if not checkpoints:
        return [variant]
    return [
        dataclasses.replace(
            variant,
            levels={**variant.levels, STEPS: str(step)},
            checkpoint=None if step == checkpoints[-1] else step,
            shared_axes=variant.shared_axes | {STEPS},
        )
        for step in checkpoints
    ]


def pairs_of(pairs: Sequence[Sequence[str]], variants: Sequence[Variant]) -> list[tuple[str, str]]:
    """Return the names of the models that differ by the two levels of a pair alone.

    A pair may also be the names of two models, which may differ by more. Raises InvalidValueError
    for a pair that is neither, and for two models that are paired twice, in either order.
    """
    models = {variant.name for variant in variants if variant.levels}
    names: list[tuple[str, str]] = []
    for pair in pairs:
        if len(set(pair)) != 2 or len(pair) != 2:
            raise InvalidValueError(f"pairs: each must be two different levels, got {pair!r}")
        first, second = pair
        matches = _models_apart(variants, first, second)
        if not matches and {first, second} <= models:
            matches = [(first, second)]
        if not matches and BASE in pair:  # which may also be the name of a level
            raise InvalidValueError(
                f"pairs: {pair!r} names {BASE!r}; every model is tested against the `baseline`, "
                f"which is {BASE!r} unless the recipe names another, without a pair"
            )
        if not matches:
            levels = {level for variant in variants for level in variant.levels.values()}
            raise InvalidValueError(
                f"pairs: no two models differ by {first!r} and {second!r} alone; the levels "
                f"are {', '.join(sorted(levels))}, and the models {', '.join(sorted(models))}"
            )
        names += matches
    _refuse_paired_twice(names)
    return names


def _refuse_paired_twice(names: Sequence[tuple[str, str]]) -> None:
    """Refuse a test that is made twice: it would count twice in the correction for all tests."""
    paired: set[frozenset[str]] = set()
    for first, second in names:
        pair = frozenset((first, second))
        if pair in paired:
            raise InvalidValueError(f"pairs: {first!r} and {second!r} are paired twice")
        paired.add(pair)


def _models_apart(variants: Sequence[Variant], first: str, second: str) -> list[tuple[str, str]]:
    """Return the models with the level `first`, each with its like that has `second`."""
    by_levels = {frozenset(variant.levels.items()): variant.name for variant in variants}
    matches = []
    for variant in variants:
        for axis, level in variant.levels.items():
            partner = by_levels.get(frozenset({**variant.levels, axis: second}.items()))
            if level == first and partner is not None:
                matches.append((variant.name, partner))
    return matches
