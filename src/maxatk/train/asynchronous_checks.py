"""What TRL's asynchronous worker needs to sample conversations, asked before any weights.

The worker is a process of its own. It reads the tokenizer and the prompts only when the training
has begun, and what is wrong with them ends it with an error of another library.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from typing import Any

from datasets import Value
from transformers import AutoTokenizer
from trl.chat_template_utils import add_response_schema

from maxatk.check import require
from maxatk.errors import InvalidValueError
from maxatk.train.chat_templates import feature_of_prompts
from maxatk.train.programs import Programs


def check_conversations(config: Any, arguments: Mapping[str, Any]) -> None:
    """Refuse arguments of TRL's trainer, by name, of which its worker makes no conversations.

    Raises InvalidValueError for prompts that are texts, for the environment `Programs`, and for a
    tokenizer without a chat template or without a way to read a reply of it; OSError where TRL
    would find no tokenizer.
    """
    _refuse_texts(arguments.get("train_dataset"))
    _refuse_programs(arguments.get("environment_factory"))
    tokenizer = arguments.get("processing_class") or _tokenizer_of(config, arguments["model"])
    if tokenizer.chat_template is None:
        raise InvalidValueError(
            "processing_class: must be a tokenizer with a chat template, got one without (that of "
            "the model, unless it is given): the worker samples conversations alone"
        )
    if _reads_replies(tokenizer):
        return
    try:
        add_response_schema(copy.deepcopy(tokenizer))  # as the worker does with a copy of its own
    except ValueError as error:
        raise InvalidValueError(
            "processing_class: must be a tokenizer with a response_template, by which replies are "
            f"read, where TRL does not know its chat template: {error}"
        ) from error


def _refuse_texts(dataset: Any) -> None:
    """Refuse a column of prompts that is known to hold texts; no row is read."""
    kind = feature_of_prompts(dataset)
    is_text = isinstance(kind, Value) and "string" in kind.dtype
    allowed = "lists of messages, since the worker samples conversations alone"
    require(not is_text, "train_dataset: prompt", allowed, getattr(kind, "dtype", None))


def _refuse_programs(factory: Any) -> None:
    """Refuse `Programs`, alone or among factories by name.

    The worker hands no environments to reward functions, which would take the last message for the
    program instead of what was submitted.
    """
    allowed = "an environment with `get_reward`: the worker shows reward functions none"
    factories = factory.values() if isinstance(factory, Mapping) else [factory]
    for made_by in factories:
        called = getattr(made_by, "func", made_by)  # of a partial
        is_programs = inspect.isclass(called) and issubclass(called, Programs)
        nobody_judges = is_programs and not hasattr(called, "get_reward")
        require(not nobody_judges, "environment_factory", allowed, called)


def _tokenizer_of(config: Any, model: str) -> Any:
    """Return the tokenizer that TRL would load for a model."""
    revision = (config.model_init_kwargs or {}).get("revision")
    trusted = config.trust_remote_code
    return AutoTokenizer.from_pretrained(model, revision=revision, trust_remote_code=trusted)


def _reads_replies(tokenizer: Any) -> bool:
    """Return whether a tokenizer says itself how a reply is read."""
    names = ("response_template", "response_schema")
    return any(getattr(tokenizer, name, None) is not None for name in names)
