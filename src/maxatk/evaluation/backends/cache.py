"""A key-value cache that is written in place.

`DynamicLayer` concatenates at every token: for small models the copying, and the page faults of
the new allocations, cost three quarters of the time of the loop.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import DynamicLayer

_MARGIN = 32  # positions reserved ahead of the sequence


class RoomyLayer(DynamicLayer):  # type: ignore[misc]
    """A `DynamicLayer` whose keys and values are views of larger buffers."""

    keys: torch.Tensor
    values: torch.Tensor
    _key_buffer: torch.Tensor
    _value_buffer: torch.Tensor

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, rows: int) -> None:
        super().__init__()
        self.dtype, self.device = keys.dtype, keys.device
        self.is_initialized = True
        self._store(keys.expand(rows, -1, -1, -1), values.expand(rows, -1, -1, -1))

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append (rows, heads, 1, size) states in place and return all of them."""
        before = self.get_seq_length()
        after = before + key_states.shape[-2]
        if after > self._key_buffer.shape[-2]:
            self._store(self.keys, self.values)
        self._key_buffer[:, :, before:after] = key_states
        self._value_buffer[:, :, before:after] = value_states
        self.keys = self._key_buffer[:, :, :after]
        self.values = self._value_buffer[:, :, :after]
        return self.keys, self.values

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Make row i what row indices[i] was; only the rows that move are copied."""
        count, length = len(indices), self.get_seq_length()
        moved = (indices != torch.arange(count, device=indices.device)).nonzero().squeeze(-1)
        for buffer in (self._key_buffer, self._value_buffer):
            buffer[moved, :, :length] = buffer[indices[moved], :, :length]
        self._key_buffer, self._value_buffer = self._key_buffer[:count], self._value_buffer[:count]
        self.keys, self.values = self._key_buffer[:, :, :length], self._value_buffer[:, :, :length]

    def _store(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        self._key_buffer, self.keys = _with_room(keys)
        self._value_buffer, self.values = _with_room(values)


def repeat_with_room(cache: Any, rows: int) -> None:
    """Repeat a cache of one row, making its plain dynamic layers roomy; others stay as they are."""
    for number, layer in enumerate(cache.layers):
        if type(layer) is DynamicLayer:
            cache.layers[number] = RoomyLayer(layer.keys, layer.values, rows)
        else:
            layer.batch_repeat_interleave(rows)


def _with_room(states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rows, heads, length, size = states.shape
    buffer = states.new_empty((rows, heads, length + _MARGIN, size))
    buffer[:, :, :length] = states
    return buffer, buffer[:, :, :length]
