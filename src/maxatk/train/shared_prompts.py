"""Log-probabilities with every different prompt evaluated once, its cache given to all samples."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from transformers import DynamicCache, PretrainedConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from maxatk.check import require
from maxatk.errors import InvalidValueError

# What a forward pass may get besides token ids; images and the like belong to whole prompts.
_PASSED_ON = {"fused_lm_head", "labels", "logits_to_keep", "use_cache"}
# Rotations that depend on the length of the whole sequence: a prompt alone gets other ones.
_ROPE_OF_LENGTH = {"dynamic", "longrope"}
_PLAIN_LAYERS = {"DynamicLayer", "DynamicSlidingWindowLayer"}  # of a cache
# The largest mean difference of log-probabilities, in nats, that is rounding; of others 1e-3.
_ROUNDING = {torch.float16: 0.01, torch.bfloat16: 0.05}


def refuse_unshareable(model: PretrainedConfig) -> None:
    """Raise InvalidValueError for a config of models whose prompts cannot be evaluated apart."""
    text = model.get_text_config(decoder=True)
    allowed = f"False with a {text.model_type} model"
    rope = _rope_of_length(text)
    why = f"whose RoPE is {rope!r}: the length of a completion would move its prompt"
    require(rope is None, "share_prompts", f"{allowed} {why}", True)
    model_class = MODEL_FOR_CAUSAL_LM_MAPPING.get(type(text), None)
    layers = {type(layer).__name__ for layer in DynamicCache(config=text).layers}
    plain = layers <= _PLAIN_LAYERS and not getattr(model_class, "_is_stateful", False)
    why = "of this config, whose cache has more than keys and values"
    require(plain, "share_prompts", f"{allowed} {why}", True)


def _rope_of_length(text: Any) -> str | None:
    """Return the kind of a config's rotation that depends on the whole length, None for none."""
    parameters = getattr(text, "rope_parameters", None) or {}
    # The parameters of all layers, or a mapping of them for each kind of layer.
    for rope in (parameters, *parameters.values()):
        if isinstance(rope, Mapping):
            kind = str(rope.get("rope_type", rope.get("type")))
            if kind in _ROPE_OF_LENGTH:
                return kind
    return None


def refuse_differences(
    shared: torch.Tensor, ordinary: torch.Tensor, mask: torch.Tensor, weights: Iterable[Any] = ()
) -> None:
    """Raise InvalidValueError where log-probabilities (rows, tokens) differ beyond rounding."""
    precisions = {shared.dtype, *weights}
    if torch.is_autocast_enabled(shared.device.type):
        precisions.add(torch.get_autocast_dtype(shared.device.type))
    allowed = max(_ROUNDING.get(dtype, 1e-3) for dtype in precisions)
    apart = (shared - ordinary).abs().float()[mask.bool()]
    if len(apart) and not apart.mean() <= allowed:
        raise InvalidValueError(
            f"share_prompts: True gave other log-probabilities than the ordinary pass on the "
            f"first micro-batch (mean difference {apart.mean():.3g}, largest {apart.max():.3g} "
            f"nats; rounding explains {allowed:g}); allowed with this model: False"
        )


@dataclasses.dataclass
class SharedPrompts:
    """A model to be called once for a batch: prompts first, then all that follows them."""

    model: Callable[..., Any]
    unwrapped: Callable[..., Any]  # without accelerate's wrapper
    completion_length: int  # columns
    used: bool = False  # whether a call has shared a prompt

    def __call__(
        self, *, input_ids: torch.Tensor, attention_mask: torch.Tensor, **more: Any
    ) -> Any:
        """Return the model's output for token ids (rows, columns), prompts padded on the left."""
        # The last token of a prompt predicts the first one of a completion.
        prefix = input_ids.size(1) - self.completion_length - 1
        if prefix >= 1 and more.keys() <= _PASSED_ON:
            cache = self._cache_of(input_ids[:, :prefix], attention_mask[:, :prefix])
            if cache is not None:
                self.used = True
                more["past_key_values"] = cache
                input_ids = input_ids[:, prefix:]
                if more.get("labels") is not None:
                    more["labels"] = more["labels"][:, prefix:]
        return self.model(input_ids=input_ids, attention_mask=attention_mask, **more)

    def _cache_of(self, prompt_ids: torch.Tensor, prompt_mask: torch.Tensor) -> Any:
        """Return the cache of all rows' prompts; None where no two of them are equal."""
        # Padding is in the comparison: prompts are equal where ids and masks are.
        heads = torch.cat([prompt_ids, prompt_mask], dim=1)
        different, head_of_row = torch.unique(heads, dim=0, return_inverse=True)
        if len(different) == len(heads):
            return None
        columns = prompt_ids.size(1)
        cache = self.unwrapped(
            input_ids=different[:, :columns],
            attention_mask=different[:, columns:],
            use_cache=True,
            logits_to_keep=1,
        ).past_key_values
        cache.batch_select_indices(head_of_row)
        return cache


@dataclasses.dataclass
class SharedPasses:
    """TRL's passes for log-probabilities with shared prompts, once `compared` in some `rows`."""

    rows: slice
    compared: bool = False

    def run(
        self, ordinary: Callable[..., Any], unwrapped: Any, model: Any, *arguments: Any, **more: Any
    ) -> Any:
        """Return what TRL's `ordinary` pass returns for these arguments, by shared prompts."""
        input_ids, attention_mask, logits_to_keep, *_ = arguments
        sharing = SharedPrompts(model, unwrapped, logits_to_keep)
        outputs = ordinary(sharing, *arguments, **more)
        if sharing.used and not self.compared:
            shared_logps = outputs[0].detach()[self.rows]
            mask = attention_mask[self.rows]
            length = shared_logps.size(1)
            with torch.no_grad():
                plain_logps = ordinary(model, input_ids[self.rows], mask, length)[0]
            weights = {weight.dtype for weight in model.parameters()}
            refuse_differences(shared_logps, plain_logps, mask[:, -length:], weights=weights)
            self.compared = True
        return outputs
