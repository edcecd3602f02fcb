"""One training run from a recipe: model and problems in, a trained model folder out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from datasets import Dataset

from maxatk.errors import DataError
from maxatk.models import (
    PromptSettings,
    load_tokenizer,
    prompt_ids,
    quiet_libraries,
    refuse_missing_model,
)
from maxatk.problems import load_problems
from maxatk.records import Problem
from maxatk.rewards import Reward, load_rewards
from maxatk.rewards.reward import columns_of
from maxatk.rewards.specification import describe_reward
from maxatk.sampling.backend import check_lengths
from maxatk.train.config import MaxAtKConfig
from maxatk.train.environments import (
    Factory,
    Tools,
    check_reset,
    check_tools,
    load_environment,
    load_tools,
    prepare_tokenizer,
)
from maxatk.train.fit import fit
from maxatk.train.folder import alone_in, has_finished, out_folder, refuse_to_go_on
from maxatk.train.loading_checks import config_to_train
from maxatk.train.recipe import TrainRecipe
from maxatk.train.reporter import Reporter
from maxatk.train.signal_groups import refuse_unknown_part
from maxatk.train.start_checks import check_prompts, checked_start, refuse_closed_hub
from maxatk.train.trainer import MaxAtKTrainer
from maxatk.verifier import Verifier
from maxatk.verifier.completion_jobs import ENVIRONMENTS


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
    folder.check_content()
    refuse_to_go_on(out, recipe)
    if has_finished(out, recipe):
        return out
    folder.check()
    config, adapter = checked_start(recipe)
    refuse_missing_model(recipe.model)
    refuse_closed_hub(config)
    problems = load_problems(recipe.problems)
    check_prompts(config, len(problems), called="problems")
    tokenizer = load_tokenizer(recipe.model, prompt=recipe.prompt)
    tokenizer.padding_side = tokenizer.truncation_side = "left"  # as TRL loads one by itself
    prepare_tokenizer(tokenizer, recipe.environment, recipe.tools)
    model = config_to_train(config, recipe.model, adapter)
    longest_prompt(problems, tokenizer, recipe, config, model)
    chat = tokenizer.chat_template is not None
    opening = recipe.verifier.open() if verifier is None else contextlib.nullcontext(verifier)
    with opening as opened, quiet_libraries(), contextlib.ExitStack() as held:
        rewards, environment, tools = load_functions(recipe, config, verifier=opened)
        for reward in rewards:
            reward.check(problems)
        dataset = to_dataset(problems, chat=chat, prompt=recipe.prompt)
        check_reset(environment, dataset.column_names)
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
        conditions = {
            "isolation": dict(opened.isolation),
            "rollouts": trainer.rollouts,
            "reward": describe_reward(recipe.reward),
        }
        fit(trainer, recipe, out, conditions=conditions)
    return out


def longest_prompt(
    problems: Sequence[Problem],
    tokenizer: Any,
    recipe: TrainRecipe,
    config: MaxAtKConfig,
    model: Any,
) -> int:
    """Return the tokens of the longest prompt.

    Raises InvalidValueError where the context of the model, by its config, does not hold a prompt
    and a completion: some models fail there while they sample, others answer with noise.
    """
    context = getattr(model.get_text_config(), "max_position_embeddings", None)
    completion = config.max_completion_length
    return check_lengths(
        {problem.id: problem.prompt for problem in problems},
        lambda prompt: prompt_ids(tokenizer, prompt, recipe.prompt),
        completion or 0,
        None if completion is None else context,
        called="trainer.max_completion_length",
    )


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
    tools = load_tools(recipe.tools)
    check_tools(environment, tools)
    return Functions(rewards, environment, tools)


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
