"""Which models a study has: its base, and every combination of levels of its grids."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from maxatk.errors import InvalidValueError
from maxatk.settings import apply_overrides
from maxatk.studies.findings import split_levels

BASE = "base"
Changes = Mapping[str, Any]  # dotted key of the section `train` -> value
Grid = Mapping[str, Mapping[str, Changes]]  # axis -> level -> what the level changes


@dataclasses.dataclass(frozen=True)
class Variant:
    """One model of a study: its level on every axis, and how it is trained (the base: None)."""

    levels: Mapping[str, str]
    train: Mapping[str, Any] | None

    @property
    def name(self) -> str:
        """Return the level of the first axis, then `axis=level` of the others."""
        if not self.levels:
            return BASE
        first, others = split_levels(self.levels)
        return ",".join([first, *(f"{axis}={level}" for axis, level in others.items())])


def variants(train: Mapping[str, Any], grids: Sequence[Any]) -> list[Variant]:
    """Return the models of a study whose template is `train`, the base first.

    Raises InvalidValueError for a grid that is not axes of levels of settings, and for two models
    of one name.
    """
    found = [Variant({}, None)]
    for number, grid in enumerate(grids):
        axes = _checked_grid(grid, where=f"grids[{number}]")
        for levels in itertools.product(*axes.values()):
            changed = copy.deepcopy(dict(train))
            named = dict(zip(axes, levels, strict=True))
            for axis, level in named.items():
                for key, value in axes[axis][level].items():
                    apply_overrides(changed, [f"{key}={json.dumps(value)}"])
            found.append(Variant(named, changed))
    names = [variant.name for variant in found]
    for name in names:
        if names.count(name) > 1:
            raise InvalidValueError(f"grids: the model {name!r} is there twice")
    return found


def paired_names(models: Sequence[Variant], pairs: Sequence[Any]) -> list[tuple[str, str]]:
    """Return the names of the models that `pairs` tests, the first level's before the second's.

    Raises InvalidValueError for a pair that no two models make.
    """
    by_levels = {frozenset(model.levels.items()): model for model in models}
    found = []
    for pair in pairs:
        if len(pair) != 2:
            raise InvalidValueError(f"pairs: each must be two levels, got {pair!r}")
        first, second = pair
        partners = [
            (model.name, by_levels.get(_exchanged(model.levels, first, second)))
            for model in models
            if first in model.levels.values()
        ]
        names = [(name, partner.name) for name, partner in partners if partner is not None]
        if not names:
            levels = sorted({level for model in models for level in model.levels.values()})
            raise InvalidValueError(
                f"pairs: no two models differ by {first!r} and {second!r} alone; the levels are "
                f"{', '.join(levels)}"
            )
        found += names
    return found


def _exchanged(levels: Mapping[str, str], first: str, second: str) -> frozenset[tuple[str, str]]:
    return frozenset((axis, second if level == first else level) for axis, level in levels.items())


def _checked_grid(grid: Any, *, where: str) -> Grid:
    if not isinstance(grid, Mapping) or not grid:
        raise InvalidValueError(f"{where}: must map axes to levels, got {grid!r}")
    for axis, levels in grid.items():
        if not isinstance(levels, Mapping) or not levels:
            raise InvalidValueError(f"{where}.{axis}: must map levels to settings, got {levels!r}")
        for level, changes in levels.items():
            if not isinstance(changes, Mapping):
                raise InvalidValueError(
                    f"{where}.{axis}.{level}: must map keys of the section train, such as "
                    f"trainer.method, to values; got {changes!r}"
                )
    return {axis: {str(level): c for level, c in levels.items()} for axis, levels in grid.items()}
