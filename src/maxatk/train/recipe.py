"""The recipe of a training: its keys, and the settings of the libraries that it holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from maxatk.check import needing, require
from maxatk.errors import InvalidValueError, MaxAtKError
from maxatk.models import PromptSettings
from maxatk.objectives import Method
from maxatk.objectives.setting import setting_of
from maxatk.python_numbers import use_python_numbers
from maxatk.rewards import read_spec
from maxatk.settings import from_mapping
from maxatk.train.config import MaxAtKConfig
from maxatk.train.environments import read_environment, read_tools
from maxatk.train.signal_groups import refuse_environments
from maxatk.verifier import VerifierSettings

Settings = TypeVar("Settings")

_NO_SET = "which has no evaluation set: maxatk eval measures held-out problems"
# Settings with one value in a recipe, and why.
_ALONE = {
    "eval_strategy": ("no", _NO_SET),
    "eval_on_start": (False, _NO_SET),
    "metric_for_best_model": (None, _NO_SET),
    "resume_from_checkpoint": (None, "which goes on from the newest checkpoint in `out`"),
    "reward_weights": (None, "whose `reward` has the weights of its parts"),
}

# What other trainers call fields of TRL, too far from these for a search by letters.
_OTHER_NAMES = {
    "lr": "learning_rate",
    "batch_size": "per_device_train_batch_size",
    "epochs": "num_train_epochs",
    "steps": "max_steps",
    "n": "num_generations",
    "rollout_n": "num_generations",
    "group_size": "num_generations",
    "max_tokens": "max_completion_length",
    "kl_coef": "beta",
}


@dataclasses.dataclass(frozen=True)
class TrainRecipe:
    """What `maxatk train` needs: the keys of its recipe.

    `model` is a local folder or a hub name, `problems` a benchmark's name or a problems.jsonl,
    `out` the folder of the trained model, `reward` what `maxatk.rewards.read_spec` takes, `trainer`
    fields of `MaxAtKConfig`, `peft` those of peft's LoraConfig (None trains the whole model).
    `environment` is "programs", `file.py:Name`, or a mapping of such a `name` and its arguments;
    `tools` are functions, `file.py:function`, that the model may call.
    """

    model: str
    problems: str
    out: str
    reward: Any = "continuous"
    verifier: VerifierSettings = dataclasses.field(default_factory=VerifierSettings)
    trainer: dict[str, Any] = dataclasses.field(default_factory=dict)
    peft: dict[str, Any] | None = None
    prompt: PromptSettings = dataclasses.field(default_factory=PromptSettings)
    environment: Any = None
    tools: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        use_python_numbers(self)
        read_spec(self.reward)
        read_environment(self.environment)
        read_tools(self.tools)
        method = self.trainer.get("method")
        if isinstance(method, (Method, Mapping)):  # of which the record of the run holds JSON
            settings = {**self.trainer, "method": setting_of(method)}
            object.__setattr__(self, "trainer", settings)


def train_recipe(settings: Mapping[str, Any], *, where: str = "recipe") -> TrainRecipe:
    """Return the recipe that a mapping holds; raises as `maxatk.settings.from_mapping`.

    Of a field of the trainer that stands outside of `trainer` the refusal says where it belongs.
    """
    recipe_keys = {field.name for field in dataclasses.fields(TrainRecipe)}
    trainer_keys = {field.name for field in dataclasses.fields(MaxAtKConfig)}
    for name in settings:
        field = _OTHER_NAMES.get(name, name)
        if name not in recipe_keys and field in trainer_keys:
            raise InvalidValueError(
                f"{where}: unknown key {name!r}; did you mean `{field}` of the section `trainer`?"
            )
    return from_mapping(TrainRecipe, settings, where=where)


def check_settings(recipe: TrainRecipe) -> MaxAtKConfig:
    """Return the trainer's settings; raise InvalidValueError for one that is not allowed."""
    run_settings: dict[str, Any] = {"output_dir": recipe.out}
    environment = read_environment(recipe.environment)
    if environment is not None and "max_tool_calling_iterations" not in recipe.trainer:
        run_settings["max_tool_calling_iterations"] = environment.most_answers
    if recipe.prompt.template_arguments:
        if "chat_template_kwargs" in recipe.trainer:
            raise InvalidValueError(
                "trainer.chat_template_kwargs: is prompt.template_arguments; leave it out"
            )
        run_settings["chat_template_kwargs"] = dict(recipe.prompt.template_arguments)
    config = trainer_settings(MaxAtKConfig, recipe.trainer, run_settings)
    if config.groups_with_signal:
        refuse_environments(environment)
    answers = config.max_tool_calling_iterations
    if environment is not None and answers is not None:
        needed = environment.needed_answers
        allowed = f"{needed} or more with environment.turns {needed + 1}, or left out"
        require(answers >= needed, "trainer.max_tool_calling_iterations", allowed, answers)
    return config


def trainer_settings(
    kind: type[Settings], recipe_settings: Mapping[str, Any], run_settings: Mapping[str, Any]
) -> Settings:
    """Return settings of TRL; raise InvalidValueError for what the run sets or is not allowed."""
    for name, (only, why) in _ALONE.items():
        value = recipe_settings.get(name, only)
        require(value == only, f"trainer.{name}", f"{only!r} in a recipe, {why}", value)
    # The run has a progress of its own, which a bar of TRL's would run through.
    settings = merged(recipe_settings, {**run_settings, "disable_tqdm": True}, where="trainer")
    fields = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for name in recipe_settings:
        field = _OTHER_NAMES.get(name)
        if name not in fields and field in fields:
            raise InvalidValueError(f"trainer: unknown key {name!r}; did you mean {field!r}?")
    return _of_library(kind, settings, where="trainer")


def lora_config(settings: Mapping[str, Any] | None) -> Any:
    """Return the LoraConfig of a recipe's `peft`, if any; raise InvalidValueError as peft does."""
    if settings is None:
        return None
    with needing("peft: adapters need the package peft: pip install 'maxatk[peft]'"):
        from peft import LoraConfig
    return _of_library(LoraConfig, {"task_type": "CAUSAL_LM", **settings}, where="peft")


def merged(
    recipe_settings: Mapping[str, Any], run_settings: Mapping[str, Any], *, where: str
) -> dict[str, Any]:
    """Return settings with those of the run itself; raise InvalidValueError for one of these."""
    for name in run_settings:
        if name in recipe_settings:
            raise InvalidValueError(f"{where}.{name}: is set by the run itself; leave it out")
    return {**recipe_settings, **run_settings}


def _of_library(kind: type[Settings], settings: Mapping[str, Any], *, where: str) -> Settings:
    """Return settings of a library's class, with its errors about values as ours."""
    try:
        return from_mapping(kind, settings, where=where)
    except MaxAtKError:
        raise
    except (TypeError, ValueError) as error:  # about a value that only the library knows
        raise InvalidValueError(f"{where}: {error}") from error
