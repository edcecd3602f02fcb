"""One training run from a recipe: model and problems in, a trained model folder out."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import AutoConfig, PrinterCallback, TrainerCallback
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from maxatk.environment import environment
from maxatk.errors import DataError, InvalidValueError, MaxAtKError
from maxatk.folders import TRAIN_RECORD, read_json, refuse_other_settings, write_json
from maxatk.masking import masked
from maxatk.models import PromptSettings, load_tokenizer, refuse_missing_model
from maxatk.problems import load_problems
from maxatk.records import Problem
from maxatk.rewards import load_rewards, read_spec
from maxatk.rewards.reward import columns_of
from maxatk.rewards.specification import describe_reward
from maxatk.settings import from_mapping
from maxatk.train.adapter import ADAPTER, lora_config, merge_adapter
from maxatk.train.config import MaxAtKConfig
from maxatk.train.log_lines import LogLines
from maxatk.train.memory import load_dtype
from maxatk.train.trainer import MaxAtKTrainer
from maxatk.verifier import Verifier, VerifierSettings


@dataclasses.dataclass(frozen=True)
class TrainRecipe:
    """What `maxatk train` needs: the keys of its recipe.

    `model` is a local folder or a hub name, `problems` a benchmark's name or a problems.jsonl,
    `out` the folder of the trained model, `reward` "continuous" (fraction of tests passed),
    "binary", "answer" or whatever else `maxatk.rewards.read_spec` takes, `trainer` every field of
    `MaxAtKConfig`, `peft` every field of peft's LoraConfig (None trains the whole model), `prompt`
    how a problem's prompt becomes what the model reads.
    """

    model: str
    problems: str
    out: str
    reward: Any = "continuous"
    verifier: VerifierSettings = dataclasses.field(default_factory=VerifierSettings)
    trainer: dict[str, Any] = dataclasses.field(default_factory=dict)
    peft: dict[str, Any] | None = None
    prompt: PromptSettings = dataclasses.field(default_factory=PromptSettings)

    def __post_init__(self) -> None:
        read_spec(self.reward)


def train(
    recipe: TrainRecipe,
    *,
    progress: Callable[[int, int], None] | None = None,
    verifier: Verifier | None = None,
    write_line: Callable[[str], None] | None = None,
) -> Path:
    """Train as `recipe` says and return the folder that holds the trained model.

    A folder where the same recipe has finished is left as it is; one that holds a checkpoint of
    it is continued from there; one that holds either of another recipe is refused.
    `progress(done, total)` counts optimizer steps, and `write_line` gets what is logged, a line
    every `logging_steps`. A `verifier` that is open, such as that of a cluster, stays so; where
    None, one is opened here.

    Raises InvalidValueError for settings that are not allowed, MissingFileError for a model or a
    problems file that does not exist, MissingDependencyError for a package that is needed and not
    here, all before the model is loaded.
    """
    out = Path(recipe.out)
    if _finished(out, recipe):
        return out
    config = check_settings(recipe)
    adapter = lora_config(recipe.peft)
    refuse_missing_model(recipe.model)
    problems = load_problems(recipe.problems)
    tokenizer = load_tokenizer(recipe.model, prompt=recipe.prompt)
    tokenizer.padding_side = tokenizer.truncation_side = "left"  # as TRL loads one by itself
    started = time.monotonic()
    opening = recipe.verifier.open() if verifier is None else contextlib.nullcontext(verifier)
    with opening as opened:
        rewards = load_rewards(recipe.reward, selection=config.selection, verifier=opened)
        for reward in rewards:
            reward.check(problems)
        trainer = MaxAtKTrainer(
            model=recipe.model,
            reward_funcs=rewards,
            args=config,
            processing_class=tokenizer,
            train_dataset=to_dataset(
                problems, chat=tokenizer.chat_template is not None, prompt=recipe.prompt
            ),
            callbacks=[
                *([_Progress(progress)] if progress else []),
                *([LogLines(write_line)] if write_line else []),
            ],
            peft_config=adapter,
        )
        trainer.remove_callback(PrinterCallback)
        record = _record(recipe, opened, rollouts=trainer.rollouts)
        if trainer.is_world_process_zero():
            out.mkdir(parents=True, exist_ok=True)
            write_json(out / TRAIN_RECORD, record)
        checkpoint = last_checkpoint(out)
        trainer.train(resume_from_checkpoint=checkpoint)
        save(trainer, recipe, out)
    record["seconds"] = round(time.monotonic() - started, 3)
    history = trainer.state.log_history
    if checkpoint is not None:  # both are then of the steps since that checkpoint alone
        record["resumed_from"] = Path(checkpoint).name
        history = [row for row in history if "train_loss" not in row]
    record["log_history"] = history
    if trainer.is_world_process_zero():
        write_json(out / TRAIN_RECORD, record)
    return out


def _record(recipe: TrainRecipe, verifier: Verifier, *, rollouts: str) -> dict[str, Any]:
    return {
        "recipe": masked(dataclasses.asdict(recipe)),
        "environment": environment(),
        **verifier.described(),
        "rollouts": rollouts,
        "reward": describe_reward(recipe.reward),
    }


def save(trainer: MaxAtKTrainer, recipe: TrainRecipe, out: Path) -> None:
    """Write the trained model to `out`, its tokenizer included; an adapter beside it and in it."""
    if recipe.peft is None:
        trainer.save_model(str(out))
        return
    trainer.save_model(str(out / ADAPTER))
    if trainer.is_world_process_zero():
        model = AutoConfig.from_pretrained(recipe.model)
        merge_adapter(out / ADAPTER, out, dtype=load_dtype(model, trainer.args))
        trainer.processing_class.save_pretrained(out)


def last_checkpoint(out: Path) -> str | None:
    """Return the newest complete checkpoint of a folder, or None.

    The state of the trainer is what is written last: a checkpoint without it, or with half of it,
    was cut off by a kill.
    """
    folders = out.glob(f"{PREFIX_CHECKPOINT_DIR}-*")
    steps = {int(f.name.rpartition("-")[2]): f for f in folders if f.name[-1].isdigit()}
    for step in sorted(steps, reverse=True):
        try:
            json.loads((steps[step] / "trainer_state.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        return str(steps[step])
    return None


def to_dataset(
    problems: list[Problem], *, chat: bool, prompt: PromptSettings | None = None
) -> Dataset:
    """Return the problems as TRL reads them: a prompt and the columns of the reward function.

    With `chat` a prompt is one turn of the user, after those of `prompt`. TRL puts them into the
    model's chat template, as sampling for evaluation does. Without it is the text as it stands.
    The fields of `meta` are columns too.
    """
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
    for name in ("output_dir", "disable_tqdm"):
        if name in recipe.trainer:
            raise InvalidValueError(f"trainer.{name}: is set by the run itself; leave it out")
    settings = {**recipe.trainer, "output_dir": recipe.out, "disable_tqdm": True}
    if recipe.prompt.template_arguments:
        if "chat_template_kwargs" in recipe.trainer:
            raise InvalidValueError(
                "trainer.chat_template_kwargs: is prompt.template_arguments; leave it out"
            )
        settings["chat_template_kwargs"] = dict(recipe.prompt.template_arguments)
    try:
        return from_mapping(MaxAtKConfig, settings, where="trainer")
    except MaxAtKError:
        raise
    except ValueError as error:  # of TRL or transformers, about a value that only they know
        raise InvalidValueError(f"trainer: {error}") from error


def _finished(out: Path, recipe: TrainRecipe) -> bool:
    record = out / TRAIN_RECORD
    if not record.is_file():
        return False
    found = read_json(record)
    if "log_history" not in found and last_checkpoint(out) is None:
        return False  # nothing of that training was kept, so that any other may take its place
    refuse_other_settings(out, found["recipe"], dataclasses.asdict(recipe))
    return "log_history" in found  # written when the training ends


class _Progress(TrainerCallback):
    """Report optimizer steps to a plain function."""

    def __init__(self, progress: Callable[[int, int], None]) -> None:
        self._progress = progress

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        self._progress(state.global_step, state.max_steps)
