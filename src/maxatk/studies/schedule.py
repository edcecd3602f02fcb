"""From the recipe of a study to its stages: what each one makes, and from which recipe."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from maxatk.folders import file_digest
from maxatk.models import fingerprint
from maxatk.studies.grids import BASE, Variant
from maxatk.studies.preflight import TrainingSize
from maxatk.studies.stages import Stage, finished_seconds
from maxatk.studies.study_recipe import StageCosts, StudyRecipe

StageRecipes = dict[Stage, dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Place:
    """Where one model of one seed is: the stages that make it, which are folders of `work`.

    `warm_start` makes the built-in model (None: the study names another), `training` trains it
    (None: the base), `evaluation` evaluates it.
    """

    variant: Variant
    seed: int
    warm_start: str | None
    training: str | None
    evaluation: str


def places(study: StudyRecipe) -> list[Place]:
    """Return every model of every seed, seed by seed."""
    return [_place(study, model, seed) for seed in study.seeds for model in study.variants]


def planned(
    study: StudyRecipe, *, cores: int, jobs: int, flags: Sequence[str] = ()
) -> StageRecipes:
    """Return the stages of a study with their recipes, in the order in which they should start.

    `flags` are more arguments of the commands `train` and `eval`, such as those of a cluster.

    A warm start has the cores that those of other seeds leave it. The built-in model is too small
    for more than one core otherwise; stages of another model share all cores, `jobs` at once. The
    trainings of a seed come before its evaluations, because an evaluation waits for one of them.
    """
    found: StageRecipes = {}
    threads = 1 if study.mini is not None else max(1, cores // jobs)
    for seed in study.seeds:
        mine = [_place(study, model, seed) for model in study.variants]
        for place in mine:
            found.update(_warm_start(study, place, threads=max(1, cores // len(study.seeds))))
        for place in mine:
            found.update(_training(study, place, threads=threads, flags=flags))
        for place in mine:
            found.update(_evaluation(study, place, threads=threads, flags=flags))
    return found


def write_recipes(study: StudyRecipe, stages: Mapping[Stage, Mapping[str, Any]]) -> None:
    """Write the recipe of every stage as the file that the stage's command reads."""
    for stage, recipe in stages.items():
        path = _recipe_path(study, stage.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(dict(recipe), sort_keys=False), encoding="utf-8")


def estimated_seconds(
    study: StudyRecipe, sizes: Mapping[str, TrainingSize | None]
) -> dict[str, float | None]:
    """Return the expected seconds of every stage that has not finished, None where not known.

    `sizes` are those of the trainings by the name of their model. The costs of the recipe are
    scaled, kind by kind, to what finished stages of this `work` took.
    """
    expected = dict(_expected(study, sizes))
    taken = {name: finished_seconds(study.work_folder, name) for name in expected}
    left: dict[str, float | None] = {}
    for name, seconds in expected.items():
        if taken[name] is None:
            done = [n for n in expected if _kind(n) == _kind(name) and taken[n] is not None]
            measured = sum(taken[n] or 0.0 for n in done)
            reckoned = sum(expected[n] or 0.0 for n in done)
            scale = measured / reckoned if reckoned else 1.0
            left[name] = None if seconds is None else seconds * scale
    return left


def _expected(
    study: StudyRecipe, sizes: Mapping[str, TrainingSize | None]
) -> Iterator[tuple[str, float | None]]:
    costs = study.known_costs
    for place in places(study):
        if place.warm_start is not None:
            yield place.warm_start, costs.warm_start if costs else None
        if place.training is not None:
            size = sizes.get(place.variant.name)
            yield place.training, _training_seconds(costs, size) if costs and size else None
        yield place.evaluation, costs.evaluation if costs else None


def _training_seconds(costs: StageCosts, size: TrainingSize) -> float:
    batches = size.rollout_batches * costs.rollout_batch
    return costs.start + batches + size.optimizer_steps * costs.optimizer_step


def _kind(name: str) -> str:
    return name.partition("-")[0]


def _warm_start(study: StudyRecipe, place: Place, *, threads: int) -> StageRecipes:
    if place.warm_start is None or study.mini is None:
        return {}
    recipe = dataclasses.asdict(dataclasses.replace(study.mini, seed=place.seed))
    folder = str(study.work_folder / place.warm_start)
    file = str(_recipe_path(study, place.warm_start))
    stage = Stage(place.warm_start, ("mini", folder, "--recipe", file), threads=threads)
    return {stage: recipe}


def _training(
    study: StudyRecipe, place: Place, *, threads: int, flags: Sequence[str]
) -> StageRecipes:
    if place.training is None:
        return {}
    recipe = study.train_recipe(
        place.variant,
        start=_start(study, place),
        out=str(study.work_folder / place.training),
        seed=place.seed,
        mini=_mini(study, place),
    )
    needs = () if place.warm_start is None else (place.warm_start,)
    file = str(_recipe_path(study, place.training))
    return {Stage(place.training, ("train", file, *flags), needs=needs, threads=threads): recipe}


def _evaluation(
    study: StudyRecipe, place: Place, *, threads: int, flags: Sequence[str]
) -> StageRecipes:
    work, made = study.work_folder, place.training or place.warm_start
    recipe = study.eval_recipe(
        model=str(work / place.training) if place.training else _start(study, place),
        out=str(work / place.evaluation),
        seed=place.seed,
        mini=_mini(study, place),
    )
    file = str(_recipe_path(study, place.evaluation))
    needs = () if made is None else (made,)
    stage = Stage(place.evaluation, ("eval", file, *flags), needs=needs, threads=threads)
    return {stage: dataclasses.asdict(recipe)}


def _mini(study: StudyRecipe, place: Place) -> Path | None:
    return None if place.warm_start is None else study.work_folder / place.warm_start


def _start(study: StudyRecipe, place: Place) -> str:
    """Return the model before any training."""
    mini = _mini(study, place)
    return str(study.model) if mini is None else str(mini / "base")


def _recipe_path(study: StudyRecipe, stage: str) -> Path:
    return study.work_folder / "recipes" / f"{stage}.yaml"


def _place(study: StudyRecipe, model: Variant, seed: int) -> Place:
    """Return where a model is: names that say what it is and hold a digest of its settings."""
    warm_start, start = None, [study.model, fingerprint(study.model or "")]
    if study.mini is not None:
        mini = dataclasses.asdict(dataclasses.replace(study.mini, seed=seed))
        warm_start = f"mini-{seed}-{_digest(mini)}"
        start = [warm_start]
    training, name = None, BASE
    if model.train is not None:
        recipe = study.train_recipe(model, start="", out="", seed=seed)
        method = recipe["trainer"].get("method", "trained")
        name = method if isinstance(method, str) else "own"  # a mapping is no name of a folder
        training = f"train-{name}-{seed}-{_digest([start, recipe, _content(recipe['problems'])])}"
    asked = dataclasses.asdict(study.eval_recipe(model="", out="", seed=seed))
    content = None if warm_start else _content(asked["problems"])
    evaluated = [training or start, asked, content]
    return Place(model, seed, warm_start, training, f"eval-{name}-{seed}-{_digest(evaluated)}")


def _content(problems: str | None) -> str | None:
    """Return a digest of a problems file, or None for a benchmark."""
    path = Path(problems or "")
    if not path.is_file():
        return None
    found = path.stat()
    return _file_digest(path, found.st_size, found.st_mtime_ns)


@functools.lru_cache
def _file_digest(path: Path, _size: int, _modified_ns: int) -> str:
    return file_digest(path)


def _digest(settings: Any) -> str:
    text = json.dumps(settings, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
