"""What a trainer of TRL is given beside its settings, checked before any weights are loaded.

TRL's trainer loads the model first and looks at its other arguments afterwards. What the weights
are not needed for is refused here, so that nobody waits for a model that cannot be trained.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence, Sized
from pathlib import Path
from typing import Any

from datasets import Dataset, IterableDataset
from torch import nn
from transformers import AutoConfig
from trl import GRPOTrainer
from trl.trainer.utils import get_callable_name

from maxatk.check import is_finite, require
from maxatk.errors import InvalidValueError, unknown_name
from maxatk.train import own_rollouts
from maxatk.train.config import MaxAtKConfig, check_model, check_prompts
from maxatk.train.rollout_batch import refuse_best_of
from maxatk.train.signal_groups import refuse_irreplaceable, refuse_unknown_part
from maxatk.training.group_log import GROUPS, refuse_other_file


def by_name(*given: Any, **others: Any) -> Mapping[str, Any]:
    """Return arguments of TRL's GRPOTrainer by their names, also those without one."""
    trainer = None  # in place of `self`
    return inspect.signature(GRPOTrainer.__init__).bind(trainer, *given, **others).arguments


def check_arguments(config: MaxAtKConfig, arguments: Mapping[str, Any]) -> None:
    """Refuse arguments of TRL's trainer, by name, that settings or each other do not go with.

    An environment may bring a reward function of its own, which nobody knows before the trainer has
    made one: with an environment the names and the number of rewards are left to the trainer.

    Raises InvalidValueError; what is asked of a model takes its config and no weights.
    """
    environments = arguments.get("environment_factory")
    dataset = arguments.get("train_dataset")
    _check_dataset(config, dataset, has_environment=bool(environments))
    if arguments.get("eval_dataset") is not None:
        _check_evaluation(config)
    functions = as_functions(arguments.get("reward_funcs"))
    refuse_best_of(functions)
    _check_weights(config.reward_weights, len(functions))
    if not environments:
        _check_rewards(config, functions)
    if config.groups_with_signal:
        refuse_irreplaceable(dataset, environments)
    if config.log_groups:
        refuse_other_file(Path(config.output_dir) / GROUPS)
    if config.rollouts == "own":
        adapter = arguments.get("peft_config")
        own_rollouts.refuse_arguments(
            rollout_func=arguments.get("rollout_func"),
            processing_class=arguments.get("processing_class"),
            adapters=[] if adapter is None else [adapter],
        )
    _check_model(config, arguments["model"])


def as_functions(reward_funcs: Any) -> list[Any]:
    """Return the reward functions of TRL's argument, which is one, a list or None."""
    if reward_funcs is None:
        return []
    return reward_funcs if isinstance(reward_funcs, list) else [reward_funcs]


def place_of_selection(selection: str | None, names: Sequence[str]) -> int | None:
    """Return the place of the reward function that selects among their names; None for none."""
    if selection is None:
        return None
    if selection not in names:
        raise unknown_name("selection", selection, names)
    allowed = "one of several reward functions, whose others are the reward"
    require(len(names) > 1, "selection", allowed, selection)
    require(names.count(selection) == 1, "selection", "the name of one function alone", selection)
    return names.index(selection)


def _check_dataset(config: MaxAtKConfig, dataset: Any, *, has_environment: bool) -> None:
    if has_environment and dataset is None:  # the environment has the prompts
        return
    is_dataset = isinstance(dataset, (Dataset, IterableDataset))
    allowed = "a Dataset or an IterableDataset of the package datasets"
    require(is_dataset, "train_dataset", allowed, dataset)
    columns = dataset.column_names  # None of a stream that nobody has looked into
    if not has_environment and columns is not None and "prompt" not in columns:
        raise InvalidValueError(
            f"train_dataset: has no column 'prompt'; it has {', '.join(columns) or 'none'}"
        )
    if isinstance(dataset, Sized):
        check_prompts(config, len(dataset), called="train_dataset")


def _check_evaluation(config: MaxAtKConfig) -> None:
    """Refuse batches of an evaluation that split groups, which TRL does for one by steps alone."""
    samples = config.num_generations_eval or config.num_generations
    rows = config.per_device_eval_batch_size * config.world_size
    allowed = (
        f"so large that the batch of all {config.world_size} processes, {rows} completions, is a "
        f"multiple of the {samples} samples of a prompt"
    )
    value = config.per_device_eval_batch_size
    require(rows % samples == 0, "per_device_eval_batch_size", allowed, value)


def _check_rewards(config: MaxAtKConfig, functions: Sequence[Any]) -> None:
    allowed = "a reward function, or several, unless an environment has get_reward"
    require(bool(functions), "reward_funcs", allowed, None)
    names = [_name_of(function) for function in functions]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        warnings.warn(
            f"reward_funcs: several are called {twice[0]!r}, by which the log and the record know "
            "them: they show a mean of them, or one of them; give each a name of its own",
            stacklevel=5,
        )
    place_of_selection(config.selection, names)
    refuse_unknown_part(config.groups_with_signal, functions, names)


def _check_weights(weights: Sequence[float] | None, functions: int) -> None:
    if weights is None:
        return
    one_each = len(weights) == functions and all(map(is_finite, weights))
    allowed = f"{functions} finite numbers, one a reward function"
    require(one_each, "reward_weights", allowed, weights)


def _name_of(function: Any) -> str:
    """Return what TRL calls a reward function: a model by the end of its name."""
    if isinstance(function, str):
        return function.split("/")[-1]
    if isinstance(function, nn.Module):
        model_id: str = getattr(function.config, "_name_or_path", "")
        return model_id.split("/")[-1]
    name: str = get_callable_name(function)
    return name


def _check_model(config: MaxAtKConfig, model: Any) -> None:
    is_model = isinstance(model, (str, nn.Module))
    require(is_model, "model", "a loaded model, or the text that names one", model)
    if not (config.share_prompts or config.skip_zero_advantages or config.rollouts == "own"):
        return  # no setting asks anything of it
    if not isinstance(model, str):
        check_model(config, model.config, None)
        return
    options = {"trust_remote_code": config.trust_remote_code, **(config.model_init_kwargs or {})}
    of_config = {name: options.get(name) for name in ("revision", "trust_remote_code")}
    check_model(config, AutoConfig.from_pretrained(model, **of_config), model)
