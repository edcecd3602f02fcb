"""An estimate of the memory of one training process, from the model's config alone."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PretrainedConfig

from maxatk.train.config import MaxAtKConfig
from maxatk.train.lag import copies

# Values kept for the backward pass, per token and hidden unit of a layer, without the attention
# scores: 34 bytes at 2 bytes each (Korthikanti et al. 2022, table 2).
_KEPT = 17
# Bytes of optimizer state for a trained parameter of 4 bytes; every other optimizer: Adam's.
_STATE = {"sgd": 0, "adafactor": 0, "adamw_8bit": 2, "adamw_bnb_8bit": 2, "paged_adamw_8bit": 2}


@dataclasses.dataclass(frozen=True)
class Memory:
    """Bytes of one process that holds everything, nothing sharded; `total` is the peak.

    Training and generation take turns: the peak holds the larger of the two. Not counted: the
    attention scores, vLLM's share, temporary copies, fragmentation and the framework itself
    (0.5 GiB or more on a GPU).
    """

    parameters: int
    trained_parameters: int
    tokens_a_sequence: int
    weights: int
    gradients: int
    optimizer: int
    reference: int
    lagged: int
    activations: int
    logits: int
    cache: int

    @property
    def total(self) -> int:
        """Return the estimated peak in bytes."""
        kept = self.weights + self.gradients + self.optimizer + self.reference + self.lagged
        return kept + max(self.activations + self.logits, self.cache)


def estimate(
    model: PretrainedConfig, config: MaxAtKConfig, *, adapter: Any, prompt_tokens: int
) -> Memory:
    """Return the memory for a model of this config; `prompt_tokens` is the longest prompt.

    `adapter` is a `peft.LoraConfig` or None. The model is built without storage to be counted.
    """
    count, trained = _parameters(model, adapter)
    width = load_dtype(model, config).itemsize
    trained_width = 4 if adapter is not None else width  # peft keeps adapters in float32
    computed = 2 if config.bf16 or config.fp16 else width
    text = model.get_text_config()
    tokens = prompt_tokens + config.max_completion_length
    rows = config.per_device_train_batch_size
    unit = rows * tokens * text.hidden_size * computed
    layers = text.num_hidden_layers
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    head = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    a_token = 2 * layers * heads * head * width
    state = _STATE.get(_optimizer(config), 8) * trained_width // 4
    held = copies(lag=config.rollout_lag, every=config.steps_per_rollout_batch)
    checkpointed = unit * (layers + _KEPT)
    logits = 0 if config.use_liger_kernel else 2 * 4 * text.vocab_size  # float32, and gradient
    return Memory(
        parameters=count,
        trained_parameters=trained,
        tokens_a_sequence=tokens,
        weights=count * width + (trained * 4 if adapter is not None else 0),
        gradients=trained * trained_width,
        optimizer=trained * state,
        reference=count * width if config.beta and adapter is None else 0,
        lagged=held * trained * trained_width,
        activations=checkpointed if config.checkpoints_activations else unit * layers * _KEPT,
        logits=rows * config.max_completion_length * logits,
        cache=0 if config.use_vllm else rows * config.steps_per_generation * tokens * a_token,
    )


def load_dtype(model: PretrainedConfig, config: MaxAtKConfig) -> torch.dtype:
    """Return the type that TRL loads the weights in: float32 unless `model_init_kwargs` says."""
    named = (config.model_init_kwargs or {}).get("dtype", "float32")
    if named == "auto":
        named = model.dtype or "float32"
    dtype = named if isinstance(named, torch.dtype) else getattr(torch, str(named), None)
    return dtype if isinstance(dtype, torch.dtype) else torch.float32


def _parameters(model: PretrainedConfig, adapter: Any) -> tuple[int, int]:
    """Return how many parameters the model has, and how many of all are trained."""
    with torch.device("meta"):
        built = AutoModelForCausalLM.from_config(model)
        count = sum(weight.numel() for weight in built.parameters())
        if adapter is None:
            return count, count
        from peft import get_peft_model

        adapted = get_peft_model(built, copy.deepcopy(adapter))
    return count, sum(w.numel() for w in adapted.parameters() if w.requires_grad)


def _optimizer(config: MaxAtKConfig) -> str:
    return str(getattr(config.optim, "value", config.optim))
