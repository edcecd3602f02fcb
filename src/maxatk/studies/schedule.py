"""From the recipe of a study to its models and the stages that make and evaluate them."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from maxatk.evaluation.folder import RESULTS
from maxatk.folders import STAGE_NAMES, digest_if_file, read_json, write_json
from maxatk.studies.chain import COMMANDS, DigestOf, chain_of
from maxatk.studies.recipe import TRAININGS, WORK, StudyRecipe
from maxatk.studies.stages import Stage
from maxatk.studies.variants import Variant
from maxatk.writing import OutFolder, json_mark, write_text

_EVALUATIONS = ("eval", "choose")  # which need the training, and not each other
_SEED = ", seed "  # before the seed, in what people call a stage


@dataclasses.dataclass(frozen=True)
class SeededModel:
    """One model of one seed: its folders, and the stages that make and evaluate it.

    `training` has the model and its log; the base has none. `chain` maps a part to its stage:
    `mini` makes the built-in model, `train` and `distill` train it, `eval` evaluates it, `choose`
    does so on the problems by which the front is chosen. `recipes` has what the command of a stage
    reads.
    """

    variant: Variant
    seed: int
    evaluation: Path
    training: Path | None
    choice: Path | None = None
    chain: Mapping[str, str] = dataclasses.field(default_factory=dict)
    recipes: Mapping[str, dict[str, Any]] = dataclasses.field(default_factory=dict)


def seeded_models(study: StudyRecipe) -> list[SeededModel]:
    """Return every model of every seed, seed by seed."""
    digest_of = functools.cache(digest_if_file)  # of a file that all models may share
    return [
        _seeded_model(study, variant, seed, digest_of)
        for seed in study.seeds
        for variant in study.variants
    ]


def _seeded_model(
    study: StudyRecipe, variant: Variant, seed: int, digest_of: DigestOf
) -> SeededModel:
    chain = chain_of(study, variant, seed, digest_of)
    work = study.work_folder
    return SeededModel(
        variant,
        seed,
        evaluation=work / chain.stages["eval"],
        training=chain.trained,
        choice=work / chain.stages["choose"] if study.chooses_on_problems else None,
        chain=chain.stages,
        recipes=chain.recipes,
    )


def planned(
    study: StudyRecipe, models: Sequence[SeededModel], *, cores: int, jobs: int
) -> dict[Stage, dict[str, Any]]:
    """Return the stages of a study with their recipes, in the order in which they should start.

    A warm start has the cores that those of other seeds leave it. The built-in model is too small
    for more than one core otherwise; stages of another model share all cores, `jobs` at once.
    """
    warm_threads = max(1, cores // len(study.seeds))
    threads = 1 if study.mini is not None else max(1, cores // jobs)
    stages: dict[Stage, dict[str, Any]] = {}
    for seed, part in itertools.product(study.seeds, COMMANDS):
        for model in models:
            if model.seed != seed or part not in model.chain:
                continue
            name = model.chain[part]
            command = COMMANDS[part]
            recipe_file = str(_recipe_path(study, name))
            if part == "mini":
                folder = str(study.work_folder / name)
                stage = Stage(name, (command, folder, "--recipe", recipe_file), (), warm_threads)
            else:
                stage = Stage(name, (command, recipe_file), _needs(model, part), threads)
            # Models that share a stage name it alike, so it is planned once.
            stages[stage] = model.recipes[name]
    return stages


def _needs(model: SeededModel, part: str) -> tuple[str, ...]:
    """Return the stage that makes the model which this part of the chain starts from, if any."""
    parts_before = list(itertools.takewhile(lambda name: name != part, model.chain))
    makers = [model.chain[name] for name in parts_before if name not in _EVALUATIONS]
    return tuple(makers[-1:])


def write_recipes(study: StudyRecipe, stages: Mapping[Stage, Mapping[str, Any]]) -> None:
    """Write the recipe of every stage as the file that the stage's command reads."""
    for stage, recipe in stages.items():
        path = _recipe_path(study, stage.name)
        write_text(path, yaml.safe_dump(dict(recipe), sort_keys=False))


def write_stage_names(study: StudyRecipe, models: Sequence[SeededModel]) -> None:
    """Write what people call the folders of the stages, beside those of studies that share them."""
    path = study.work_folder / STAGE_NAMES
    names: dict[str, str] = {}
    for model in models:
        for part, stage in model.chain.items():
            # Of models that share a stage the first gives it its name.
            names.setdefault(stage, _called(model, part))
    names_before = read_json(path) if path.is_file() else {}
    write_json(path, {**names_before, **names})


def _called(model: SeededModel, part: str) -> str:
    """Return what people call the stage of one part of a chain."""
    if part == "mini":  # from which every model of the seed starts
        return f"mini{_SEED}{model.seed}"
    variant = model.variant
    name = variant.training_name if part in TRAININGS else variant.name
    return f"{part} {name}{_SEED}{model.seed}"


def _recipe_path(study: StudyRecipe, stage: str) -> Path:
    return study.work_folder / "recipes" / f"{stage}.yaml"


def out_folders(study: StudyRecipe) -> list[OutFolder]:
    """Return the folders that a study writes: that of its results, and that of its stages."""
    reads = outside_models(study)
    results = json_mark(RESULTS, lambda content: {"title", "seeds", "models"} <= content.keys())
    stages = json_mark(STAGE_NAMES, _are_stage_names)
    stages_inside = json_mark(f"{WORK}/{STAGE_NAMES}", _are_stage_names)
    return [
        OutFolder(Path(study.out), "study", (results, stages_inside), reads=reads),
        OutFolder(study.work_folder, "study", (stages,), reads=reads),
    ]


def _are_stage_names(names: Mapping[str, Any]) -> bool:
    """Say whether a JSON object is what `write_stage_names` writes."""
    return bool(names) and all(_SEED in str(name) for name in names.values())


def outside_models(study: StudyRecipe) -> dict[str, str]:
    """Return the models from which the seeds start, by what they are called in an error."""
    if study.model is None:
        return {}
    by_seed = {seed: study.model_of(seed) for seed in study.seeds}
    if len(set(by_seed.values())) == 1:
        return {"model": by_seed[study.seeds[0]]}
    return {f"the model of seed {seed}": model for seed, model in by_seed.items()}
