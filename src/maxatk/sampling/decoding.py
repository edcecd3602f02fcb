"""One step of a batch whose rows may belong to different prompts: caches and attention.

Rows of a shared prompt attend to its keys and values where they lie, stored once: the queries of
all rows and of the heads of a group are one matrix product (on a GPU one for all shared prompts). A
row's own tokens are kept in buffers that are written in place, with no more room than the longest
row needs, so that attention reads them whole: a part of one would be copied.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from transformers import AttentionInterface, Cache

NAME = "maxatk_rows"  # of the attention below, among those of transformers
_FEWEST = 4  # rows of a product; fewer ones are rounded in another way on CPUs
_ALIGN = 16  # sums over positions keep their order, so their rounding, where lengths are multiples
_GROWTH = 64  # positions
# Samples of a prompt from which its keys are kept once and not in every row. That is about 13 more
# launches a layer, for which a GPU waits: there few rows do not pay.
_SHARED_FROM = 4
_SHARED_FROM_ON_A_GPU = 32
# A CPU computes each shared prompt with its own rows, in sums whose order no other prompt changes.
# A GPU waits for each to be launched: there all of them are one padded tensor.
_PADS = {"cpu": False}
_UNKNOWN = ("sliding_window", "softcap", "s_aux", "position_bias")  # arguments of attention
_OTHER_ATTENTION = ("sliding_window", "attn_logit_softcapping", "attention_chunk_size")
_MOST_APART = 0.05  # total variation of two next-token distributions that differ by rounding


def shares(samples: float, device: torch.device) -> bool:
    """Return whether the keys of a prompt with so many samples are kept once for all of them."""
    return samples >= (_SHARED_FROM if device.type == "cpu" else _SHARED_FROM_ON_A_GPU)


@dataclasses.dataclass(eq=False)
class Prompt:
    """A prompt that has been evaluated."""

    states: list[torch.Tensor]  # (H, L, D) each: keys of a layer, then its values, layer by layer
    logits: torch.Tensor  # (V,) after it

    @property
    def length(self) -> int:
        """Return the number of tokens."""
        return int(self.states[0].shape[1])


@dataclasses.dataclass
class _Group:
    """The rows of shared prompts, dealt to (N, M) places, of which the last may be filled up."""

    rows: torch.Tensor  # (R',)
    dealt: torch.Tensor  # (N, M), the row at each place
    real: torch.Tensor | slice  # the places (flat) that are not filling
    states: list[torch.Tensor]  # (N, H, L, D) each, as those of a prompt
    mask: torch.Tensor | None  # (R', 1, 1, L), -inf behind the end; None for a single prompt

    def product(self, states: torch.Tensor, prompts: torch.Tensor) -> torch.Tensor:
        """Return the products (R', H, G, Y) of these rows of (R, H, G, X) with (N, H, X, Y)."""
        # The M rows of a prompt and the G queries of a head are the rows of one matrix, (M G, X).
        by_head = states[self.dealt].transpose(1, 2)  # (N, H, M, G, X)
        products = torch.matmul(by_head.flatten(2, 3), prompts)
        by_place = products.unflatten(2, by_head.shape[2:4]).transpose(1, 2)  # (N, M, H, G, Y)
        return by_place.flatten(0, 1)[self.real]


@dataclasses.dataclass
class _Batch:
    """What all steps need while no row comes or goes, on the device; tensors are (R,)."""

    groups: list[_Group]
    rows: torch.Tensor
    positions: torch.Tensor  # of the next token of a row among its own
    before: torch.Tensor  # how many tokens lie before them in a shared prompt
    alive: torch.Tensor  # 1 where a row is, or 0


class Decoder(Cache):  # type: ignore[misc]
    """The batch of a model that `supports` it: rows that are admitted, advanced and dropped.

    `shared` tells whether a prompt's keys and values are kept once for all of its rows.
    """

    fewest = _FEWEST  # rows of a batch

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
        self._stacked: tuple[list[Prompt], list[torch.Tensor]] = ([], [])

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
        for prompt, rows_of_prompt in _rows_of(prompts, rows).items():
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
        groups = self._batch.groups
        rows = self._batch.rows
        positions = self._batch.positions
        keys, values = (part[: len(rows)] for part in self._buffers[2 * layer : 2 * layer + 2])
        for buffer, new in zip((keys, values), states, strict=True):
            # Under autocast they may have another precision than the cache of a prompt.
            buffer[rows, :, positions] = new[:, :, 0].to(buffer.dtype)
        # Scores against the own tokens of a row, and before them those against its prompt: one
        # softmax over both. Rows without a shared prompt see -inf there.
        scores = torch.matmul(query, keys.transpose(-1, -2)).float() + mask
        longest = max((group.states[0].shape[2] for group in groups), default=0)
        width = _aligned(longest, _ALIGN)
        if width:
            prompt_scores = scores.new_full((*scores.shape[:-1], width), -torch.inf)
            for group in groups:
                prompt_keys = group.states[2 * layer].transpose(-1, -2)
                of_group = group.product(query, prompt_keys).float()
                if group.mask is not None:
                    of_group = of_group + group.mask
                prompt_scores[group.rows, ..., : of_group.shape[-1]] = of_group
            scores = torch.cat([prompt_scores, scores], dim=-1)
        weights = torch.softmax(scores, dim=-1).to(query.dtype)
        output = torch.matmul(weights[..., width:], values)
        for group in groups:
            prompt_values = group.states[2 * layer + 1]
            prompt_weights = weights[..., : prompt_values.shape[2]]
            output[group.rows] += group.product(prompt_weights, prompt_values)
        return output.flatten(1, 2)

    def update(self, key_states: Any, value_states: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
        """Return the states as they are: they are written and read in `attend`."""
        return key_states, value_states

    def get_seq_length(self, layer_idx: int = 0) -> int:  # noqa: ARG002
        """Return the longest row; positions are given to the model in every step."""
        return max(self._lengths, default=0)

    def _described(self, device: torch.device) -> _Batch:
        """Return the batch of the rows as they are now."""
        groups = []
        if self.shared:
            rows_of = _rows_of(self._prompts, range(len(self._prompts)))
            parts = [{prompt: rows} for prompt, rows in rows_of.items()]
            if rows_of and _PADS.get(device.type, True):
                parts = [rows_of]
            groups = [self._group(part, device) for part in parts]
        before = [prompt.length if prompt and self.shared else 0 for prompt in self._prompts]
        alive = [int(prompt is not None) for prompt in self._prompts]
        # One tensor, for one copy to the device.
        columns = torch.tensor([list(range(len(alive))), self._lengths, before, alive])
        return _Batch(groups, *columns.to(device))

    def _group(self, rows_of: dict[Prompt, list[int]], device: torch.device) -> _Group:
        """Return the group of some prompts with their rows, dealt to as many places each."""
        prompts = list(rows_of)
        most = max(_FEWEST, *map(len, rows_of.values()))
        # The first row of a prompt fills up the places that are left.
        dealt = [rows + rows[:1] * (most - len(rows)) for rows in rows_of.values()]
        all_rows = torch.tensor([row for rows in rows_of.values() for row in rows], device=device)
        real: torch.Tensor | slice = slice(len(all_rows))
        states = [part[None] for part in prompts[0].states]
        mask = None
        if len(prompts) > 1:
            real_places = [
                number * most + place
                for number, rows in enumerate(rows_of.values())
                for place in range(len(rows))
            ]
            real = torch.tensor(real_places, device=device)
            states = self._stack(prompts)
            ends = torch.tensor([prompt.length for prompt, rows in rows_of.items() for _ in rows])
            is_behind = torch.arange(states[0].shape[2]) >= ends[:, None]
            mask = torch.where(is_behind, -torch.inf, 0.0)[:, None, None].to(device)
        return _Group(all_rows, torch.tensor(dealt, device=device), real, states, mask)

    def _stack(self, prompts: list[Prompt]) -> list[torch.Tensor]:
        """Return the states of prompts, with zeros behind their ends."""
        if self._stacked[0] != prompts:  # which stay while their rows end one by one
            length = _aligned(max(prompt.length for prompt in prompts), _ALIGN)
            layers = zip(*(prompt.states for prompt in prompts), strict=True)
            self._stacked = (prompts, [_padded(states, length) for states in layers])
        return self._stacked[1]

    def _fit(self) -> None:
        """Give the buffers the places that the rows need."""
        capacity, _, positions, _ = self._buffers[0].shape
        more_rows = max(len(self._prompts) - capacity, 0)
        # Fewer where the longest rows have ended: `pad` then cuts.
        more_positions = _aligned(max(self._lengths) + 1, _GROWTH) - positions
        if more_rows or more_positions:
            for number, buffer in enumerate(self._buffers):  # one at a time, for the memory
                # Zeros, not whatever was there: a masked weight of 0 times NaN is NaN.
                self._buffers[number] = pad(buffer, (0, 0, 0, more_positions, 0, 0, 0, more_rows))


def _rows_of(prompts: Sequence[Prompt | None], rows: Sequence[int]) -> dict[Prompt, list[int]]:
    """Return the rows of each prompt, without those that have ended."""
    rows_of: dict[Prompt, list[int]] = {}
    for prompt, row in zip(prompts, rows, strict=True):
        if prompt is not None:
            rows_of.setdefault(prompt, []).append(row)
    return rows_of


def _padded(states: Sequence[torch.Tensor], length: int) -> torch.Tensor:
    """Return (N, H, length, D) of N times (H, L, D), with zeros behind."""
    return torch.stack([pad(part, (0, 0, 0, length - part.shape[1])) for part in states])


def _aligned(positions: int, size: int) -> int:
    """Return a number of positions rounded up to a multiple of `size`."""
    return -(-positions // size) * size


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor,
    *,
    scaling: float | None = None,
    maxatk_decoder: Decoder,
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


AttentionInterface.register(NAME, _attention)


class LoneDecoder:
    """The same as `Decoder`, on rows of one prompt admitted at once, with transformers' cache."""

    fewest = 1

    def __init__(self, model: Any, *, rows: int) -> None:
        self.model = model
        self.rows = rows
        self._cache: Any = None

    def evaluate(self, prompts: Sequence[Sequence[int]]) -> list[Prompt]:
        """Evaluate the prompt (its ids)."""
        logits = self._advanced(torch.tensor(prompts, device=self.model.device))
        return [Prompt(states=[], logits=logits[0])]

    def admit(self, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:  # noqa: ARG002
        """Let all rows, 0 to len(rows) - 1, begin after the prompt."""
        self._cache.batch_repeat_interleave(len(rows))

    def release(self, rows: Sequence[int]) -> None:
        """Forget rows: they are computed on, for nothing, until they are dropped."""

    def keep(self, rows: Sequence[int]) -> None:
        """Make row i what row rows[i] was and drop the rest."""
        self._cache.batch_select_indices(torch.tensor(rows, device=self.model.device))

    def step(self, tokens: torch.Tensor) -> Any:
        """Append one token (R,) to every row and return the logits (R, V) after it."""
        return self._advanced(tokens[:, None])

    def _advanced(self, ids: torch.Tensor) -> Any:
        output = self.model(
            input_ids=ids, past_key_values=self._cache, use_cache=True, logits_to_keep=1
        )
        self._cache = output.past_key_values
        return output.logits[:, -1]


def supports(model: Any) -> bool:
    """Return whether `Decoder` computes what the model does, by its config and by trying it."""
    backend = getattr(model, "_supports_attention_backend", False)
    return backend and is_plain(model.config) and _agrees(model)


def is_plain(model: Any) -> bool:
    """Return whether a model's config has full attention in every layer, at fixed positions."""
    config = model.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    rope = getattr(config, "rope_parameters", None) or {}
    return (
        kinds == {"full_attention"}
        and rope.get("rope_type", "default") not in ("dynamic", "longrope")
        and not any(getattr(config, name, None) for name in _OTHER_ATTENTION)
    )


@torch.inference_mode()  # type: ignore[untyped-decorator]
def _agrees(model: Any) -> bool:
    """Return whether six tokens, four of them as a prompt, end in the model's own distribution."""
    size = model.get_input_embeddings().num_embeddings
    ids = [(7 * number + 5) % size for number in range(6)]
    output = model(input_ids=torch.tensor([ids], device=model.device), use_cache=False)
    expected = torch.softmax(output.logits[0, -1].float(), -1)
    for shared in (True, False):
        decoder = Decoder(model, rows=Decoder.fewest, shared=shared)
        try:
            decoder.admit([1], decoder.evaluate([ids[:4]]))
            for token in ids[4:]:
                tokens = torch.full((Decoder.fewest,), token, device=model.device)
                logits = decoder.step(tokens)
        except torch.OutOfMemoryError:
            raise
        except (TypeError, AttributeError, ValueError, RuntimeError):
            return False  # its attention is not what the interface of transformers promises
        computed = torch.softmax(logits[1].float(), -1)
        if not float((computed - expected).abs().sum()) / 2 < _MOST_APART:  # so is NaN
            return False
    return True
