"""Attention of one token a row to the row's own tokens and to a prompt that rows share.

Importing this module makes it known to transformers, under `NAME`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from transformers import AttentionInterface

from maxatk.sampling.prompt_states import SharedStates, width_of

NAME = "maxatk_rows"
_UNKNOWN = ("sliding_window", "softcap", "s_aux", "position_bias")  # arguments of attention


class Attending(Protocol):
    """What keeps the tokens of all rows: a `Decoder`."""

    def attend(
        self,
        layer: int,
        query: torch.Tensor,
        states: tuple[torch.Tensor, torch.Tensor],
        mask: torch.Tensor,
    ) -> torch.Tensor:
        """Return the attention (R, H * G, D) of scaled queries (R, H, G, D) in one layer."""


def attention(
    query: torch.Tensor,
    own: tuple[torch.Tensor, torch.Tensor],
    mask: torch.Tensor,
    shared: Sequence[SharedStates],
    *,
    layer: int,
) -> torch.Tensor:
    """Return the attention (R, H, G, D) of scaled queries to prompts and to the rows' own tokens.

    `own` are the keys and values (R, H, L, D) of the rows' tokens, `mask` (R, 1, 1, L) is -inf
    where a row has none. One softmax goes over both; rows without a shared prompt see -inf there.
    """
    keys, values = own
    scores = torch.matmul(query, keys.transpose(-1, -2)).float() + mask
    width = width_of(shared)
    if width:
        prompt_scores = scores.new_full((*scores.shape[:-1], width), -torch.inf)
        for part in shared:
            prompt_keys = part.states[2 * layer].transpose(-1, -2)
            part_scores = part.product(query, prompt_keys).float()
            if part.mask is not None:
                part_scores = part_scores + part.mask
            prompt_scores[part.rows, ..., : part_scores.shape[-1]] = part_scores
        scores = torch.cat([prompt_scores, scores], dim=-1)
    weights = torch.softmax(scores, dim=-1).to(query.dtype)
    output = torch.matmul(weights[..., width:], values)
    for part in shared:
        prompt_values = part.states[2 * layer + 1]
        prompt_weights = weights[..., : prompt_values.shape[2]]
        output[part.rows] += part.product(prompt_weights, prompt_values)
    return output


def _for_transformers(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor,
    *,
    scaling: float | None = None,
    maxatk_decoder: Attending,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attend as transformers asks for it: query (R, H * G, 1, D), key and value (R, H, 1, D)."""
    for name in _UNKNOWN:
        if options.get(name) is not None:
            raise ValueError(f"{name}: this attention does not have it")  # seen by `supports`
    rows, heads, _one_token, size = query.shape
    by_key_head = query.reshape(rows, key.shape[1], heads // key.shape[1], size)
    scaled = by_key_head * (size**-0.5 if scaling is None else scaling)
    output = maxatk_decoder.attend(module.layer_idx, scaled, (key, value), attention_mask)
    return output[:, None], None


AttentionInterface.register(NAME, _for_transformers)
