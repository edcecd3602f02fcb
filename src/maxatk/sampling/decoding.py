"""One step of a batch whose rows may belong to different prompts: caches and attention.

Rows of a shared prompt attend to its keys and values where they lie: they are stored once, and the
queries of all rows and of the heads of a group are one matrix product (on a GPU one for all shared
prompts, with their keys padded to one length). A row's own tokens are kept
in buffers that are written in place, at a position of the row's own. The buffers have no more room
than the longest row needs, so that attention reads them whole: a part of one would be copied.

Models whose attention is their own, such as sliding windows and recurrent layers, keep the cache
of transformers: a prompt is evaluated once and its cache repeated over rows that advance together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from transformers import AttentionInterface, Cache

NAME = "maxatk_rows"  # of the attention below, among those of transformers
_FEWEST = 4  # rows of a product; fewer ones are rounded in another way on CPUs
_ALIGN = 16  # sums over positions keep their order, so their rounding, where lengths are multiples
_GROWTH = 64  # positions
# Samples of a prompt from which its keys are kept once and not in every row. That is about 13 more
# launches a layer, for which a GPU waits: there few rows do not pay.
_SHARED_FROM = {"cpu": 4}
_ELSEWHERE_SHARED_FROM = 32
# A CPU computes each shared prompt with its own rows, in sums whose order no other prompt changes.
# A GPU waits for each to be launched: there all of them are one padded tensor.
_PADS = {"cpu": False}
_UNKNOWN = ("sliding_window", "softcap", "s_aux", "position_bias")  # arguments of attention
_OTHER_ATTENTION = ("sliding_window", "attn_logit_softcapping", "attention_chunk_size")
_MOST_APART = 0.05  # total variation of two next-token distributions that differ by rounding


def shares(samples: float, device: torch.device) -> bool:
    """Return whether the keys of a prompt with so many samples are kept once for all of them."""
    return samples >= _SHARED_FROM.get(device.type, _ELSEWHERE_SHARED_FROM)


@dataclasses.dataclass(eq=False)
class Prompt:
    """A prompt that has been evaluated: its states, and the logits (V,) after it.

    `states` are (H, L, D): the keys of a layer, then its values, layer by layer.
    """

    states: list[torch.Tensor]
    logits: torch.Tensor
    shared: bool

    @property
    def length(self) -> int:
        """Return the number of tokens."""
        return int(self.states[0].shape[1])


@dataclasses.dataclass
class _Group:
    """The rows of one shared prompt; few ones are repeated, see `_FEWEST`."""

    prompt: Prompt
    rows: torch.Tensor
    count: int


@dataclasses.dataclass
class _Padded:
    """The rows of all shared prompts, dealt to (N, M) places of which the last may be filled up.

    `dealt` are the rows at these places, `real` the places (flat) that are not filling, `taken`
    the rows at those; `states` are (N, H, L, D), the keys of a layer, then its values, layer by
    layer; `mask` (N, 1, 1, 1, L) is -inf behind the end of a prompt.
    """

    dealt: torch.Tensor
    real: torch.Tensor
    taken: torch.Tensor
    states: list[torch.Tensor]
    mask: torch.Tensor

    def scores(self, query: torch.Tensor, layer: int) -> torch.Tensor:
        """Return the scores (R, H, G, L) of queries (R, H, G, D), -inf where there are no keys."""
        found = self._product(query, self.states[2 * layer].transpose(-1, -2)).float() + self.mask
        shape = (*query.shape[:3], self.mask.shape[-1])
        scores = torch.full(shape, -torch.inf, device=query.device)
        scores[self.taken] = found.flatten(0, 1)[self.real]
        return scores

    def add_values(self, output: torch.Tensor, weights: torch.Tensor, layer: int) -> None:
        """Add the weighted values of the prompts to an output (R, H, G, D)."""
        found = self._product(weights, self.states[2 * layer + 1])
        output[self.taken] += found.flatten(0, 1)[self.real]

    def _product(self, states: torch.Tensor, prompts: torch.Tensor) -> torch.Tensor:
        """Return (N, M, H, G, Y) of (R, H, G, X) and (N, H, X, Y)."""
        chosen = states[self.dealt].transpose(1, 2)
        found = torch.matmul(chosen.flatten(2, 3), prompts)
        return found.unflatten(2, chosen.shape[2:4]).transpose(1, 2)


@dataclasses.dataclass
class _Batch:
    """What all steps need while no row comes or goes, on the device.

    The shared prompts are `groups`, or `padded` into one. Of every row (R,): `positions` of its
    next token among its own, how many tokens lie `before` them in a shared prompt, and 1 where it
    is `alive`.
    """

    groups: list[_Group]
    padded: _Padded | None
    rows: torch.Tensor
    positions: torch.Tensor
    before: torch.Tensor
    alive: torch.Tensor


class Decoder(Cache):  # type: ignore[misc]
    """The batch of a model: rows that are admitted, advanced and dropped.

    For decoder-only models of transformers with full attention in every layer, see `supports`. At
    most `rows` will be under way at a time.
    """

    fewest = _FEWEST  # rows of a batch
    refills = True  # rows may be admitted while others are under way

    def __init__(self, model: Any, *, rows: int) -> None:
        super().__init__(layers=[])
        self.model = model
        self._most = max(rows, self.fewest)
        self._config = model.config.get_text_config()
        self._buffers: list[torch.Tensor] = []  # (R, H, L, D), in the order of a prompt's states
        self._prompts: list[Prompt | None] = []  # of every row
        self._lengths: list[int] = []  # own positions of every row
        self._batch: _Batch | None = None
        self._stacked: tuple[list[Prompt], list[torch.Tensor]] = [], []

    def evaluate(self, prompts: Sequence[Sequence[int]], *, shared: bool) -> list[Prompt]:
        """Evaluate prompts (their ids) in one pass; causal attention ignores the filling behind."""
        device = self.model.device
        ids = torch.zeros((len(prompts), max(map(len, prompts))), dtype=torch.long)
        for row, prompt in enumerate(prompts):
            ids[row, : len(prompt)] = torch.tensor(prompt)
        ends = [len(prompt) - 1 for prompt in prompts]
        output = self.model(
            input_ids=ids.to(device),
            use_cache=True,
            logits_to_keep=torch.tensor(ends, device=device),
        )
        layers = output.past_key_values.layers
        states = [states for layer in layers for states in (layer.keys, layer.values)]
        return [
            Prompt(
                states=[part[row, :, : end + 1].clone() for part in states],
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
        self._batch = None
        if not prompt.shared:
            self._fit()
            chosen = torch.tensor(rows, device=prompt.logits.device)
            for buffer, states in zip(self._buffers, prompt.states, strict=True):
                buffer[chosen, :, : prompt.length] = states

    def release(self, rows: Sequence[int]) -> None:
        """Forget rows: they are computed on, for nothing, until others are admitted or dropped."""
        for row in rows:
            self._prompts[row], self._lengths[row] = None, 0
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
        batch = self._batch = self._batch or self._described(tokens.device)
        self._fit()
        places = torch.arange(self._buffers[0].shape[2], device=tokens.device)
        mask = torch.where(places <= batch.positions[:, None], 0.0, -torch.inf)
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
        groups, rows, positions = self._batch.groups, self._batch.rows, self._batch.positions
        padded = self._batch.padded
        keys, values = (part[: len(rows)] for part in self._buffers[2 * layer : 2 * layer + 2])
        for buffer, new in zip((keys, values), states, strict=True):
            # Under autocast they may have another precision than the cache of a prompt.
            buffer[rows, :, positions] = new[:, :, 0].to(buffer.dtype)
        scores = torch.matmul(query, keys.transpose(-1, -2)).float() + mask
        ahead = _aligned(max((group.prompt.length for group in groups), default=0), _ALIGN)
        if padded is not None:
            before = padded.scores(query, layer)
            ahead, scores = before.shape[-1], torch.cat([before, scores], dim=-1)
        elif ahead:
            before = scores.new_full((*scores.shape[:-1], ahead), -torch.inf)
            for group in groups:
                prompt = group.prompt.states[2 * layer].transpose(-1, -2)
                found = _product(query, prompt, group)
                before[group.rows[: group.count], ..., : group.prompt.length] = found.float()
            scores = torch.cat([before, scores], dim=-1)
        weights = torch.softmax(scores, dim=-1).to(query.dtype)
        output = torch.matmul(weights[..., ahead:], values)
        if padded is not None:
            padded.add_values(output, weights[..., :ahead], layer)
        for group in groups:
            part = weights[..., : group.prompt.length]
            found = _product(part, group.prompt.states[2 * layer + 1], group)
            output[group.rows[: group.count]] += found
        return output.flatten(1, 2)

    def update(  # the cache of the model's own code, written and read in `attend`
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,  # noqa: ARG002
        *_: Any,
        **__: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the states as they are."""
        return key_states, value_states

    def get_seq_length(self, layer_idx: int = 0) -> int:  # noqa: ARG002
        """Return the longest row; positions are given to the model in every step."""
        return max(self._lengths, default=0)

    def _described(self, device: torch.device) -> _Batch:
        shared: dict[Prompt, list[int]] = {}
        for row, prompt in enumerate(self._prompts):
            if prompt is not None and prompt.shared:
                shared.setdefault(prompt, []).append(row)
        groups, padded = [], None
        if len(shared) > 1 and _PADS.get(device.type, True):
            padded = self._padded(shared, device)
        else:
            for prompt, rows in shared.items():
                filled = (rows * _FEWEST)[: max(len(rows), _FEWEST)]
                groups.append(_Group(prompt, torch.tensor(filled, device=device), len(rows)))
        before = [p.length if p and p.shared else 0 for p in self._prompts]
        alive = [int(prompt is not None) for prompt in self._prompts]
        columns = range(len(alive)), self._lengths, before, alive
        return _Batch(
            groups, padded, *torch.tensor([list(column) for column in columns]).to(device)
        )

    def _padded(self, shared: dict[Prompt, list[int]], device: torch.device) -> _Padded:
        most = max(map(len, shared.values()))
        places = [
            (n, place) for n, rows in enumerate(shared.values()) for place in range(len(rows))
        ]
        real = torch.tensor([n * most + place for n, place in places], device=device)
        dealt = [rows + rows[:1] * (most - len(rows)) for rows in shared.values()]
        taken = torch.tensor([row for rows in shared.values() for row in rows], device=device)
        prompts = list(shared)
        if self._stacked[0] != prompts:  # which stay while their rows end one by one
            length = _aligned(max(prompt.length for prompt in prompts), _ALIGN)
            layers = zip(*(prompt.states for prompt in prompts), strict=True)
            self._stacked = prompts, [_stack(states, length) for states in layers]
        states = self._stacked[1]
        lengths = torch.tensor([prompt.length for prompt in prompts], device=device)
        behind = torch.arange(states[0].shape[2], device=device) >= lengths[:, None]
        mask = torch.where(behind, -torch.inf, 0.0)[:, None, None, None]
        return _Padded(torch.tensor(dealt, device=device), real, taken, states, mask)

    def _widen(self, width: int, prompt: Prompt) -> None:
        if not self._buffers:
            shapes = [(width, part.shape[0], _GROWTH, part.shape[2]) for part in prompt.states]
            self._buffers = [
                part.new_zeros(shape) for part, shape in zip(prompt.states, shapes, strict=True)
            ]
        capacity = len(self._buffers[0])
        if width > capacity:  # twice as many, since every prompt may bring a row more
            self._resize(max(width, min(2 * capacity, self._most)), self._buffers[0].shape[2])
        grown = max(width - len(self._prompts), 0)
        self._prompts += [None] * grown
        self._lengths += [0] * grown

    def _fit(self) -> None:
        room = _aligned(max(self._lengths) + 1, _GROWTH)
        if room != self._buffers[0].shape[2]:
            self._resize(len(self._buffers[0]), room)

    def _resize(self, width: int, room: int) -> None:
        for place, old in enumerate(self._buffers):  # one at a time, for the memory
            # Zeros, not whatever was there: a masked weight of 0 times NaN is NaN.
            new = old.new_zeros((width, old.shape[1], room, old.shape[3]))
            kept = old[:, :, :room]
            new[: len(old), :, : kept.shape[2]] = kept
            self._buffers[place] = new


def _aligned(positions: int, size: int) -> int:
    return -(-positions // size) * size


def _stack(states: Sequence[torch.Tensor], length: int) -> torch.Tensor:
    """Return (N, H, length, D) of N times (H, L, D), with zeros behind."""
    found = states[0].new_zeros((len(states), states[0].shape[0], length, states[0].shape[2]))
    for place, part in enumerate(states):
        found[place, :, : part.shape[1]] = part
    return found


def _product(states: torch.Tensor, prompt: torch.Tensor, group: _Group) -> torch.Tensor:
    """Return the products (N, H, G, Y) of a group's rows of (R, H, G, X) with (H, X, Y)."""
    heads, grouped = states.shape[1:3]
    chosen = states[group.rows].transpose(0, 1).reshape(heads, -1, states.shape[3])
    found = torch.matmul(chosen, prompt).unflatten(1, (-1, grouped))
    return found[:, : group.count].transpose(0, 1)


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor,
    *,
    scaling: float | None = None,
    maxatk_decoder: Decoder,
    **more: Any,
) -> tuple[torch.Tensor, None]:
    for name in _UNKNOWN:
        if more.get(name) is not None:
            raise ValueError(f"{name}: this attention does not have it")  # seen by `supports`
    rows, heads, _one, size = query.shape
    packed = query.reshape(rows, key.shape[1], heads // key.shape[1], size)
    scaled = packed * (size**-0.5 if scaling is None else scaling)
    found = maxatk_decoder.attend(module.layer_idx, scaled, (key, value), attention_mask)
    return found[:, None], None


AttentionInterface.register(NAME, _attention)


@dataclasses.dataclass
class LonePrompt:
    """A prompt that has been evaluated: its cache, and the logits (V,) after it."""

    cache: Any
    logits: torch.Tensor


class LoneDecoder:
    """The same operations as `Decoder`, on rows of one prompt that are admitted at once."""

    fewest = 1
    refills = False

    def __init__(self, model: Any) -> None:
        self.model = model
        self._cache: Any = None

    def evaluate(self, prompts: Sequence[Sequence[int]], *, shared: bool) -> list[LonePrompt]:  # noqa: ARG002
        """Evaluate one prompt (its ids)."""
        (prompt,) = prompts
        ids = torch.tensor([prompt], device=self.model.device)
        output = self.model(input_ids=ids, use_cache=True, logits_to_keep=1)
        return [LonePrompt(output.past_key_values, output.logits[0, -1])]

    def admit(self, rows: Sequence[int], prompt: LonePrompt) -> None:
        """Let all rows, 0 to len(rows) - 1, begin after a prompt, which serves once."""
        self._cache = prompt.cache
        self._cache.batch_repeat_interleave(len(rows))

    def release(self, rows: Sequence[int]) -> None:
        """Forget rows: they are computed on, for nothing, until they are dropped."""

    def keep(self, rows: Sequence[int]) -> None:
        """Make row i what row rows[i] was and drop the rest."""
        self._cache.batch_select_indices(torch.tensor(rows, device=self.model.device))

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        """Append one token (R,) to every row and return the logits (R, V) after it."""
        output = self.model(input_ids=tokens[:, None], past_key_values=self._cache, use_cache=True)
        logits: torch.Tensor = output.logits[:, -1]
        return logits


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
    size = model.get_input_embeddings().num_embeddings
    ids = [(7 * place + 5) % size for place in range(6)]
    whole = model(input_ids=torch.tensor([ids], device=model.device), use_cache=False)
    expected = torch.softmax(whole.logits[0, -1].float(), -1)
    for shared in (True, False):
        decoder = Decoder(model, rows=Decoder.fewest)
        try:
            (prompt,) = decoder.evaluate([ids[:4]], shared=shared)
            decoder.admit([1], prompt)
            for token in ids[4:]:
                tokens = torch.full((Decoder.fewest,), token, device=model.device)
                logits = decoder.step(tokens)
        except torch.OutOfMemoryError:
            raise
        except (TypeError, AttributeError, ValueError, RuntimeError):
            return False  # its attention is not what the interface of transformers promises
        found = torch.softmax(logits[1].float(), -1)
        if not float((found - expected).abs().sum()) / 2 < _MOST_APART:
            return False
    return True
