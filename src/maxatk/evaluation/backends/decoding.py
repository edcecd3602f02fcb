"""One step of a batch whose rows may belong to different prompts: caches and attention.

Rows of one prompt attend to its keys and values where they lie: they are stored once, and the
queries of all rows and of the heads of a group are one matrix product. A row's own tokens are kept
in buffers that are written in place, at a position of the row's own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from transformers import AttentionInterface, Cache

NAME = "maxatk_rows"  # of the attention below, among those of transformers
_ALIGN = 16  # sums over positions keep their order, so their rounding, where lengths are multiples
SHARED_FROM = 4  # samples of a prompt from which its keys are kept once and not in every row
_FEWEST = 4  # rows of a product; fewer ones are rounded in another way on CPUs
_GROWTH = 64  # positions
_UNKNOWN = ("sliding_window", "softcap", "s_aux", "position_bias")  # arguments of attention


@dataclasses.dataclass(eq=False)
class Prompt:
    """A prompt that has been evaluated: (H, L, D) keys and values a layer, and (V,) logits."""

    keys: list[torch.Tensor]
    values: list[torch.Tensor]
    logits: torch.Tensor
    shared: bool

    @property
    def length(self) -> int:
        """Return the number of tokens."""
        return int(self.keys[0].shape[1])


@dataclasses.dataclass
class _Group:
    """The rows of one shared prompt; few ones are repeated, see `_FEWEST`."""

    prompt: Prompt
    rows: torch.Tensor
    count: int


@dataclasses.dataclass(frozen=True)
class _Step:
    """What the attention of one step needs: rows 0 to R - 1 and the place of their new token."""

    decoder: Decoder
    rows: torch.Tensor
    positions: torch.Tensor


class Decoder(Cache):  # type: ignore[misc]
    """The batch of a model: rows that are admitted, advanced and dropped.

    For decoder-only models of transformers with full attention in every layer, see `supports`.

    Args:
        model: The model.
        rows: The most rows that will be under way at a time.
    """

    fewest = _FEWEST  # rows of a batch
    refills = True  # rows may be admitted while others are under way

    def __init__(self, model: Any, *, rows: int) -> None:
        super().__init__(layers=[])
        self.model = model
        self._most = max(rows, self.fewest)
        config = model.config.get_text_config()
        self._config, self._layers = config, config.num_hidden_layers
        self._keys: list[torch.Tensor] = []
        self._values: list[torch.Tensor] = []
        self._width = 0
        self._prompts: list[Prompt | None] = []  # of every row
        self._lengths: list[int] = []  # own positions of every row
        self._groups: list[_Group] = []
        self._regroup = True

    def evaluate(self, prompts: Sequence[Sequence[int]], *, shared: bool) -> list[Prompt]:
        """Evaluate prompts (their ids) in one pass; causal attention ignores the filling behind."""
        device = self.model.device
        longest = max(map(len, prompts))
        ids = torch.zeros((len(prompts), longest), dtype=torch.long)
        for row, prompt in enumerate(prompts):
            ids[row, : len(prompt)] = torch.tensor(prompt)
        ends = [len(prompt) - 1 for prompt in prompts]
        output = self.model(
            input_ids=ids.to(device),
            use_cache=True,
            logits_to_keep=torch.tensor(ends, device=device),
        )
        layers = output.past_key_values.layers
        return [
            Prompt(
                keys=[layer.keys[row, :, : end + 1].clone() for layer in layers],
                values=[layer.values[row, :, : end + 1].clone() for layer in layers],
                logits=output.logits[row, row].clone(),
                shared=shared,
            )
            for row, end in enumerate(ends)
        ]

    def admit(self, rows: Sequence[int], prompt: Prompt) -> None:
        """Let rows begin after a prompt; a row beyond the width widens the batch."""
        self._widen(max(self.fewest, max(rows) + 1), prompt)
        for row in rows:
            self._prompts[row] = prompt
            self._lengths[row] = 0 if prompt.shared else prompt.length
        self._regroup = True
        if not prompt.shared:
            self._reserve(prompt.length + 1)
            chosen = torch.tensor(rows, device=prompt.logits.device)
            for layer in range(self._layers):
                self._keys[layer][chosen, :, : prompt.length] = prompt.keys[layer]
                self._values[layer][chosen, :, : prompt.length] = prompt.values[layer]

    def release(self, rows: Sequence[int]) -> None:
        """Forget rows: they are computed on, for nothing, until others are admitted or dropped."""
        for row in rows:
            self._prompts[row], self._lengths[row] = None, 0
        self._regroup = True

    def keep(self, rows: Sequence[int]) -> None:
        """Make row i what row rows[i] was and drop the rest; rows in place are not copied."""
        moved = [(to, row) for to, row in enumerate(rows) if to != row]
        if moved:
            device = self._keys[0].device
            to, source = (torch.tensor(part, device=device) for part in zip(*moved, strict=True))
            for buffer in (*self._keys, *self._values):
                buffer[to] = buffer[source]
        self._prompts = [self._prompts[row] for row in rows]
        self._lengths = [self._lengths[row] for row in rows]
        self._width = len(rows)
        self._regroup = True

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        """Append one token (R,) to every row and return the logits (R, V) after it."""
        device = tokens.device
        if self._regroup:
            self._groups, self._regroup = self._grouped(device), False
        own = torch.tensor(self._lengths, device=device)
        before = torch.tensor([p.length if p and p.shared else 0 for p in self._prompts])
        self._reserve(max(self._lengths) + 1)
        span = _aligned(max(self._lengths) + 1)
        seen = torch.arange(span, device=device) <= own[:, None]
        mask = torch.zeros(seen.shape, device=device).masked_fill_(~seen, -torch.inf)
        rows = torch.arange(self._width, device=device)
        implementation = self._config._attn_implementation
        self._config._attn_implementation = NAME
        try:
            output = self.model(
                input_ids=tokens[:, None],
                position_ids=(before.to(device) + own)[:, None],
                attention_mask=mask[:, None, None],
                past_key_values=self,
                use_cache=True,
                maxatk_step=_Step(self, rows, own),
            )
        finally:
            self._config._attn_implementation = implementation
        for row, prompt in enumerate(self._prompts):
            self._lengths[row] += prompt is not None
        return output.logits[:, -1]

    def attend(
        self,
        layer: int,
        query: torch.Tensor,
        mask: torch.Tensor,
        scaling: float,
    ) -> torch.Tensor:
        """Return the attention (R, H * G, D) of queries (R, H, G, D) in one layer."""
        rows, heads, grouped, size = query.shape
        span = mask.shape[-1]
        longest = max((group.prompt.length for group in self._groups), default=0)
        ahead = _aligned(longest)
        scores = query.new_empty((rows, heads, grouped, ahead + span), dtype=torch.float32)
        query = query * scaling
        own_keys = self._keys[layer][:rows, :, :span]
        scores[..., ahead:] = torch.matmul(query, own_keys.transpose(-1, -2))
        scores[..., ahead:] += mask
        scores[..., :ahead] = -torch.inf
        for group in self._groups:
            found = torch.matmul(
                _stacked(query, group.rows), group.prompt.keys[layer].transpose(-1, -2)
            )
            found = found.view(heads, -1, grouped, group.prompt.length)[:, : group.count]
            scores[group.rows[: group.count], ..., : group.prompt.length] = found.transpose(
                0, 1
            ).float()
        weights = torch.softmax(scores, dim=-1).to(query.dtype)
        output = torch.matmul(weights[..., ahead:], self._values[layer][:rows, :, :span])
        for group in self._groups:
            part = _stacked(weights[..., : group.prompt.length], group.rows)
            found = torch.matmul(part, group.prompt.values[layer])
            found = found.view(heads, -1, grouped, size)[:, : group.count].transpose(0, 1)
            output[group.rows[: group.count]] += found
        return output.reshape(rows, heads * grouped, size)

    def update(  # the cache of the model's own code: written here, read in `attend`
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,  # noqa: ARG002
        *_: Any,
        **__: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the states as they are; `_attention` stores them."""
        return key_states, value_states

    def get_seq_length(self, layer_idx: int = 0) -> int:  # noqa: ARG002
        """Return the longest row; positions are given to the model in every step."""
        return max(self._lengths, default=0)

    def store(self, layer: int, key: torch.Tensor, value: torch.Tensor, step: _Step) -> None:
        """Write the states (R, H, 1, D) of the new tokens at every row's position."""
        # Under autocast both may have another precision than the cache of a prompt.
        keys, values = self._keys[layer], self._values[layer]
        keys[step.rows, :, step.positions] = key[:, :, 0].to(keys.dtype)
        values[step.rows, :, step.positions] = value[:, :, 0].to(values.dtype)

    def _grouped(self, device: torch.device) -> list[_Group]:
        rows: dict[Prompt, list[int]] = {}
        for row, prompt in enumerate(self._prompts):
            if prompt is not None and prompt.shared:
                rows.setdefault(prompt, []).append(row)
        return [
            _Group(prompt, torch.tensor((found * _FEWEST)[:most], device=device), len(found))
            for prompt, found in rows.items()
            for most in [max(len(found), _FEWEST)]
        ]

    def _widen(self, width: int, prompt: Prompt) -> None:
        if not self._keys:
            shapes = [(width, k.shape[0], _GROWTH, k.shape[2]) for k in prompt.keys]
            values = [(width, v.shape[0], _GROWTH, v.shape[2]) for v in prompt.values]
            self._keys = [k.new_zeros(shape) for k, shape in zip(prompt.keys, shapes, strict=True)]
            self._values = [
                v.new_zeros(shape) for v, shape in zip(prompt.values, values, strict=True)
            ]
        capacity = len(self._keys[0])
        if width > capacity:  # twice as many, since every prompt may bring a row more
            self._resize(max(width, min(2 * capacity, self._most)), self._keys[0].shape[2])
        grown = width - self._width
        if grown > 0:
            self._prompts += [None] * grown
            self._lengths += [0] * grown
            self._width = width

    def _reserve(self, positions: int) -> None:
        room = self._keys[0].shape[2]
        if positions > room:
            wanted = max(positions, room + room // 2)
            self._resize(len(self._keys[0]), -(-wanted // _GROWTH) * _GROWTH)

    def _resize(self, width: int, room: int) -> None:
        for buffers in (self._keys, self._values):
            for layer, old in enumerate(buffers):
                # Zeros, not whatever was there: a masked weight of 0 times NaN is NaN.
                new = old.new_zeros((width, old.shape[1], room, old.shape[3]))
                new[: len(old), :, : old.shape[2]] = old
                buffers[layer] = new


def _aligned(positions: int) -> int:
    return -(-positions // _ALIGN) * _ALIGN


def _stacked(states: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Return (H, R * G, X) of chosen rows of (R, H, G, X)."""
    chosen = states[rows].transpose(0, 1)
    return chosen.reshape(chosen.shape[0], -1, chosen.shape[-1])


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor,
    *,
    scaling: float | None = None,
    maxatk_step: _Step,
    **more: Any,
) -> tuple[torch.Tensor, None]:
    for name in _UNKNOWN:
        if more.get(name) is not None:
            raise ValueError(f"{name}: this attention does not have it")  # seen by `supports`
    decoder, layer = maxatk_step.decoder, module.layer_idx
    decoder.store(layer, key, value, maxatk_step)
    rows, heads, _one, size = query.shape
    packed = query.reshape(rows, key.shape[1], heads // key.shape[1], size)
    scale = size**-0.5 if scaling is None else scaling
    return decoder.attend(layer, packed, attention_mask, scale)[:, None], None


AttentionInterface.register(NAME, _attention)
