"""An adapter of peft, tried on the layers of a model without its weights."""

from __future__ import annotations

import contextlib
import copy
import warnings
from typing import Any

import torch
import transformers
from transformers import PretrainedConfig

from maxatk.errors import InvalidValueError


def architecture_of(model: PretrainedConfig) -> Any:
    """Return the class that transformers has for the model of a config, None where it has none."""
    names = getattr(model, "architectures", None) or [""]
    return getattr(transformers, names[0], None)


def check_adapter(adapter: Any, model: PretrainedConfig) -> None:
    """Refuse an adapter, if any, that peft does not put on the model of a config.

    peft looks for the layers when the weights are loaded, and a distillation loads them when all
    samples are drawn. Raises InvalidValueError.
    """
    architecture = architecture_of(model)
    # A learned prompt is put on no layer.
    if adapter is None or architecture is None or adapter.is_prompt_learning:
        return
    from peft import inject_adapter_in_model

    tried = copy.deepcopy(adapter)
    if hasattr(tried, "init_lora_weights"):
        tried.init_lora_weights = False  # some of them are made of the model's weights
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the training says them too
        # RuntimeError: what needs weights, which says nothing about the adapter.
        with contextlib.suppress(RuntimeError):
            try:
                inject_adapter_in_model(tried, architecture(copy.deepcopy(model)))
            except ValueError as error:
                raise InvalidValueError(f"peft: {error}") from error
