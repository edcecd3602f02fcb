"""Log-probabilities of completions with every different prompt evaluated once.

The samples of a group have one prompt. The ordinary forward pass computes it once a sample; here
its key-value cache is computed once, with its gradient, and given to all samples that follow it.
The result is the same up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

# What a forward pass may get besides token ids; images and the like belong to whole prompts.
_PASSED_ON = {"fused_lm_head", "logits_to_keep", "use_cache"}


class SharedPrompts:
    """A model to be called once for a batch: prompts first, then all that follows them.

    `model` is what TRL would call, `unwrapped` the same without what accelerate put around it, and
    `completion_length` the number of columns of a batch that belong to completions. The output has
    the positions from the last one of the prompt on, which is what TRL keeps of it.
    """

    def __init__(
        self, model: Callable[..., Any], unwrapped: Callable[..., Any], completion_length: int
    ) -> None:
        self._model, self._unwrapped = model, unwrapped
        self._kept = completion_length + 1  # the last token of a prompt predicts the first one

    def __call__(
        self,
        *,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        labels: torch.Tensor | None = None,
        **more: Any,
    ) -> Any:
        """Return the model's output for token ids (rows, columns), prompts padded on the left."""
        prefix = input_ids.size(1) - self._kept
        if prefix < 1 or not more.keys() <= _PASSED_ON:
            return self._whole(input_ids, attention_mask, labels, **more)
        heads = torch.cat([input_ids[:, :prefix], attention_mask[:, :prefix]], dim=1)
        different, rows = torch.unique(heads, dim=0, return_inverse=True)
        if len(different) == len(heads):
            return self._whole(input_ids, attention_mask, labels, **more)
        cache = self._unwrapped(
            input_ids=different[:, :prefix],
            attention_mask=different[:, prefix:],
            use_cache=True,
            logits_to_keep=1,
        ).past_key_values
        cache.batch_select_indices(rows)
        more["past_key_values"] = cache
        rest = None if labels is None else labels[:, prefix:]
        return self._whole(input_ids[:, prefix:], attention_mask, rest, **more)

    def _whole(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        labels: torch.Tensor | None,
        **more: Any,
    ) -> Any:
        if labels is not None:
            more["labels"] = labels
        return self._model(input_ids=input_ids, attention_mask=attention_mask, **more)
