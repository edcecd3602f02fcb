"""From the recipe of a study to its models and the stages that make and evaluate them."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from maxatk.evaluation.folder import RESULTS
from maxatk.folders import file_digest
from maxatk.mini import MiniSettings
from maxatk.models import fingerprint
from maxatk.report.comparison import BASE
from maxatk.studies.recipe import TRAININGS, WORK, StudyRecipe, Variant
from maxatk.studies.stages import Stage
from maxatk.writing import OutFolder, write_text

COMMANDS = {  # the command of every stage of a chain, in their order
    "mini": "mini",
    **{training: training for training in TRAININGS},
    "eval": "eval",
    "choose": "eval",
}
_EVALUATIONS = ("eval", "choose")  # which need the training, and not each other
_OF_WORK = ("recipes", "stages", "logs")  # folders in that of the stages
_TRAIN_FILE = "train.jsonl"  # of the built-in model
_TEST_FILE = "test.jsonl"


@dataclasses.dataclass(frozen=True)
class Place:
    """Where one model of one seed is: its folders, and the stages that make and evaluate it.

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


def places(study: StudyRecipe) -> list[Place]:
    """Return every model of every seed, seed by seed."""
    content = functools.cache(_content)
    return [_place(study, m, seed, content) for seed in study.seeds for m in study.variants]


def planned(
    study: StudyRecipe, everywhere: Sequence[Place], *, cores: int, jobs: int
) -> dict[Stage, dict[str, Any]]:
    """Return the stages of a study with their recipes, in the order in which they should start.

    A warm start has the cores that those of other seeds leave it. The built-in model is too small
    for more than one core otherwise; stages of another model share all cores, `jobs` at once.
    """
    warm_threads = max(1, cores // len(study.seeds))
    threads = 1 if study.mini is not None else max(1, cores // jobs)
    stages: dict[Stage, dict[str, Any]] = {}
    for seed, part in itertools.product(study.seeds, COMMANDS):
        for place in everywhere:
            if place.seed != seed or part not in place.chain:
                continue
            name = place.chain[part]
            command = COMMANDS[part]
            recipe_file = str(_recipe_path(study, name))
            if part == "mini":
                folder = str(study.work_folder / name)
                stage = Stage(name, (command, folder, "--recipe", recipe_file), (), warm_threads)
            else:
                stage = Stage(name, (command, recipe_file), _needs(place, part), threads)
            # Models that share a stage name it alike, so it is planned once.
            stages[stage] = place.recipes[name]
    return stages


def _needs(place: Place, part: str) -> tuple[str, ...]:
    """Return the stage that makes the model which this part of the chain starts from, if any."""
    before = list(itertools.takewhile(lambda other: other != part, place.chain))
    makers = [place.chain[other] for other in before if other not in _EVALUATIONS]
    return tuple(makers[-1:])


def write_recipes(study: StudyRecipe, stages: Mapping[Stage, Mapping[str, Any]]) -> None:
    """Write the recipe of every stage as the file that the stage's command reads."""
    for stage, recipe in stages.items():
        path = _recipe_path(study, stage.name)
        write_text(path, yaml.safe_dump(dict(recipe), sort_keys=False))


def _recipe_path(study: StudyRecipe, stage: str) -> Path:
    return study.work_folder / "recipes" / f"{stage}.yaml"


@dataclasses.dataclass
class _Chain:
    """The stages of one model of one seed, as they are added: each starts from the one before.

    `model` is the folder from which the next stage starts. `identity` is all that decided how it
    came about, so that a digest of it and of the next stage's settings names that stage: models
    which share the beginning of their chains share these stages. `adapter` is a checkpoint that the
    model is evaluated with.
    """

    work: Path
    seed: int
    model: str = ""
    identity: Any = None
    label: str = BASE
    adapter: str | None = None
    stages: dict[str, str] = dataclasses.field(default_factory=dict)
    recipes: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)

    def add_mini(self, settings: MiniSettings) -> None:
        """Add the stage that makes the built-in model with its problems."""
        recipe = dataclasses.asdict(dataclasses.replace(settings, seed=self.seed))
        # The name of the task, of which there were two, keeps the names of the folders.
        name = f"mini-{self.seed}-{_digest({'task': 'programs', **recipe})}"
        self.stages["mini"] = name
        self.recipes[name] = recipe
        self.model = str(self.work / name / "base")
        self.identity = [name]

    def built_in(self, file: str) -> dict[str, str]:
        """Return the setting that names a problems file of the built-in model, if that is used."""
        if "mini" not in self.stages:
            return {}
        return {"problems": str(self.work / self.stages["mini"] / file)}

    def add_training(
        self, command: str, recipe: Mapping[str, Any], content: Callable[[str | None], str | None]
    ) -> None:
        """Add a stage that trains the model."""
        method = recipe["trainer"].get("method", "trained")
        self.label = method if isinstance(method, str) else "own"  # a mapping names no folder
        name = self._named(command, [self.identity, recipe, content(recipe["problems"])])
        out = str(self.work / name)
        problems = self.built_in(_TRAIN_FILE)
        self.recipes[name] = {**recipe, **problems, "model": self.model, "out": out}
        self.model = out
        self.identity = name

    def go_back_to(self, checkpoint: int, *, started_from: str, low_rank: bool) -> None:
        """Evaluate a checkpoint of the last training instead of its end.

        That of a training with a low-rank adapter holds the adapter alone, which is loaded on top
        of the model that the training `started_from`.
        """
        folder = f"{self.model}/checkpoint-{checkpoint}"
        self.model = started_from if low_rank else folder
        self.adapter = folder if low_rank else None
        self.identity = [self.identity, checkpoint]

    def add_evaluation(
        self,
        part: str,
        recipe: Mapping[str, Any],
        content: Callable[[str | None], str | None],
    ) -> None:
        """Add a stage that evaluates the model: the part "eval", or "choose"."""
        problems = self.built_in(_TEST_FILE)
        digest = None if problems else content(recipe["problems"])
        name = self._named(part, [self.identity, recipe, digest])
        out = str(self.work / name)
        model = {"model": self.model, "out": out}
        if self.adapter is not None:
            model["adapter"] = self.adapter
        self.recipes[name] = {**recipe, **problems, **model}

    def _named(self, part: str, settings: list[Any]) -> str:
        name = f"{COMMANDS[part]}-{self.label}-{self.seed}-{_digest(settings)}"
        self.stages[part] = name
        return name


def _place(
    study: StudyRecipe, model: Variant, seed: int, content: Callable[[str | None], str | None]
) -> Place:
    """Return where a model is: stages are named by a digest of settings, without their folders."""
    if study.mini is not None:
        chain = _Chain(study.work_folder, seed)
        chain.add_mini(study.mini)
    else:
        outside_model = study.model_of(seed)
        identity = [outside_model, fingerprint(outside_model)]
        chain = _Chain(study.work_folder, seed, model=outside_model, identity=identity)
    training = None
    started_from = chain.model
    low_rank = False
    for command, recipe in study.trainings(model, seed=seed).items():
        started_from = chain.model
        chain.add_training(command, recipe, content)
        training = Path(chain.model)
        low_rank = recipe.get("peft") is not None
    if model.checkpoint is not None:
        chain.go_back_to(model.checkpoint, started_from=started_from, low_rank=low_rank)
    chain.add_evaluation("eval", dataclasses.asdict(study.eval_recipe(seed=seed)), content)
    choice = None
    if study.chooses_on_problems:
        chosen_by = dataclasses.asdict(study.eval_recipe(seed=seed, choosing=True))
        chain.add_evaluation("choose", chosen_by, content)
        choice = study.work_folder / chain.stages["choose"]
    evaluation = study.work_folder / chain.stages["eval"]
    return Place(model, seed, evaluation, training, choice, chain.stages, chain.recipes)


def _content(problems: str | None) -> str | None:
    """Return a digest of a problems file, or None for a benchmark."""
    path = Path(problems or "")
    return file_digest(path) if path.is_file() else None


def _digest(settings: Any) -> str:
    text = json.dumps(settings, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def out_folders(study: StudyRecipe) -> list[OutFolder]:
    """Return the folders that a study writes: that of its results, and that of its stages."""
    reads = outside_models(study)
    return [
        OutFolder(Path(study.out), "study", (RESULTS, WORK), reads=reads),
        OutFolder(study.work_folder, "study", _OF_WORK, reads=reads),
    ]


def outside_models(study: StudyRecipe) -> dict[str, str]:
    """Return the models from which the seeds start, by what they are called in an error."""
    if study.model is None:
        return {}
    by_seed = {seed: study.model_of(seed) for seed in study.seeds}
    if len(set(by_seed.values())) == 1:
        return {"model": by_seed[study.seeds[0]]}
    return {f"the model of seed {seed}": model for seed, model in by_seed.items()}
