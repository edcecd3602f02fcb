"""From the recipe of a study to its stages; what one would refuse is refused before any starts."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from maxatk.errors import InvalidValueError, MaxAtKError, StageError
from maxatk.folders import file_digest
from maxatk.models import fingerprint, refuse_missing_model
from maxatk.problems import BENCHMARKS, load_problems
from maxatk.report.comparison import BASE
from maxatk.settings import from_mapping
from maxatk.studies.recipe import TRAININGS, StudyRecipe, Variant
from maxatk.studies.stages import Stage, end_with_parent

COMMANDS = ("mini", *TRAININGS, "eval")  # in the order of their stages
_BUILT_IN = ("train.jsonl", "test.jsonl")  # the problems of the built-in model
_MOST_SHOWN = 2000  # characters of what a process printed that failed


@dataclasses.dataclass(frozen=True)
class Place:
    """Where one model of one seed is: its folders, and the stages that make and evaluate it.

    `training` has the model and its log; the base has none. `chain` maps a command to its stage,
    each of which needs the one before: `mini` makes the built-in model, `train` and `distill` train
    it, `eval` evaluates it. `recipes` has what the command of a stage reads.
    """

    variant: Variant
    seed: int
    evaluation: Path
    training: Path | None
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
    work, found = study.work_folder, dict[Stage, dict[str, Any]]()
    for seed, command in itertools.product(study.seeds, COMMANDS):
        for place in everywhere:
            if place.seed == seed and command in place.chain:
                name, stages = place.chain[command], list(place.chain.values())
                needs = stages[: stages.index(name)][-1:]
                file, own = str(_recipe_path(study, name)), threads
                arguments: tuple[str, ...] = (command, file)
                if command == "mini":
                    arguments, own = (command, str(work / name), "--recipe", file), warm_threads
                found[Stage(name, arguments, tuple(needs), own)] = place.recipes[name]
    return found


def write_recipes(study: StudyRecipe, stages: Mapping[Stage, Mapping[str, Any]]) -> None:
    """Write the recipe of every stage as the file that the stage's command reads."""
    for stage, recipe in stages.items():
        path = _recipe_path(study, stage.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(dict(recipe), sort_keys=False), encoding="utf-8")


def _recipe_path(study: StudyRecipe, stage: str) -> Path:
    return study.work_folder / "recipes" / f"{stage}.yaml"


def _place(
    study: StudyRecipe, model: Variant, seed: int, content: Callable[[str | None], str | None]
) -> Place:
    """Return where a model is: stages are named by a digest of settings, without their folders."""
    work, recipes, chain = study.work_folder, dict[str, dict[str, Any]](), dict[str, str]()
    start, name, train, test = str(study.model), BASE, dict[str, str](), dict[str, str]()
    identity: Any = [study.model, fingerprint(study.model or "")]
    if study.mini is not None:
        mini = dataclasses.asdict(dataclasses.replace(study.mini, seed=seed))
        # The name of the task, of which there were two, keeps the names of the folders.
        chain["mini"] = f"mini-{seed}-{_digest({'task': 'programs', **mini})}"
        recipes[chain["mini"]], identity = mini, [chain["mini"]]
        start = str(work / chain["mini"] / "base")
        train, test = ({"problems": str(work / chain["mini"] / f)} for f in _BUILT_IN)
    trainings = study.trainings(model, seed=seed)
    for command, recipe in trainings.items():
        method = recipe["trainer"].get("method", "trained")
        name = method if isinstance(method, str) else "own"  # a mapping is no name of a folder
        found = [identity, recipe, content(recipe["problems"])]
        stage = f"{command}-{name}-{seed}-{_digest(found)}"
        recipes[stage] = {**recipe, **train, "model": start, "out": str(work / stage)}
        chain[command], start, identity = stage, str(work / stage), stage
    asked = dataclasses.asdict(study.eval_recipe(seed=seed))
    found = [identity, asked, None if test else content(asked["problems"])]
    stage = f"eval-{name}-{seed}-{_digest(found)}"
    recipes[stage] = {**asked, **test, "model": start, "out": str(work / stage)}
    training = Path(start) if trainings else None
    return Place(model, seed, work / stage, training, {**chain, "eval": stage}, recipes)


def _content(problems: str | None) -> str | None:
    """Return a digest of a problems file, or None for a benchmark."""
    path = Path(problems or "")
    return file_digest(path) if path.is_file() else None


def _digest(settings: Any) -> str:
    text = json.dumps(settings, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def check_study(study: StudyRecipe, everywhere: Sequence[Place]) -> None:
    """Raise what a stage would: MissingFileError, InvalidValueError; StageError if asking fails."""
    if study.model is not None:
        refuse_missing_model(study.model)
        if study.eval["problems"] not in BENCHMARKS:
            load_problems(study.eval["problems"], limit=1)
    question = trainings_of(study, everywhere)
    if question["recipes"] and (refusal := _ask(question)) is not None:
        raise InvalidValueError(refusal)


def trainings_of(study: StudyRecipe, everywhere: Sequence[Place]) -> dict[str, Any]:
    """Return what the trainer is asked: every recipe, and how many problems if not in a file."""
    recipes = [
        (place.variant.name, command, place.recipes[place.chain[command]])
        for place in everywhere
        for command in TRAININGS
        if place.seed == study.seeds[0] and command in place.chain
    ]
    return {"recipes": recipes, "problems": study.mini and study.mini.train_problems}


def refusal_of(question: Mapping[str, Any]) -> str | None:
    """Return the first refusal of the trainer to what `trainings_of` asks. Imports the trainer."""
    for name, command, recipe in question["recipes"]:
        try:
            _check_training(command, recipe, question["problems"])
        except MaxAtKError as error:
            return f"{name}: {error}"
        except ModuleNotFoundError as error:
            return f"training needs {error.name!r}: pip install 'maxatk[train]'"
    return None


def _check_training(command: str, recipe: Mapping[str, Any], problems: int | None) -> None:
    from maxatk.train import DistillRecipe, TrainRecipe, check_settings
    from maxatk.train.distill import config_of
    from maxatk.train.preview import plan
    from maxatk.train.run import lora_config

    if command == "distill":
        config_of(from_mapping(DistillRecipe, recipe, where="train.distill"), Path(recipe["out"]))
        return
    chosen = from_mapping(TrainRecipe, recipe, where="train")
    config = check_settings(chosen)
    lora_config(chosen.peft)
    problems = problems or _count(chosen.problems)
    if problems is not None or config.max_steps > 0:
        plan(config, problems=problems)


@functools.cache
def _count(problems: str) -> int | None:
    return None if problems in BENCHMARKS else len(load_problems(problems))


def _ask(question: Mapping[str, Any]) -> str | None:
    """Return what `refusal_of` says in a process that does not outlive this one, nor fill it."""
    with (
        contextlib.suppress(BrokenPipeError),
        subprocess.Popen(
            [sys.executable, "-m", "maxatk.studies.schedule"],
            stdin=subprocess.PIPE,  # open to the end: its closing tells the child we are gone
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # what it printed says why it died
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()
        printed = process.stdout.read()
        process.kill()
    _, start, rest = printed.rpartition('{"refusal": ')
    if not start:
        raise StageError("the check of the trainings failed:\n" + printed[-_MOST_SHOWN:])
    refusal: str | None = json.JSONDecoder().raw_decode(start + rest)[0]["refusal"]
    return refusal


if __name__ == "__main__":
    asked = json.loads(sys.stdin.readline())
    end_with_parent()
    print(json.dumps({"refusal": refusal_of(asked)}))  # noqa: T201
