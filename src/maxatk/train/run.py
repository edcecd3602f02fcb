"""One training run from a recipe: model and problems in, a trained model folder out."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from datasets import Dataset
from transformers import PrinterCallback

from maxatk import folders
from maxatk.check import is_number, needing, require
from maxatk.environment import environment, is_first_process
from maxatk.errors import DataError, InvalidValueError, MaxAtKError, MissingDependencyError
from maxatk.models import (
    PromptSettings,
    fingerprint,
    load_tokenizer,
    quiet_libraries,
    refuse_missing_model,
)
from maxatk.problems import load_problems
from maxatk.records import Problem
from maxatk.rewards import Reward, load_rewards, read_spec
from maxatk.rewards.reward import columns_of
from maxatk.rewards.specification import describe_reward
from maxatk.settings import from_mapping, masked
from maxatk.train.config import MaxAtKConfig
from maxatk.train.environments import (
    Factory,
    Tools,
    describe,
    load_environment,
    load_tools,
    prepare_tokenizer,
    read_environment,
    read_tools,
)
from maxatk.train.reporter import Reporter
from maxatk.train.signal_groups import refuse_unknown_part
from maxatk.train.trainer import MaxAtKTrainer
from maxatk.verifier import Verifier, VerifierSettings
from maxatk.verifier.rewards import ENVIRONMENTS
from maxatk.writing import OutFolder

Settings = TypeVar("Settings")

ADAPTER = "adapter"
"""The folder of the adapter inside the folder of the trained model."""

_NO_SET = "which has no evaluation set: maxatk eval measures held-out problems"
# Settings with one value in a recipe, and why.
_ALONE = {
    "eval_strategy": ("no", _NO_SET),
    "eval_on_start": (False, _NO_SET),
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
        read_spec(self.reward)
        read_environment(self.environment)
        read_tools(self.tools)


def train_recipe(settings: Mapping[str, Any], *, where: str = "recipe") -> TrainRecipe:
    """Return the recipe that a mapping holds; raises as `maxatk.settings.from_mapping`.

    Of a field of the trainer that stands outside of `trainer` the refusal says where it belongs.
    """
    of_recipe = {field.name for field in dataclasses.fields(TrainRecipe)}
    of_trainer = {field.name for field in dataclasses.fields(MaxAtKConfig)}
    for name in settings:
        field = _OTHER_NAMES.get(name, name)
        if name not in of_recipe and field in of_trainer:
            raise InvalidValueError(
                f"{where}: unknown key {name!r}; did you mean `{field}` of the section `trainer`?"
            )
    return from_mapping(TrainRecipe, settings, where=where)


def train(
    recipe: TrainRecipe,
    *,
    progress: Callable[[int, int], None] | None = None,
    verifier: Verifier | None = None,
    write_line: Callable[[str], None] | None = None,
) -> Path:
    """Train as `recipe` says and return the folder that holds the trained model.

    A folder where the same recipe has finished is left as it is; one with a checkpoint of it, or of
    it with fewer steps, is continued; one of another recipe is refused. `progress(done, total)`
    counts optimizer steps, `write_line` gets what is logged. An open `verifier` stays open.

    Raises, before the model is loaded, InvalidValueError for settings that are not allowed,
    MissingFileError without model or problems, MissingDependencyError without a needed package.
    """
    out = Path(recipe.out)
    folder = out_folder(recipe, "train")
    folder.check()
    if finished(out, recipe):
        return out
    config = check_settings(recipe)
    if config.use_vllm and importlib.util.find_spec("vllm") is None:
        raise MissingDependencyError(
            "trainer.use_vllm: needs the package vllm: pip install 'maxatk[vllm]'; without it "
            "trainer.use_vllm=false samples with transformers"
        )
    adapter = lora_config(recipe.peft)
    refuse_missing_model(recipe.model)
    problems = load_problems(recipe.problems)
    tokenizer = load_tokenizer(recipe.model, prompt=recipe.prompt)
    tokenizer.padding_side = tokenizer.truncation_side = "left"  # as TRL loads one by itself
    prepare_tokenizer(tokenizer, recipe.environment, recipe.tools)
    chat = tokenizer.chat_template is not None
    opening = recipe.verifier.open() if verifier is None else contextlib.nullcontext(verifier)
    with opening as opened, quiet_libraries(), contextlib.ExitStack() as held:
        rewards, environment, tools = load_functions(recipe, config, verifier=opened)
        for reward in rewards:
            reward.check(problems)
        dataset = to_dataset(problems, chat=chat, prompt=recipe.prompt)
        held.enter_context(alone_in(folder))
        trainer = MaxAtKTrainer(
            model=recipe.model,
            reward_funcs=rewards,
            args=config,
            processing_class=tokenizer,
            train_dataset=dataset,
            callbacks=[Reporter(progress, write_line)],
            peft_config=adapter,
            environment_factory=environment,
            tools=tools or None,
        )
        about = {"rollouts": trainer.rollouts, "reward": describe_reward(recipe.reward)}
        about |= describe(recipe.environment, recipe.tools)
        fit(trainer, recipe, out, {"isolation": dict(opened.isolation), **about})
    return out


class Functions(NamedTuple):
    """What a recipe names of functions and classes."""

    rewards: list[Reward]
    environment: Factory | None
    tools: Tools


def load_functions(recipe: TrainRecipe, config: MaxAtKConfig, *, verifier: Verifier) -> Functions:
    """Return the rewards, the environment and the tools of a recipe; raises as `train`."""
    environment = load_environment(recipe.environment, verifier=verifier)
    rewards = load_rewards(
        recipe.reward,
        selection=config.selection,
        verifier=verifier,
        columns=[] if environment is None else [ENVIRONMENTS],
    )
    names = [reward.__name__ for reward in rewards]
    refuse_unknown_part(config.groups_with_signal, rewards, names)
    return Functions(rewards, environment, load_tools(recipe.tools))


def out_folder(recipe: Any, command: str) -> OutFolder:
    """Return the folder of the model that a recipe trains, as what `maxatk COMMAND` writes."""
    return OutFolder(
        Path(recipe.out), command, (folders.TRAIN_RECORD,), reads={"model": recipe.model}
    )


def alone_in(folder: OutFolder) -> AbstractContextManager[None]:
    """Hold a folder for this process; of several that train together the first one holds it."""
    return folder.alone() if is_first_process() else contextlib.nullcontext()


def fit(trainer: Any, recipe: Any, out: Path, about: Mapping[str, Any]) -> None:
    """Train into the folder `out`, on from its last checkpoint; write model and record there."""
    trainer.remove_callback(PrinterCallback)
    started = time.monotonic()
    main = trainer.is_world_process_zero()
    record = {
        "recipe": masked(dataclasses.asdict(recipe)),
        "weights": fingerprint(recipe.model),
        "environment": environment(),
        **about,
    }
    if main:
        folders.write_json(out / folders.TRAIN_RECORD, record)
    checkpoint = folders.last_checkpoint(out)
    trainer.train(resume_from_checkpoint=checkpoint)
    trainer.save_model(str(out if recipe.peft is None else out / ADAPTER))
    if recipe.peft is not None and main:
        from peft import AutoPeftModelForCausalLM

        # Loaded once more, on the CPU: no shards of the run, and no accelerator.
        dtype = trainer.model.get_base_model().dtype
        model = AutoPeftModelForCausalLM.from_pretrained(out / ADAPTER, dtype=dtype)
        model.merge_and_unload().save_pretrained(out)
        trainer.processing_class.save_pretrained(out)
    if isinstance(trainer, MaxAtKTrainer):
        trainer.create_model_card(model_name=out.name)
        record["seconds"] = round(time.monotonic() - started, 3)  # a distillation has sampled too
    history = trainer.state.log_history
    if checkpoint is not None:  # both are then of the steps since that checkpoint alone
        record["resumed_from"] = Path(checkpoint).name
        history = [row for row in history if "train_loss" not in row]
    record["log_history"] = [folders.writable(row) for row in history]
    if main:
        folders.write_json(out / folders.TRAIN_RECORD, record)


def lora_config(settings: Mapping[str, Any] | None) -> Any:
    """Return the LoraConfig of a recipe's `peft`, if any; raise InvalidValueError as peft does."""
    if settings is None:
        return None
    with needing("peft: adapters need the package peft: pip install 'maxatk[peft]'"):
        from peft import LoraConfig
    return _of_library(LoraConfig, {"task_type": "CAUSAL_LM", **settings}, where="peft")


def to_dataset(
    problems: list[Problem], *, chat: bool, prompt: PromptSettings | None = None
) -> Dataset:
    """Return the problems as TRL reads them: prompts, turns with `chat`, and columns of rewards."""
    before = prompt.turns_before if prompt is not None else []
    prompts = [
        [*before, {"role": "user", "content": problem.prompt}] if chat else problem.prompt
        for problem in problems
    ]
    try:
        return Dataset.from_dict({**columns_of(problems), "prompt": prompts})
    except (ValueError, TypeError) as error:  # PyArrow's, about a column of several types
        raise DataError(
            f"meta: a field must have one type in all problems, to be a column: {error}"
        ) from error


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
    return trainer_settings(MaxAtKConfig, recipe.trainer, run_settings)


def trainer_settings(
    kind: type[Settings], of_recipe: Mapping[str, Any], of_run: Mapping[str, Any]
) -> Settings:
    """Return settings of TRL; raise InvalidValueError for what the run sets or is not allowed."""
    for name, (only, why) in _ALONE.items():
        value = of_recipe.get(name, only)
        require(value == only, f"trainer.{name}", f"{only!r} in a recipe, {why}", value)
    # The run has a progress of its own, which a bar of TRL's would run through.
    settings = merged(of_recipe, {**of_run, "disable_tqdm": True}, where="trainer")
    fields = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for name in of_recipe:
        field = _OTHER_NAMES.get(name)
        if name not in fields and field in fields:
            raise InvalidValueError(f"trainer: unknown key {name!r}; did you mean {field!r}?")
    return _of_library(kind, settings, where="trainer")


def merged(
    of_recipe: Mapping[str, Any], of_run: Mapping[str, Any], *, where: str
) -> dict[str, Any]:
    """Return settings with those of the run itself; raise InvalidValueError for one of these."""
    for name in of_run:
        if name in of_recipe:
            raise InvalidValueError(f"{where}.{name}: is set by the run itself; leave it out")
    return {**of_recipe, **of_run}


def _of_library(kind: type[Settings], settings: Mapping[str, Any], *, where: str) -> Settings:
    """Return settings of a library's class, with its errors about values as ours."""
    try:
        return from_mapping(kind, settings, where=where)
    except MaxAtKError:
        raise
    except (TypeError, ValueError) as error:  # about a value that only the library knows
        raise InvalidValueError(f"{where}: {error}") from error


def finished(out: Path, recipe: Any) -> bool:
    """Say whether a recipe's training has ended; raise InvalidValueError for that of another."""
    if not (out / folders.TRAIN_RECORD).is_file():
        return False
    record = folders.read_training(out)
    has_ended = "log_history" in record  # which is written when the training ends
    if not has_ended and folders.last_checkpoint(out) is None:
        return False  # nothing of that training was kept, so that any other may take its place
    before = record.get("recipe", {})
    weights = fingerprint(recipe.model)
    if weights is not None and weights == record.get("weights"):
        before = {**before, "model": recipe.model}  # whatever the folder was called
    now = dataclasses.asdict(recipe)
    longer = _longer(before.get("trainer") or {}, now.get("trainer") or {})
    extended = {**before, "trainer": {**(before.get("trainer") or {}), **longer}}
    folders.refuse_other_settings(out, extended, now)
    if longer and folders.last_checkpoint(out) is None:
        raise InvalidValueError(
            f"{out}: holds no checkpoint from which its training could be extended; trainer."
            "save_strategy and save_steps say when one is kept"
        )
    return has_ended and not longer


def _longer(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the lengths of a training that are larger now than they were."""
    longer = {}
    for name in ("max_steps", "num_train_epochs"):
        old = before.get(name)
        new = now.get(name)
        if is_number(old) and is_number(new) and 0 < old < new:
            longer[name] = new
    return longer
