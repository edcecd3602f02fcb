"""The chain of stages that makes one model of one seed and evaluates it, and how they are named.

A stage is named by a digest of all that decides what it makes: how the model came about that it
starts from, its own settings, and the content of the files that these name: problems, functions,
chat templates, samples to distil and the adapter of an evaluation, but no other folder, and not
where programs run. Models whose chains begin alike share these stages, and other settings never
find a stage that is not theirs.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from maxatk.evaluation.folder import SCORES
from maxatk.mini import MiniSettings
from maxatk.models import fingerprint
from maxatk.named_files import files_named
from maxatk.report.comparison import BASE
from maxatk.studies.recipe import TRAININGS, StudyRecipe
from maxatk.studies.variants import Variant
from maxatk.verifier.settings import without_places

COMMANDS = {  # the command of every stage of a chain, in their order
    "mini": "mini",
    **{training: training for training in TRAININGS},
    "eval": "eval",
    "choose": "eval",
}
_TRAIN_FILE = "train.jsonl"  # of the built-in model
_TEST_FILE = "test.jsonl"

DigestOf: TypeAlias = Callable[[str | None], str | None]
"""What returns the digest of a problems file: `digest_if_file`, or one that remembers."""


@dataclasses.dataclass
class Chain:
    """The stages of one model of one seed, as they are added; each starts from the one before.

    `stages` maps a part, a key of `COMMANDS`, to the name of its stage, and `recipes` that name to
    what its command reads. Three things are about the model as it is after the last stage: `model`
    is its folder, `adapter` a checkpoint that is loaded on top of it, and `origin` all that has
    decided how it came about. `label` is its method, and `trained` the folder of its last training.
    """

    work: Path
    seed: int
    digest_of: DigestOf
    model: str = ""
    adapter: str | None = None
    origin: Any = None
    label: str = BASE
    trained: Path | None = None
    stages: dict[str, str] = dataclasses.field(default_factory=dict)
    recipes: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)

    def start_from(self, model: str) -> None:
        """Start from a model that is there already."""
        self.model = model
        self.origin = [model, fingerprint(model)]

    def add_mini(self, settings: MiniSettings) -> None:
        """Add the stage that makes the built-in model with its problems."""
        recipe = dataclasses.asdict(dataclasses.replace(settings, seed=self.seed))
        # The name of the task, which is a part of the digest, keeps the names of the folders.
        name = f"mini-{self.seed}-{_digest({'task': 'programs', **recipe})}"
        self.stages["mini"] = name
        self.recipes[name] = recipe
        self.model = str(self.work / name / "base")
        self.origin = [name]

    def add_training(self, command: str, recipe: Mapping[str, Any]) -> None:
        """Add a stage that trains the model, which is the trained one from here on."""
        method = recipe["trainer"].get("method", "trained")
        self.label = method if isinstance(method, str) else "own"  # a mapping names no folder
        settings = [self.origin, without_places(recipe), self.digest_of(recipe["problems"])]
        if recipe.get("run") is not None:  # of a distillation: a folder of samples
            settings.append(self.digest_of(f"{recipe['run']}/{SCORES}"))
        name = self._add(command, settings, {**recipe, **self._built_in(_TRAIN_FILE)})
        self.trained = self.work / name
        self.model = str(self.trained)
        self.origin = name

    def go_back_to(self, checkpoint: int, *, untrained: str, low_rank: bool) -> None:
        """Take a checkpoint of the last training instead of its end.

        That of a training with a low-rank adapter holds the adapter alone, which is loaded on top
        of the `untrained` model that the training started from.
        """
        folder = f"{self.model}/checkpoint-{checkpoint}"
        self.model = untrained if low_rank else folder
        self.adapter = folder if low_rank else None
        self.origin = [self.origin, checkpoint]

    def add_evaluation(self, part: str, recipe: Mapping[str, Any]) -> None:
        """Add a stage that evaluates the model: the part "eval", or "choose"."""
        problems = self._built_in(_TEST_FILE)
        digest = None if problems else self.digest_of(recipe["problems"])
        settings = [self.origin, without_places(recipe), digest]
        if recipe["adapter"] is not None:  # one that the study has not trained
            settings.append(fingerprint(recipe["adapter"]))
        inputs = {**recipe, **problems}
        if self.adapter is not None:
            inputs["adapter"] = self.adapter
        self._add(part, settings, inputs)

    def _built_in(self, file: str) -> dict[str, str]:
        """Return the setting that names a problems file of the built-in model, if that is used."""
        if "mini" not in self.stages:
            return {}
        return {"problems": str(self.work / self.stages["mini"] / file)}

    def _add(self, part: str, settings: list[Any], recipe: Mapping[str, Any]) -> str:
        """Add the stage of a part, named by `settings`, and return its name."""
        files = files_named(recipe)
        # Settings without such files keep the names of their folders.
        decisive = [*settings, files] if files else settings
        name = f"{COMMANDS[part]}-{self.label}-{self.seed}-{_digest(decisive)}"
        self.stages[part] = name
        self.recipes[name] = {**recipe, "model": self.model, "out": str(self.work / name)}
        return name


def chain_of(study: StudyRecipe, variant: Variant, seed: int, digest_of: DigestOf) -> Chain:
    """Return the stages of one model of a study, for one of its seeds."""
    chain = Chain(study.work_folder, seed, digest_of)
    if study.mini is None:
        chain.start_from(study.model_of(seed))
    else:
        chain.add_mini(study.mini)
    untrained = chain.model
    low_rank = False
    for command, recipe in study.trainings(variant, seed=seed).items():
        untrained = chain.model
        low_rank = recipe.get("peft") is not None
        chain.add_training(command, recipe)
    if variant.checkpoint is not None:
        chain.go_back_to(variant.checkpoint, untrained=untrained, low_rank=low_rank)
    evaluated_by = study.eval_recipe(seed=seed, sampling=variant.sampling)
    chain.add_evaluation("eval", dataclasses.asdict(evaluated_by))
    if study.chooses_on_problems:
        chosen_by = study.eval_recipe(seed=seed, choosing=True, sampling=variant.sampling)
        chain.add_evaluation("choose", dataclasses.asdict(chosen_by))
    return chain


def _digest(settings: Any) -> str:
    text = json.dumps(settings, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
