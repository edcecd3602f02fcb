"""What a trainer of TRL is given beside its settings, checked before any weights are loaded.

TRL's trainer loads the model first and looks at its other arguments afterwards. What the weights
are not needed for is refused here, so that nobody waits for a model that cannot be trained.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence, Sized
from pathlib import Path
from typing import Any

from datasets import Dataset, IterableDataset, Value
from torch import nn
from transformers import PreTrainedTokenizerBase, ProcessorMixin

from maxatk.check import require
from maxatk.errors import InvalidValueError, counted
from maxatk.train import own_rollout_checks
from maxatk.train.chat_templates import is_transformed, refuse_without_template
from maxatk.train.config import MaxAtKConfig
from maxatk.train.loading_checks import config_to_train
from maxatk.train.reward_arguments import check_calls, check_rewards
from maxatk.train.signal_groups import refuse_irreplaceable
from maxatk.train.start_checks import check_model, check_prompts
from maxatk.training.group_log import GROUPS, refuse_other_file
from maxatk.verifier.completion_jobs import ENVIRONMENTS

_READERS = (PreTrainedTokenizerBase, ProcessorMixin)


def by_name(constructor: Callable[..., None], *positional: Any, **others: Any) -> Mapping[str, Any]:
    """Return arguments of a trainer's `__init__` by their names, also those without one."""
    trainer = None  # in place of `self`
    return inspect.signature(constructor).bind(trainer, *positional, **others).arguments


def check_arguments(config: MaxAtKConfig, arguments: Mapping[str, Any]) -> None:
    """Refuse arguments of TRL's trainer, by name, that settings or each other do not go with.

    Raises InvalidValueError; what is asked of a model takes its config and no weights.
    """
    environments = arguments.get("environment_factory")
    allowed = "a class, or a function that makes an environment"
    makes_any = environments is None or callable(environments)
    require(makes_any, "environment_factory", allowed, environments)
    dataset = arguments.get("train_dataset")
    if dataset is not None or not environments:  # otherwise the environment has the prompts
        _check_dataset(dataset, called="train_dataset", has_environment=bool(environments))
    if isinstance(dataset, Sized):
        check_prompts(config, len(dataset), called="train_dataset")
    check_rewards(config, arguments.get("reward_funcs"), has_environment=bool(environments))
    check_calls(
        arguments.get("reward_funcs"),
        _columns_for_rewards(config, dataset, arguments),
        called="train_dataset",
    )
    if arguments.get("eval_dataset") is not None:
        _check_evaluation_sets(config, arguments["eval_dataset"], arguments)
    if config.groups_with_signal:
        refuse_irreplaceable(dataset, environments)
    if config.log_groups:
        refuse_other_file(Path(config.output_dir) / GROUPS)
    adapter = arguments.get("peft_config")
    is_adapter = adapter is None or hasattr(adapter, "peft_type")
    require(is_adapter, "peft_config", "a config of peft, such as its LoraConfig", adapter)
    processing = arguments.get("processing_class")
    reads_text = processing is None or isinstance(processing, _READERS)
    require(
        reads_text, "processing_class", "a tokenizer or a processor of transformers", processing
    )
    if config.rollouts == "own":
        own_rollout_checks.refuse_arguments(
            rollout_func=arguments.get("rollout_func"),
            processing_class=processing,
            adapters=[] if adapter is None else [adapter],
        )
    _check_model(config, arguments["model"], adapter)
    dataset_of = {"train_dataset": dataset, **_evaluation_sets(arguments.get("eval_dataset"))}
    refuse_without_template(config, dataset_of, arguments)


def check_evaluation(config: MaxAtKConfig, datasets: Any, arguments: Mapping[str, Any]) -> None:
    """Refuse an evaluation set, or one of several by name, on which an evaluation would fail.

    `arguments` are those of the trainer, by name. Raises InvalidValueError.
    """
    _check_evaluation_sets(config, datasets, arguments)
    refuse_without_template(config, _evaluation_sets(datasets), arguments)


def _evaluation_sets(datasets: Any) -> dict[str, Any]:
    """Return each evaluation set by what it is called in a message."""
    if isinstance(datasets, Mapping):
        return {f"eval_dataset[{name!r}]": dataset for name, dataset in datasets.items()}
    return {"eval_dataset": datasets}


def _check_evaluation_sets(
    config: MaxAtKConfig, datasets: Any, arguments: Mapping[str, Any]
) -> None:
    _check_evaluation_batch(config)
    has_environment = bool(arguments.get("environment_factory"))
    for called, dataset in _evaluation_sets(datasets).items():
        _check_dataset(dataset, called=called, has_environment=has_environment)
        if isinstance(dataset, Sized):
            require(len(dataset) > 0, called, "a set of one prompt or more", dataset)
        columns = _columns_for_rewards(config, dataset, arguments)
        check_calls(arguments.get("reward_funcs"), columns, called=called)


def _check_dataset(dataset: Any, *, called: str, has_environment: bool) -> None:
    is_dataset = isinstance(dataset, (Dataset, IterableDataset))
    allowed = "a Dataset or an IterableDataset of the package datasets"
    require(is_dataset, called, allowed, dataset)
    columns = _columns_of(dataset)
    if not has_environment and columns is not None and "prompt" not in columns:
        raise InvalidValueError(
            f"{called}: has no column 'prompt'; it has {', '.join(columns) or 'none'}"
        )
    if isinstance(dataset, Dataset) and columns is not None and "prompt" in columns:
        _check_prompt_column(dataset, called=called)


def _check_prompt_column(dataset: Dataset, *, called: str) -> None:
    """Refuse prompts that TRL cannot read: other values than texts or lists of messages, and None.

    The kind of a column is known, and how often it is None: no row is read.
    """
    kind = dataset.features["prompt"]
    allowed = "texts or lists of messages"
    # Only a column of single values says for sure that it has neither.
    if isinstance(kind, Value) and len(dataset) > 0:
        require("string" in kind.dtype, f"{called}: prompt", allowed, kind.dtype)
    # Rows of a selection are some of the table's: their prompts alone are looked at.
    column = dataset.data.column("prompt")
    if column.null_count:
        absent = [row for row, prompt in enumerate(dataset["prompt"]) if prompt is None]
        rows = f"None in {counted(len(absent), 'row')}, the first of them {absent[:1]}"
        require(not absent, f"{called}: prompt", f"{allowed} in every row", rows)


def _columns_of(dataset: Any) -> Sequence[str] | None:
    """Return the names of the columns; None where nobody knows them before rows are read."""
    if dataset is None:
        return []
    names: Sequence[str] | None = None if is_transformed(dataset) else dataset.column_names
    return names


def _columns_for_rewards(
    config: MaxAtKConfig, dataset: Any, arguments: Mapping[str, Any]
) -> Sequence[str] | None:
    """Return the columns that reward functions are called with, None where nobody knows them."""
    columns = _columns_of(dataset)
    if columns is None or arguments.get("rollout_func"):  # which may add some
        return None
    if config.remove_unused_columns:  # TRL keeps these alone
        columns = [name for name in columns if name in ("prompt", "image", "images")]
    return [*columns, ENVIRONMENTS] if arguments.get("environment_factory") else columns


def _check_evaluation_batch(config: MaxAtKConfig) -> None:
    """Refuse batches of an evaluation that split groups, which TRL does for one by steps alone."""
    samples = config.num_generations_eval or config.num_generations
    rows = config.per_device_eval_batch_size * config.world_size
    allowed = (
        f"so large that the batch of all processes, {counted(rows, 'completion')}, is a "
        f"multiple of the {samples} samples of a prompt"
    )
    value = config.per_device_eval_batch_size
    require(rows % samples == 0, "per_device_eval_batch_size", allowed, value)


def _check_model(config: MaxAtKConfig, model: Any, adapter: Any) -> None:
    is_model = isinstance(model, (str, nn.Module))
    require(is_model, "model", "a loaded model, or the text that names one", model)
    is_asked = config.share_prompts or config.skip_zero_advantages or config.rollouts == "own"
    if not isinstance(model, str):
        if is_asked:
            check_model(config, model.config, None)
    elif is_asked or adapter is not None or config.model_init_kwargs:
        check_model(config, config_to_train(config, model, adapter), model)
