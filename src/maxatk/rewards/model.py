"""A reward model: a classifier with one output, through transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maxatk.errors import InvalidValueError, MissingDependencyError
from maxatk.models import refuse_missing_model

_BATCH = 16


class ModelReward:
    """A reward function in TRL's shape: the output of a reward model on prompt and completion.

    `model` is a hub name or a local folder of a sequence classifier with one label, loaded at the
    first call. Text goes in as prompt + completion, messages through the model's chat template.

    Raises MissingFileError for a folder that does not exist; its first call MissingDependencyError
    without transformers, InvalidValueError for a model with other outputs.
    """

    def __init__(self, model: str) -> None:
        refuse_missing_model(model)
        self._name = model
        self._loaded: tuple[Any, Any] | None = None

    def __call__(
        self, prompts: Sequence[Any] = (), completions: Sequence[Any] = (), **_unused: Any
    ) -> list[float | None]:
        """Return one number a completion, in the unit of the model's output."""
        model, tokenizer = self._loaded = self._loaded or _load(self._name)
        import torch

        texts = [_text(p, c, tokenizer) for p, c in zip(prompts, completions, strict=True)]
        found: list[float | None] = []
        for start in range(0, len(texts), _BATCH):
            batch = texts[start : start + _BATCH]
            inputs = tokenizer(batch, return_tensors="pt", padding=True).to(model.device)
            with torch.inference_mode():
                found += model(**inputs).logits[:, 0].float().tolist()
        return found


def _load(name: str) -> tuple[Any, Any]:
    try:
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer
    except ImportError as error:
        raise MissingDependencyError(
            "a reward model needs torch and transformers: pip install 'maxatk[eval]'"
        ) from error
    model = AutoModelForSequenceClassification.from_pretrained(name)
    if model.config.num_labels != 1:
        raise InvalidValueError(
            f"reward.model: {name!r} has {model.config.num_labels} outputs; a reward model has one"
        )
    tokenizer = AutoTokenizer.from_pretrained(name)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    model.config.pad_token_id = tokenizer.pad_token_id
    return model.to("cuda" if torch.cuda.is_available() else "cpu").eval(), tokenizer


def _text(prompt: Any, completion: Any, tokenizer: Any) -> str:
    if isinstance(prompt, str) and isinstance(completion, str):
        return prompt + completion
    messages = [*_messages(prompt, "user"), *_messages(completion, "assistant")]
    text: str = tokenizer.apply_chat_template(messages, tokenize=False)
    return text


def _messages(value: Any, role: str) -> list[Any]:
    return [{"role": role, "content": value}] if isinstance(value, str) else list(value)
