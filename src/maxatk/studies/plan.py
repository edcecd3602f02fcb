"""From the recipe of a study to its stages: which models, which seeds, what is shared."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from maxatk.errors import InvalidValueError
from maxatk.mini import MiniSettings
from maxatk.settings import apply_overrides
from maxatk.studies.experiment import (
    EvalSection,
    TrainSection,
    eval_arguments,
    flags,
    train_recipe,
)
from maxatk.studies.figures import check_figures
from maxatk.studies.stages import Stage, finished_seconds
from maxatk.studies.study import split_levels

BASE = "base"
Overrides = Mapping[str, Any]  # dotted key of the section `train` -> value
Grid = Mapping[str, Mapping[str, Overrides]]  # axis -> level -> what the level sets


@dataclasses.dataclass(frozen=True)
class StageCosts:
    """Seconds of the parts of a study, for the estimate of a plan before any has finished.

    `generation` and `update` are those of one generation and one optimizer step of a training,
    `start` what every training takes besides, `evaluation` those of one model. The defaults are
    those of two cores at 2.5 GHz with three stages at once.
    """

    warm_start: float = 120.0
    start: float = 15.0
    generation: float = 0.6
    update: float = 0.17
    evaluation: float = 130.0

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if not value > 0:
                raise InvalidValueError(f"costs.{name}: must be positive, got {value!r}")


@dataclasses.dataclass(frozen=True)
class StudyRecipe:
    """The keys of a study's recipe.

    `out` gets tables, figures and the page; `work` the models and evaluations of every seed, which
    studies with the same `work` share where their settings are the same. Every seed has a model,
    corpus and prompts of its own. `grids` are lists of models: each grid maps axes to levels, and
    a level to the settings of the section `train` that it changes; its models are all combinations
    of levels. `baseline` is the model the others are compared to. `pairs` lists two levels of an
    axis that are tested against each other wherever all other levels are the same. `figures` names
    those to draw.
    """

    title: str
    out: str
    work: str
    seeds: list[int]
    mini: MiniSettings
    train: TrainSection
    eval: EvalSection
    grids: list[dict[str, Any]]
    baseline: str = BASE
    pairs: list[list[str]] = dataclasses.field(default_factory=list)
    figures: list[str] = dataclasses.field(default_factory=lambda: ["metric", "entropy"])
    costs: StageCosts = dataclasses.field(default_factory=StageCosts)

    def __post_init__(self) -> None:
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise InvalidValueError(f"seeds: must be different numbers, got {self.seeds!r}")
        check_figures(self.figures)
        names = [cell.name for cell in cells(self)]
        for name in names:
            if names.count(name) > 1:
                raise InvalidValueError(f"grids: the model {name!r} is there twice")
        if self.baseline not in names:
            raise InvalidValueError(
                f"baseline: must be one of {', '.join(names)}; got {self.baseline!r}"
            )
        paired_names(self)


@dataclasses.dataclass(frozen=True)
class Cell:
    """One model of a study: the level of every axis, and the section `train` (base: None)."""

    levels: Mapping[str, str]
    train: Mapping[str, Any] | None

    @property
    def name(self) -> str:
        """Return the level of the first axis, then `axis=level` of the others."""
        if not self.levels:
            return BASE
        first, others = split_levels(self.levels)
        return ",".join([first, *(f"{axis}={level}" for axis, level in others.items())])


@dataclasses.dataclass(frozen=True)
class Place:
    """Where one model of one seed is: the stages that make it, and its folders."""

    cell: Cell
    seed: int
    warm_start: str
    training: str | None
    evaluation: str


def cells(study: StudyRecipe) -> list[Cell]:
    """Return the models of a study, the warm-started one first.

    Raises InvalidValueError for a grid that is not axes of levels of settings.
    """
    found = [Cell({}, None)]
    for number, grid in enumerate(study.grids):
        axes = _checked_grid(grid, where=f"grids[{number}]")
        for levels in itertools.product(*axes.values()):
            section = copy.deepcopy(dataclasses.asdict(study.train))
            named = dict(zip(axes, levels, strict=True))
            for axis, level in named.items():
                for key, value in axes[axis][level].items():
                    apply_overrides(section, [f"{key}={json.dumps(value)}"])
            found.append(Cell(named, section))
    return found


def paired_names(study: StudyRecipe) -> list[tuple[str, str]]:
    """Return the names of the models that `pairs` tests, the first level's before the second's.

    Raises InvalidValueError for a pair that no two models make.
    """
    by_levels = {frozenset(cell.levels.items()): cell for cell in cells(study)}
    found = []
    for pair in study.pairs:
        if len(pair) != 2:
            raise InvalidValueError(f"pairs: each must be two levels, got {pair!r}")
        first, second = pair
        partners = [
            (cell.name, by_levels.get(_exchanged(cell.levels, first, second)))
            for cell in by_levels.values()
            if first in cell.levels.values()
        ]
        names = [(name, partner.name) for name, partner in partners if partner is not None]
        if not names:
            levels = sorted(
                {level for cell in by_levels.values() for level in cell.levels.values()}
            )
            raise InvalidValueError(
                f"pairs: no two models differ by {first!r} and {second!r} alone; the levels are "
                f"{', '.join(levels)}"
            )
        found += names
    return found


def _exchanged(levels: Mapping[str, str], first: str, second: str) -> frozenset[tuple[str, str]]:
    return frozenset((axis, second if level == first else level) for axis, level in levels.items())


def places(study: StudyRecipe) -> list[Place]:
    """Return every model of every seed, seed by seed."""
    return [_place(study, cell, seed) for seed in study.seeds for cell in cells(study)]


def stages(study: StudyRecipe) -> list[Stage]:
    """Return the stages of a study in the order in which they should start."""
    found: dict[str, Stage] = {}
    for place in places(study):
        for stage in _stages_of(study, place):
            found.setdefault(stage.name, stage)
    return list(found.values())


def train_recipes(study: StudyRecipe) -> dict[Path, dict[str, Any]]:
    """Return the recipe of every training by the file that `stages` names for it."""
    work = Path(study.work)
    return {
        _recipe_path(work, place.training): train_recipe(
            _seeded(place.cell.train, place.seed),
            mini=work / place.warm_start,
            out=work / place.training,
        )
        for place in places(study)
        if place.training is not None and place.cell.train is not None
    }


def estimated_seconds(study: StudyRecipe) -> dict[str, float]:
    """Return the expected seconds of every stage that has not finished.

    The costs of the recipe are scaled, kind by kind, to what finished stages of this `work` took.
    """
    work = Path(study.work)
    expected = dict(_expected(study))
    taken = {name: finished_seconds(work, name) for name in expected}
    left = {}
    for name, seconds in expected.items():
        if taken[name] is not None:
            continue
        kind = [n for n in expected if n.partition("-")[0] == name.partition("-")[0]]
        done = [n for n in kind if taken[n] is not None]
        measured = sum(taken[n] or 0.0 for n in done)
        left[name] = seconds * (measured / sum(expected[n] for n in done) if done else 1.0)
    return left


def _expected(study: StudyRecipe) -> Iterator[tuple[str, float]]:
    for place in places(study):
        yield place.warm_start, study.costs.warm_start
        if place.training is not None and place.cell.train is not None:
            yield place.training, _training_seconds(study, place.cell.train["trainer"])
        yield place.evaluation, study.costs.evaluation


def _training_seconds(study: StudyRecipe, trainer: Mapping[str, Any]) -> float:
    costs = study.costs
    prompts = trainer["per_device_train_batch_size"] / trainer["num_generations"]
    inner: int = trainer.get("num_iterations", 1)
    generations = math.ceil(
        trainer.get("num_train_epochs", 3) * study.mini.train_problems / prompts
    )
    if (steps := trainer.get("max_steps", -1)) > 0:
        generations = math.ceil(steps / inner)
    return float(costs.start + generations * (costs.generation + inner * costs.update))


def _stages_of(study: StudyRecipe, place: Place) -> Iterator[Stage]:
    work = Path(study.work)
    mini = work / place.warm_start
    settings = dataclasses.asdict(dataclasses.replace(study.mini, seed=place.seed))
    yield Stage(place.warm_start, ("mini", str(mini), *flags(settings)))
    model, needs = mini / "base", place.warm_start
    if place.training is not None:
        model, needs = work / place.training, place.training
        recipe = _recipe_path(work, place.training)
        yield Stage(place.training, ("train", str(recipe)), needs=(place.warm_start,))
    section = dataclasses.replace(
        study.eval, sampling=dataclasses.replace(study.eval.sampling, seed=place.seed)
    )
    arguments = eval_arguments(section, model=model, mini=mini, out=work / place.evaluation)
    yield Stage(place.evaluation, arguments, needs=(needs,))


def _place(study: StudyRecipe, cell: Cell, seed: int) -> Place:
    """Return where a model is: names that say what it is and hold a digest of its settings."""
    mini = dataclasses.asdict(dataclasses.replace(study.mini, seed=seed))
    warm_start = f"mini-{seed}-{_digest(mini)}"
    training = None
    if cell.train is not None:
        method = cell.train["trainer"]["method"]
        trained = [warm_start, _seeded(cell.train, seed)]
        training = f"train-{method}-{seed}-{_digest(trained)}"
    evaluated = [training or warm_start, dataclasses.asdict(study.eval)]
    name = BASE if cell.train is None else cell.train["trainer"]["method"]
    return Place(cell, seed, warm_start, training, f"eval-{name}-{seed}-{_digest(evaluated)}")


def _seeded(section: Mapping[str, Any], seed: int) -> dict[str, Any]:
    return {**section, "trainer": {**section["trainer"], "seed": seed}}


def _recipe_path(work: Path, training: str) -> Path:
    return work / "recipes" / f"{training}.yaml"


def _digest(settings: Any) -> str:
    text = json.dumps(settings, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _checked_grid(grid: Any, *, where: str) -> Grid:
    if not isinstance(grid, Mapping) or not grid:
        raise InvalidValueError(f"{where}: must map axes to levels, got {grid!r}")
    for axis, levels in grid.items():
        if not isinstance(levels, Mapping) or not levels:
            raise InvalidValueError(f"{where}.{axis}: must map levels to settings, got {levels!r}")
        for level, overrides in levels.items():
            if not isinstance(overrides, Mapping):
                raise InvalidValueError(
                    f"{where}.{axis}.{level}: must map keys of the section train, such as "
                    f"trainer.method, to values; got {overrides!r}"
                )
    return {axis: {str(level): o for level, o in levels.items()} for axis, levels in grid.items()}
