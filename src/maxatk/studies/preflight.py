"""Refuse what a stage of a study would refuse, before any of them starts.

The trainer is asked in another process: its imports would cost this one half a GiB for good.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maxatk.errors import InvalidValueError, MaxAtKError, StageError
from maxatk.models import refuse_missing_model
from maxatk.problems import BENCHMARKS, load_problems
from maxatk.settings import from_mapping
from maxatk.studies.child import end_with_parent
from maxatk.studies.study_recipe import StudyRecipe

_MOST_SHOWN = 2000  # characters of what a process printed that failed


@dataclasses.dataclass(frozen=True)
class TrainingSize:
    """How much a training does, over all of its steps."""

    rollout_batches: int
    optimizer_steps: int


def check_study(study: StudyRecipe) -> dict[str, TrainingSize | None]:
    """Return the size of every training of a study by its model, or refuse the study.

    A size is None where the number of problems is known only when they are loaded, and no
    `max_steps` is given. The seeds differ in nothing that could be refused.

    Raises MissingFileError (model, problems), InvalidValueError naming the model and the setting
    of its training that is not allowed, StageError where the process that asks fails.
    """
    if study.model is not None:
        refuse_missing_model(study.model)
        if study.eval["problems"] not in BENCHMARKS:
            load_problems(study.eval["problems"], limit=1)
    question = trainings_of(study)
    return _ask(question) if question["recipes"] else {}


def trainings_of(study: StudyRecipe) -> dict[str, Any]:
    """Return what the trainer is asked: a recipe for every model, and the number of problems.

    The number is None where the recipes name problems that exist.
    """
    start, mini = study.model or "base", None if study.mini is None else Path("mini")
    recipes = {
        model.name: study.train_recipe(
            model, start=start, out=study.out, seed=study.seeds[0], mini=mini
        )
        for model in study.variants
        if model.train is not None
    }
    return {
        "recipes": recipes,
        "problems": None if study.mini is None else study.mini.train_problems,
    }


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return {"sizes": by model, as `TrainingSize` has them} or {"error": the first refusal}.

    `question` is that of `trainings_of`. Imports the trainer.
    """
    sizes = {}
    for name, recipe in question["recipes"].items():
        try:
            sizes[name] = _size(recipe, question["problems"])
        except MaxAtKError as error:
            return {"error": f"{name}: {error}"}
        except ModuleNotFoundError as error:
            return {"error": f"training needs {error.name!r}: pip install 'maxatk[train]'"}
    return {"sizes": sizes}


def _ask(question: Mapping[str, Any]) -> dict[str, TrainingSize | None]:
    """Return what `answer` says in another process, which does not outlive this one."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "maxatk.studies.preflight"],
            stdin=subprocess.PIPE,  # open to the end: its closing tells the child we are gone
            stdout=subprocess.PIPE,
            stderr=errors,
            encoding="utf-8",
            start_new_session=True,
        )
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(BrokenPipeError):  # what it printed says why it died
                process.stdin.write(json.dumps(question) + "\n")
                process.stdin.flush()
            printed = process.stdout.read()
        finally:
            process.kill()
            process.wait()
        errors.seek(0)
        said = errors.read()
    if not printed.endswith("}\n"):
        raise StageError("the check of the trainings failed:\n" + said[-_MOST_SHOWN:])
    found = json.loads(printed.splitlines()[-1])
    if "error" in found:
        raise InvalidValueError(found["error"])
    sizes: dict[str, list[int] | None] = found["sizes"]
    return {name: TrainingSize(*size) if size else None for name, size in sizes.items()}


def _size(recipe: Mapping[str, Any], problems: int | None) -> tuple[int, int] | None:
    from maxatk.train import TrainRecipe, check_settings
    from maxatk.train.adapter import lora_config
    from maxatk.train.plan import plan

    chosen = from_mapping(TrainRecipe, recipe, where="train")
    config = check_settings(chosen)
    lora_config(chosen.peft)
    problems = problems or _count(chosen.problems)
    if problems is None and config.max_steps <= 0:
        return None
    size = plan(config, problems=problems)
    return size.rollout_batches, size.optimizer_steps


@functools.cache
def _count(problems: str) -> int | None:
    return None if problems in BENCHMARKS else len(load_problems(problems))


def _main() -> None:
    question = json.loads(sys.stdin.readline())
    end_with_parent()
    print(json.dumps(answer(question)))  # noqa: T201


if __name__ == "__main__":
    _main()
