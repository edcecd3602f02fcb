"""What the stages of a study would refuse, before any of them starts."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from maxatk.errors import InvalidValueError, MaxAtKError, MissingFileError, StageError
from maxatk.evaluation.problem_groups import check_by
from maxatk.exchange import parse_mapping
from maxatk.models import refuse_missing_model
from maxatk.problems import BENCHMARKS, load_problems, read_problems
from maxatk.records import Problem
from maxatk.rewards import load_reward
from maxatk.settings import from_mapping, located
from maxatk.studies.recipe import TRAININGS, StudyRecipe
from maxatk.studies.schedule import SeededModel, out_folders, outside_models
from maxatk.studies.stages import end_with_parent
from maxatk.verifier import Verifier, VerifierSettings

# Of the recipe of a training, named in errors that do not know that it is part of a study.
_FIELDS = ("trainer", "peft", "reward", "environment", "tools", "problems_of_a_round")
VerifierOf: TypeAlias = Callable[[VerifierSettings], Verifier]
_MOST_SHOWN = 2000  # characters of what a process printed that failed


def check_study(
    study: StudyRecipe, models: Sequence[SeededModel], *, for_reading: bool = False
) -> None:
    """Raise what a stage would: MissingFileError, InvalidValueError; StageError if asking fails.

    A study that runs already is refused, but `for_reading`.
    """
    check_files(study, models, for_reading=for_reading)
    refusal = _ask(trainings_of(study, models))
    if refusal is not None:
        raise InvalidValueError(refusal)


def check_files(
    study: StudyRecipe, models: Sequence[SeededModel], *, for_reading: bool = False
) -> None:
    """Raise MissingFileError or InvalidValueError for what is wrong with files and folders."""
    for folder in out_folders(study):
        folder.check(for_reading=for_reading)
    if study.model is not None:
        for model in set(outside_models(study).values()):
            refuse_missing_model(model)
        recipes = [recipe for seeded in models for recipe in seeded.recipes.values()]
        sources = {(recipe["problems"], tuple(recipe.get("map", ()))) for recipe in recipes}
        for problems, items in sources:
            if problems not in BENCHMARKS:
                read_problems(problems, limit=1, mapping=parse_mapping(items))


def trainings_of(study: StudyRecipe, models: Sequence[SeededModel]) -> dict[str, Any]:
    """Return what the trainer is asked: every recipe, and how many problems if not in a file.

    With it goes what decides the rewards of the evaluations, which come behind the trainings.
    """
    recipes = []
    checked = set()  # checkpoints share their training
    for seeded_model in models:
        for command in TRAININGS:
            stage = seeded_model.chain.get(command)
            if seeded_model.seed == study.seeds[0] and stage is not None and stage not in checked:
                checked.add(stage)
                recipes.append((seeded_model.variant.name, command, seeded_model.recipes[stage]))
    return {
        "recipes": recipes,
        "problems": study.mini and study.mini.train_problems,
        "evaluations": _evaluations_of(study),
    }


def _evaluations_of(study: StudyRecipe) -> dict[str, dict[str, Any]]:
    """Return what every section of evaluations needs: its reward, and problems that are there."""
    sections = {"eval": study.eval_recipe(seed=study.seeds[0])}
    if study.chooses_on_problems:
        sections["front.choose"] = study.eval_recipe(seed=study.seeds[0], choosing=True)
    evaluations = {}
    for where, recipe in sections.items():
        are_there = study.mini is None and not recipe.map
        problems = recipe.problems if are_there else None
        evaluations[where] = {
            "reward": recipe.reward,
            "verifier": dataclasses.asdict(recipe.verifier),
            "problems": problems,
            "limit": recipe.limit,
            "by": recipe.by,
        }
    return evaluations


def refusal_of(question: Mapping[str, Any]) -> str | None:
    """Return the first refusal of the trainer to what `trainings_of` asks. Imports the trainer."""
    with _verifiers() as verifier_of:
        shared = _Shared(verifier_of=verifier_of)
        for name, command, recipe in question["recipes"]:
            try:
                _check_training(command, recipe, question["problems"], shared)
            except MaxAtKError as error:
                return f"{name}: {error}"
            except ModuleNotFoundError as error:
                return f"training needs {error.name!r}: pip install 'maxatk[train]'"
        for where, evaluation in question["evaluations"].items():
            try:
                _check_evaluation(evaluation, verifier_of)
            except MaxAtKError as error:
                return str(located(error, where=where, fields=("reward", "by")))
    return None


@dataclasses.dataclass(frozen=True)
class _Shared:
    """What the checks of several trainings share, since making it anew takes seconds."""

    verifier_of: VerifierOf
    # Models as they are loaded, each with its adapter, that were tried without a refusal.
    tried: set[str] = dataclasses.field(default_factory=set)


@contextlib.contextmanager
def _verifiers() -> Iterator[VerifierOf]:
    """Yield what opens a verifier of some settings, and one alone of equal settings."""
    opened: list[tuple[VerifierSettings, Verifier]] = []
    with contextlib.ExitStack() as stack:

        def verifier_of(settings: VerifierSettings) -> Verifier:
            for opened_settings, verifier in opened:
                if opened_settings == settings:
                    return verifier
            # One worker will do: loaded rewards only hold the verifier.
            verifier = stack.enter_context(dataclasses.replace(settings, workers=1).open())
            opened.append((settings, verifier))
            return verifier

        yield verifier_of


def _check_evaluation(evaluation: Mapping[str, Any], verifier_of: VerifierOf) -> None:
    settings = from_mapping(VerifierSettings, evaluation["verifier"], where="verifier")
    reward = load_reward(evaluation["reward"], verifier=verifier_of(settings))
    problems = None if evaluation["problems"] is None else _problems(evaluation["problems"])
    if problems is not None:
        evaluated = problems[: evaluation["limit"]]
        reward.check(evaluated)
        check_by((problem.meta for problem in evaluated), evaluation["by"])


def _check_training(
    command: str, recipe: Mapping[str, Any], problems: int | None, shared: _Shared
) -> None:
    where = "train" if command == "train" else "train.distill"
    try:
        if command == "train":
            _check_train(recipe, problems, shared)
        else:
            _check_distill(recipe, problems, shared)
    except (InvalidValueError, MissingFileError) as error:
        raise located(error, where=where, fields=_FIELDS) from error


def _check_train(recipe: Mapping[str, Any], count: int | None, shared: _Shared) -> None:
    """Refuse a recipe of `maxatk train`, whose problems are so many where they are not there."""
    from maxatk.train.preview import plan
    from maxatk.train.recipe import train_recipe
    from maxatk.train.run import load_functions
    from maxatk.train.start_checks import checked_start

    chosen = train_recipe(recipe, where="train")
    config, adapter = checked_start(chosen)
    _check_model(config, chosen, adapter, shared)
    verifier = shared.verifier_of(chosen.verifier)
    rewards = load_functions(chosen, config, verifier=verifier).rewards
    problems = None if count else _problems(chosen.problems)
    if problems is not None:
        count = len(problems)
        for reward in rewards:
            reward.check(problems)
    if count is not None or config.max_steps > 0:
        plan(config, problems=count)


def _check_distill(recipe: Mapping[str, Any], count: int | None, shared: _Shared) -> None:
    """Refuse a recipe of `maxatk distill`, as `_check_train` does one of `maxatk train`."""
    from maxatk.train import DistillRecipe
    from maxatk.train.distill_recipe import check_problems_of_a_round, config_of
    from maxatk.train.recipe import lora_config
    from maxatk.train.start_checks import refuse_missing_login

    chosen = from_mapping(DistillRecipe, recipe, where="train.distill")
    problems = None if count else _problems(chosen.problems)
    if problems is not None:
        count = len(problems)
    if count is not None:
        check_problems_of_a_round(chosen, count)
    config = config_of(chosen, Path(chosen.out))
    refuse_missing_login(config)
    _check_model(config, chosen, lora_config(chosen.peft), shared)


def _check_model(config: Any, recipe: Any, adapter: Any, shared: _Shared) -> None:
    """Refuse a model that is there already and does not go with the settings or the adapter."""
    from maxatk.train.loading_checks import LOADING_SETTINGS, config_to_train

    if not Path(recipe.model).is_dir():
        return
    settings = {name: getattr(config, name, None) for name in LOADING_SETTINGS}
    loading = json.dumps([recipe.model, recipe.peft, settings], sort_keys=True, default=str)
    if loading not in shared.tried:
        config_to_train(config, recipe.model, adapter)
        shared.tried.add(loading)


@functools.cache
def _problems(problems: str) -> list[Problem] | None:
    return None if problems in BENCHMARKS else load_problems(problems)


def _ask(question: Mapping[str, Any]) -> str | None:
    """Return what `refusal_of` says in a process that does not outlive this one, nor fill it."""
    # To a file: a process that code of the user has started and left would keep a pipe open.
    with (
        tempfile.TemporaryFile() as output,
        contextlib.suppress(BrokenPipeError),
        subprocess.Popen(
            [sys.executable, "-m", "maxatk.studies.check"],
            stdin=subprocess.PIPE,  # open to the end: its closing tells the child we are gone
            stdout=output,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            start_new_session=True,
        ) as process,
    ):
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # what it printed says why it died
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()
        process.wait()
        output.seek(0)
        printed = output.read().decode("utf-8", "replace")
    # Libraries print what they like before the answer, and behind it.
    start = printed.rfind('{"refusal": ')
    if start < 0:
        raise StageError("the check of the trainings failed:\n" + printed[-_MOST_SHOWN:])
    answer, _ = json.JSONDecoder().raw_decode(printed[start:])
    refusal: str | None = answer["refusal"]
    return refusal


if __name__ == "__main__":
    # Its end frees all. Looking for garbage among the imports of the trainer takes a fifth of it.
    gc.disable()
    question = json.loads(sys.stdin.readline())
    end_with_parent()
    print(json.dumps({"refusal": refusal_of(question)}))  # noqa: T201
