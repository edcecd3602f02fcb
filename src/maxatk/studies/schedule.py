"""From the recipe of a study to its stages; what a stage would refuse is refused before any starts.

The trainer is asked in another process: its imports would cost this one half a GiB for good.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from maxatk.errors import InvalidValueError, MaxAtKError, StageError
from maxatk.folders import file_digest
from maxatk.models import fingerprint, refuse_missing_model
from maxatk.problems import BENCHMARKS, load_problems
from maxatk.report.runs import BASE
from maxatk.settings import from_mapping
from maxatk.studies.recipe import TRAININGS, StudyRecipe, Variant
from maxatk.studies.stages import Stage, end_with_parent

COMMANDS = ("mini", *TRAININGS, "eval")  # in the order of their stages
_MOST_SHOWN = 2000  # characters of what a process printed that failed


@dataclasses.dataclass(frozen=True)
class Place:
    """Where one model of one seed is: the stages that make and evaluate it, folders of `work`.

    `chain` maps a command to its stage, each of which needs the one before: `mini` makes the
    built-in model (left out where the study names another), `train` and `distill` train it (left
    out for the base), `eval` evaluates it. `recipes` has what the command of a stage reads.
    """

    variant: Variant
    seed: int
    chain: Mapping[str, str]
    recipes: Mapping[str, dict[str, Any]]

    @property
    def training(self) -> str | None:
        """The stage whose folder holds the model and its log; None for the base."""
        return self.chain.get("distill", self.chain.get("train"))


def places(study: StudyRecipe) -> list[Place]:
    """Return every model of every seed, seed by seed."""
    return [_place(study, model, seed) for seed in study.seeds for model in study.variants]


def planned(study: StudyRecipe, *, cores: int, jobs: int) -> dict[Stage, dict[str, Any]]:
    """Return the stages of a study with their recipes, in the order in which they should start.

    A warm start has the cores that those of other seeds leave it. The built-in model is too small
    for more than one core otherwise; stages of another model share all cores, `jobs` at once. The
    trainings of a seed come before its evaluations, because an evaluation waits for one of them.
    """
    warm_threads = max(1, cores // len(study.seeds))
    threads = 1 if study.mini is not None else max(1, cores // jobs)
    everywhere = places(study)
    found: dict[Stage, dict[str, Any]] = {}
    for seed, command in itertools.product(study.seeds, COMMANDS):
        for place in everywhere:
            if place.seed == seed and command in place.chain:
                name, stages = place.chain[command], list(place.chain.values())
                position = stages.index(name)
                file = str(_recipe_path(study, name))
                arguments: tuple[str, ...] = (command, file)
                own = threads
                if command == "mini":
                    arguments = (command, str(study.work_folder / name), "--recipe", file)
                    own = warm_threads
                needs = tuple(stages[max(0, position - 1) : position])
                found[Stage(name, arguments, needs, own)] = place.recipes[name]
    return found


def write_recipes(study: StudyRecipe, stages: Mapping[Stage, Mapping[str, Any]]) -> None:
    """Write the recipe of every stage as the file that the stage's command reads."""
    for stage, recipe in stages.items():
        path = _recipe_path(study, stage.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(dict(recipe), sort_keys=False), encoding="utf-8")


def _recipe_path(study: StudyRecipe, stage: str) -> Path:
    return study.work_folder / "recipes" / f"{stage}.yaml"


def _place(study: StudyRecipe, model: Variant, seed: int) -> Place:
    """Return where a model is: names that say what it is and hold a digest of its settings.

    Their recipes are filled in after the digest, which no folder above the study's may change.
    """
    work, recipes, chain = study.work_folder, dict[str, dict[str, Any]](), dict[str, str]()
    warm, start, name = None, str(study.model), BASE
    identity: Any = [study.model, fingerprint(study.model or "")]
    if study.mini is not None:
        mini = dataclasses.asdict(dataclasses.replace(study.mini, seed=seed))
        # The name of the task, of which there were two, keeps the names of the folders.
        chain["mini"] = f"mini-{seed}-{_digest({'task': 'programs', **mini})}"
        recipes[chain["mini"]] = mini
        warm, identity = work / chain["mini"], [chain["mini"]]
        start = str(warm / "base")
    for command, recipe in study.trainings(model, seed=seed).items():
        method = recipe["trainer"].get("method", "trained")
        name = method if isinstance(method, str) else "own"  # a mapping is no name of a folder
        content = _content(recipe["problems"])
        stage = f"{command}-{name}-{seed}-{_digest([identity, recipe, content])}"
        filled = {**recipe, **_built_in(warm, "train"), "model": start, "out": str(work / stage)}
        chain[command], recipes[stage] = stage, filled
        start, identity = str(work / stage), stage
    asked = dataclasses.asdict(study.eval_recipe(seed=seed))
    content = None if warm else _content(asked["problems"])
    evaluation = f"eval-{name}-{seed}-{_digest([identity, asked, content])}"
    out = str(work / evaluation)
    chain["eval"] = evaluation
    recipes[evaluation] = {**asked, **_built_in(warm, "test"), "model": start, "out": out}
    return Place(model, seed, chain, recipes)


def _built_in(warm: Path | None, name: str) -> dict[str, str]:
    return {} if warm is None else {"problems": str(warm / f"{name}.jsonl")}


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


def check_study(study: StudyRecipe) -> None:
    """Refuse what a stage would refuse, of any seed alike.

    Raises MissingFileError (model, problems), InvalidValueError naming the model and the setting
    of its training that is not allowed, StageError where the process that asks fails.
    """
    if study.model is not None:
        refuse_missing_model(study.model)
        if study.eval["problems"] not in BENCHMARKS:
            load_problems(study.eval["problems"], limit=1)
    question = trainings_of(study)
    if question["recipes"]:
        refusal = _ask(question)
        if refusal is not None:
            raise InvalidValueError(refusal)


def trainings_of(study: StudyRecipe) -> dict[str, Any]:
    """Return what the trainer is asked: every recipe, and how many problems if not in a file."""
    recipes = [
        (place.variant.name, command, place.recipes[place.chain[command]])
        for place in (_place(study, model, study.seeds[0]) for model in study.variants)
        for command in TRAININGS
        if command in place.chain
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
    """Return what `refusal_of` says in another process, which does not outlive this one."""
    printed = ""
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
