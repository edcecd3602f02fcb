"""One step of a batch whose rows may belong to different prompts.

Rows of a shared prompt attend to its keys and values where they lie, stored once (`prompt_states`).
A row's own tokens are kept in buffers that are written in place, with no more room than the longest
row needs, so that attention reads them whole: a part of one would be copied.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from transformers import Cache

from maxatk.sampling.attention import NAME, attention
from maxatk.sampling.prompt_states import FEWEST, Prompt, SharedStates, Stacks, aligned, rows_of

_GROWTH = 64  # positions


@dataclasses.dataclass
class _Batch:
    """What all steps need while no row comes or goes, on the device; tensors are (R,)."""

    shared: list[SharedStates]
    rows: torch.Tensor
    positions: torch.Tensor  # of the next token of a row among its own
    before: torch.Tensor  # how many tokens lie before them in a shared prompt
    alive: torch.Tensor  # 1 where a row is, or 0


class Decoder(Cache):  # type: ignore[misc]
    """The batch of a model that `supports` it: rows that are admitted, advanced and dropped.

    `shared` tells whether a prompt's keys and values are kept once for all of its rows.
    """

    fewest = FEWEST  # rows of a batch

    def __init__(self, model: Any, *, rows: int, shared: bool) -> None:
        super().__init__(layers=[])
        self.model = model
        self.rows = max(rows, self.fewest)
        self.shared = shared
        self._config = model.config.get_text_config()
        self._buffers: list[torch.Tensor] = []  # (R, H, L, D), in the order of a prompt's states
        self._prompts: list[Prompt | None] = [None] * self.fewest  # of every row
        self._lengths = [0] * self.fewest  # own positions of every row
        self._batch: _Batch | None = None  # None where rows came or went since the last step
        self._stacks = Stacks()

    def evaluate(self, prompts: Sequence[Sequence[int]]) -> list[Prompt]:
        """Evaluate prompts (their ids) in one pass; causal attention ignores the filling behind."""
        device = self.model.device
        ids = pad_sequence([torch.tensor(prompt) for prompt in prompts], batch_first=True)
        ends = [len(prompt) - 1 for prompt in prompts]
        # Of all positions the logits at these are kept: row i has its own at the i-th of them.
        kept = torch.tensor(ends, device=device)
        output = self.model(input_ids=ids.to(device), use_cache=True, logits_to_keep=kept)
        layers = output.past_key_values.layers
        states = [states for layer in layers for states in (layer.keys, layer.values)]
        # Clones: a view would keep the states of all prompts in memory.
        return [
            Prompt(
                states=[part[row, :, : end + 1].clone() for part in states],
                logits=output.logits[row, row].clone(),
            )
            for row, end in enumerate(ends)
        ]

    def admit(self, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        """Let rows begin after prompts; a row beyond the width widens the batch."""
        added = max(rows) + 1 - len(self._prompts)
        self._prompts += [None] * added
        self._lengths += [0] * added
        for row, prompt in zip(rows, prompts, strict=True):
            self._prompts[row] = prompt
            self._lengths[row] = 0 if self.shared else prompt.length
        self._batch = None
        if not self._buffers:
            self._buffers = [part.new_zeros((0, *part.shape)) for part in prompts[0].states]
        self._fit()
        if self.shared:
            return
        # Else every row begins with a copy of its prompt.
        for prompt, rows_of_prompt in rows_of(prompts, rows).items():
            index = torch.tensor(rows_of_prompt, device=prompt.logits.device)
            for buffer, states in zip(self._buffers, prompt.states, strict=True):
                buffer[index, :, : prompt.length] = states

    def release(self, rows: Sequence[int]) -> None:
        """Forget rows: they are computed on, for nothing, until others are admitted or dropped."""
        for row in rows:
            self._prompts[row] = None
            self._lengths[row] = 0
        self._batch = None

    def keep(self, rows: Sequence[int]) -> None:
        """Make row i what row rows[i] was and drop the rest; rows in place are not copied."""
        moved = [(to, row) for to, row in enumerate(rows) if to != row]
        if moved:
            to, source = torch.tensor(moved, device=self._buffers[0].device).T
            for buffer in self._buffers:
                buffer[to] = buffer[source]
        self._prompts = [self._prompts[row] for row in rows]
        self._lengths = [self._lengths[row] for row in rows]
        self._batch = None

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        """Append one token (R,) to every row and return the logits (R, V) after it."""
        if self._batch is None:
            self._batch = self._described(tokens.device)
        batch = self._batch
        self._fit()
        own_positions = torch.arange(self._buffers[0].shape[2], device=tokens.device)
        mask = torch.where(own_positions <= batch.positions[:, None], 0.0, -torch.inf)
        # The attention of this module is the model's for this call alone: another caller of the
        # same model has no decoder to hand to it.
        implementation = self._config._attn_implementation
        self._config._attn_implementation = NAME
        try:
            output = self.model(
                input_ids=tokens[:, None],
                position_ids=(batch.before + batch.positions)[:, None],
                attention_mask=mask[:, None, None],
                past_key_values=self,
                use_cache=True,
                maxatk_decoder=self,
            )
        finally:
            self._config._attn_implementation = implementation
        batch.positions += batch.alive
        for row, prompt in enumerate(self._prompts):
            self._lengths[row] += prompt is not None
        return output.logits[:, -1]

    def attend(
        self,
        layer: int,
        query: torch.Tensor,
        states: tuple[torch.Tensor, torch.Tensor],
        mask: torch.Tensor,
    ) -> torch.Tensor:
        """Return the attention (R, H * G, D) of scaled queries (R, H, G, D) in one layer.

        `states` are the keys and values (R, H, 1, D) of the new tokens, which are stored.
        """
        assert self._batch is not None
        rows = self._batch.rows
        positions = self._batch.positions
        keys, values = (part[: len(rows)] for part in self._buffers[2 * layer : 2 * layer + 2])
        for buffer, new in zip((keys, values), states, strict=True):
            # Under autocast they may have another precision than the cache of a prompt.
            buffer[rows, :, positions] = new[:, :, 0].to(buffer.dtype)
        output = attention(query, (keys, values), mask, self._batch.shared, layer=layer)
        return output.flatten(1, 2)

    def update(self, key_states: Any, value_states: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
        """Return the states as they are: they are written and read in `attend`."""
        return key_states, value_states

    def get_seq_length(self, layer_idx: int = 0) -> int:  # noqa: ARG002
        """Return the longest row; positions are given to the model in every step."""
        return max(self._lengths, default=0)

    def _described(self, device: torch.device) -> _Batch:
        """Return the batch of the rows as they are now."""
        shared = []
        if self.shared:
            rows_of_prompt = rows_of(self._prompts, range(len(self._prompts)))
            shared = self._stacks.shared(rows_of_prompt, device)
        before = [prompt.length if prompt and self.shared else 0 for prompt in self._prompts]
        alive = [int(prompt is not None) for prompt in self._prompts]
        # One tensor, for one copy to the device.
        columns = torch.tensor([list(range(len(alive))), self._lengths, before, alive])
        return _Batch(shared, *columns.to(device))

    def _fit(self) -> None:
        """Give the buffers the places that the rows need."""
        capacity, _, positions, _ = self._buffers[0].shape
        more_rows = max(len(self._prompts) - capacity, 0)
        # Fewer where the longest rows have ended: `pad` then cuts.
        more_positions = aligned(max(self._lengths) + 1, _GROWTH) - positions
        if more_rows or more_positions:
            for number, buffer in enumerate(self._buffers):  # one at a time, for the memory
                # Zeros, not whatever was there: a masked weight of 0 times NaN is NaN.
                self._buffers[number] = pad(buffer, (0, 0, 0, more_positions, 0, 0, 0, more_rows))
