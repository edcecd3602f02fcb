"""Prompts of messages, which need a tokenizer with a chat template: asked before any weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datasets import Dataset
from transformers import AutoProcessor
from trl.trainer.utils import get_config_model_id

from maxatk.errors import InvalidValueError
from maxatk.train.config import MaxAtKConfig


def refuse_without_template(
    config: MaxAtKConfig, dataset_of: Mapping[str, Any], arguments: Mapping[str, Any]
) -> None:
    """Refuse data sets, by name, whose prompts are messages that no template makes a text of.

    `arguments` are those of TRL's trainer, by name. Raises InvalidValueError, and OSError where
    TRL would find no tokenizer.
    """
    with_messages = [name for name, dataset in dataset_of.items() if _has_messages(dataset)]
    if not with_messages or arguments.get("rollout_func"):  # which reads prompts by itself
        return
    processing = arguments.get("processing_class") or _processing_of(config, arguments["model"])
    if processing.chat_template is None:
        tokenizer = getattr(processing, "tokenizer", processing)  # a processor has no name
        raise InvalidValueError(
            f"{with_messages[0]}: prompt: must be texts with {tokenizer.name_or_path!r}, whose "
            "tokenizer has no chat template, got lists of messages; allowed as well: a "
            "processing_class that has a chat template"
        )


def _has_messages(dataset: Any) -> bool:
    """Return whether the prompts are known to be lists of messages; no row is read."""
    message = getattr(feature_of_prompts(dataset), "feature", None)
    return isinstance(message, Mapping) and "role" in message


def feature_of_prompts(dataset: Any) -> Any:
    """Return what the column `prompt` is known to hold, None where only rows would tell."""
    features = getattr(dataset, "features", None)
    if features is None or is_transformed(dataset):
        return None
    return features.get("prompt")


def is_transformed(dataset: Any) -> bool:
    """Return whether a function makes the rows of a data set, whose columns nobody knows before."""
    return isinstance(dataset, Dataset) and dataset.format["type"] == "custom"


def _processing_of(config: MaxAtKConfig, model: Any) -> Any:
    """Return the tokenizer or processor that TRL would load for a model."""
    name = model
    revision = None
    if isinstance(model, str):
        revision = (config.model_init_kwargs or {}).get("revision")
    else:
        name = get_config_model_id(model.config)
    return AutoProcessor.from_pretrained(
        name, revision=revision, trust_remote_code=config.trust_remote_code
    )
