"""What a run would do, checked and counted without loading weights."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from transformers import AutoConfig

from maxatk.errors import MissingFileError
from maxatk.hub import why_missing
from maxatk.models import (
    PromptSettings,
    load_tokenizer,
    prompt_ids,
    refuse_missing_folder,
)
from maxatk.problems import BENCHMARKS, load_problems
from maxatk.records import Problem
from maxatk.train.adapter import lora_config
from maxatk.train.config import MaxAtKConfig
from maxatk.train.memory import Memory, estimate
from maxatk.train.plan import TrainingPlan, plan
from maxatk.train.rollouts import refuse_model
from maxatk.train.run import TrainRecipe, check_settings
from maxatk.train.shared_prompts import refuse_unshareable


@dataclasses.dataclass(frozen=True)
class Preview:
    """A recipe that holds: its arithmetic, its memory or why that is unknown, its settings.

    `given` are the trainer's settings from recipe and command line, `defaults` all the others.
    `prompt_tokens` is the longest prompt, None where problems or tokenizer are not here.
    """

    recipe: TrainRecipe
    plan: TrainingPlan
    memory: Memory | None
    memory_unknown: str
    prompt_tokens: int | None
    given: dict[str, Any]
    defaults: dict[str, Any]
    main_process: bool


def preview(recipe: TrainRecipe) -> Preview:
    """Return what `train` would do with this recipe; nothing is written and no weight is read.

    A local model and local problems must exist; a name on the hub is asked for its config only,
    and a benchmark for nothing.

    Raises InvalidValueError for settings that are not allowed, MissingFileError for a local model
    or problems file that does not exist, MissingDependencyError without a package that is needed.
    """
    config = check_settings(recipe)
    adapter = lora_config(recipe.peft)
    refuse_missing_folder(recipe.model)
    problems = None if recipe.problems in BENCHMARKS else load_problems(recipe.problems)
    arithmetic = plan(config, problems=None if problems is None else len(problems))
    longest, memory, unknown = None, None, ""
    try:
        if not os.path.isdir(recipe.model) and (reason := why_missing(recipe.model)):
            raise OSError(reason)
        model = AutoConfig.from_pretrained(recipe.model)
        if config.share_prompts:
            refuse_unshareable(model)
        refuse_model(config, model, recipe.model)
        if problems is not None:
            longest = _longest_prompt(recipe.model, problems, recipe.prompt)
        memory = estimate(model, config, adapter=adapter, prompt_tokens=longest or 0)
    except OSError as error:
        if os.path.isdir(recipe.model):
            raise MissingFileError(f"model: {recipe.model!r}: {error}") from error
        unknown = f"the hub does not give the config of {recipe.model!r} here"
    given, defaults = _settings(recipe, config)
    return Preview(
        recipe,
        arithmetic,
        memory,
        unknown,
        longest,
        given,
        defaults,
        main_process=config.process_index == 0,
    )


def _longest_prompt(model: str, problems: list[Problem], settings: PromptSettings) -> int:
    """Return the tokens of the longest prompt as the model reads it, its template included."""
    tokenizer = load_tokenizer(model, prompt=settings)
    return max(len(prompt_ids(tokenizer, problem.prompt, settings)) for problem in problems)


def _settings(recipe: TrainRecipe, config: MaxAtKConfig) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the trainer's settings as they will be, those that were given and the others."""
    names = [field.name for field in dataclasses.fields(config) if field.init]
    values = {name: _plain(getattr(config, name)) for name in names}
    given = {name: values[name] for name in names if name in recipe.trainer}
    return given, {name: values[name] for name in names if name not in recipe.trainer}


def _plain(value: Any) -> Any:
    """Return what JSON can hold, text for the rest."""
    value = getattr(value, "value", value)
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)
