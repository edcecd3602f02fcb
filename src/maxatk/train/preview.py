"""What a run would do, checked and counted without loading weights."""

from __future__ import annotations

import dataclasses
import math
import os
from typing import Any

from maxatk.errors import InvalidValueError, MissingFileError
from maxatk.models import load_tokenizer, refuse_missing_folder, why_missing
from maxatk.problems import BENCHMARKS, load_problems
from maxatk.records import Problem
from maxatk.rewards.reward import trial
from maxatk.train.config import MaxAtKConfig
from maxatk.train.environments import check_reset, prepare_tokenizer
from maxatk.train.folder import check_plan, out_folder
from maxatk.train.launch import process_count
from maxatk.train.loading_checks import config_to_train
from maxatk.train.recipe import TrainRecipe
from maxatk.train.run import load_functions, longest_prompt, to_dataset
from maxatk.train.start_checks import check_model, check_prompts, checked_start
from maxatk.verifier.completion_jobs import ENVIRONMENTS


@dataclasses.dataclass(frozen=True)
class Preview:
    """A recipe that holds: its arithmetic and its settings."""

    recipe: TrainRecipe
    plan: dict[str, Any]  # of `plan`
    unchecked: str  # what could not be asked of the model
    prompt_tokens: int | None  # of the longest, None where problems or tokenizer are not here
    rewards: dict[str, list[float | str | None]]  # of own functions, for three completions


def plan(config: MaxAtKConfig, *, problems: int | None) -> dict[str, Any]:
    """Return how much a run with these settings does on so many problems, in all processes.

    What problems decide is None where they are unknown. Raises InvalidValueError where they are
    fewer than one rollout batch needs, or unknown while `max_steps` is not given.
    """
    completions = config.generation_batch_size  # of a rollout batch
    group_size = config.num_generations
    prompts = completions // group_size
    # Of a process, from one rollout batch to the next.
    micro_batches_of_rollout_batch = config.steps_per_generation * config.num_iterations
    micro_batches_of_step = config.gradient_accumulation_steps
    if problems is not None:
        check_prompts(config, problems, called="problems")
        micro_batches_of_epoch = problems // prompts * micro_batches_of_rollout_batch
    elif config.max_steps > 0:
        # Nobody knows where an epoch ends, so that the whole run counts as one.
        micro_batches_of_epoch = config.max_steps * micro_batches_of_step
    else:
        raise InvalidValueError(
            "max_steps: must be given where the number of problems is not known before they "
            "are loaded; or name a local problems.jsonl"
        )
    steps_of_epoch = math.ceil(micro_batches_of_epoch / micro_batches_of_step)
    steps = config.max_steps
    if steps <= 0:
        steps = math.ceil(config.num_train_epochs * steps_of_epoch)
    full_epochs, steps_of_last_epoch = divmod(steps, steps_of_epoch)
    # The last step of an epoch may have fewer micro-batches than the others.
    micro_batches_of_last_epoch = min(
        steps_of_last_epoch * micro_batches_of_step, micro_batches_of_epoch
    )
    # An epoch ends a rollout batch, however much of it was reused.
    rollout_batches_of_epoch = math.ceil(micro_batches_of_epoch / micro_batches_of_rollout_batch)
    rollout_batches = full_epochs * rollout_batches_of_epoch + math.ceil(
        micro_batches_of_last_epoch / micro_batches_of_rollout_batch
    )
    return {
        "processes": process_count(),
        "problems": problems,
        "group_size": group_size,
        "prompts_per_rollout_batch": prompts,
        "completions_per_rollout_batch": completions,
        "micro_batch": config.per_device_train_batch_size,
        "steps_per_rollout_batch": micro_batches_of_rollout_batch / micro_batches_of_step,
        "epochs": None if problems is None else steps / steps_of_epoch,
        "rollout_batches": rollout_batches,
        "optimizer_steps": steps,
        "completions": rollout_batches * completions,
        "extra_pass_for_ratios": config.extra_pass_for_ratios,
    }


def preview(recipe: TrainRecipe) -> Preview:
    """Return what `train` would do with a recipe, without weights; raises as `train`.

    The same training may be under way in the folder.
    """
    check_plan(out_folder(recipe, "train"), recipe)
    config, adapter = checked_start(recipe)
    refuse_missing_folder(recipe.model)
    problems = None if recipe.problems in BENCHMARKS else load_problems(recipe.problems)
    arithmetic = plan(config, problems=None if problems is None else len(problems))
    longest: int | None = None
    unchecked = ""
    tokenizer = None
    try:
        reason = None if os.path.isdir(recipe.model) else why_missing(recipe.model)
        if reason is not None:
            raise OSError(reason)
        model = config_to_train(config, recipe.model, adapter)
        check_model(config, model, recipe.model)
        if problems is not None:
            tokenizer = load_tokenizer(recipe.model, prompt=recipe.prompt)
            prepare_tokenizer(tokenizer, recipe.environment, recipe.tools)
            longest = longest_prompt(problems, tokenizer, recipe, config, model)
    except OSError as error:
        if os.path.isdir(recipe.model):
            raise MissingFileError(f"model: {recipe.model!r}: {error}") from error
        unchecked = f"the hub does not give the config of {recipe.model!r} here"
    rewards = _tried(recipe, config, problems, tokenizer)
    return Preview(recipe, arithmetic, unchecked, longest, rewards)


def _tried(
    recipe: TrainRecipe, config: MaxAtKConfig, problems: list[Problem] | None, tokenizer: Any
) -> dict[str, list[float | str | None]]:
    """Check the packages, functions and columns of the reward, and call own functions once.

    The tokenizer is None where it is not here.
    """
    chat = tokenizer is not None and tokenizer.chat_template is not None
    with dataclasses.replace(recipe.verifier, workers=1).open() as verifier:
        rewards, environment, _ = load_functions(recipe, config, verifier=verifier)
        if not problems:
            return {}
        for reward in rewards:
            reward.check(problems)
    three, texts = trial(problems)
    completions = [[{"role": "assistant", "content": text}] if chat else text for text in texts]
    columns = to_dataset(three, chat=chat, prompt=recipe.prompt).to_dict()
    check_reset(environment, columns)
    if environment is not None:
        environments = [environment() for _ in three]
        for place, environment_of_row in enumerate(environments):
            environment_of_row.reset(**{name: column[place] for name, column in columns.items()})
        columns[ENVIRONMENTS] = environments
    prompts = columns.pop("prompt")
    values_by_name: dict[str, list[float | str | None]] = {}
    for reward in rewards:
        values_by_name |= reward.try_out(prompts, completions, columns)
    return values_by_name
