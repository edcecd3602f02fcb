"""Prompts that have been evaluated, and the rows of a batch that share their keys and values.

The keys and values of a shared prompt are stored once. Rows are dealt to them in such a way that
the queries of all rows of a prompt, and of the heads of a group, are one matrix product with them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import torch

FEWEST = 4  # rows of a product; fewer ones are rounded in another way on CPUs
_ALIGN = 16  # sums over positions keep their order, so their rounding, where lengths are multiples
# Samples of a prompt from which its keys are kept once and not in every row. That is about 13 more
# launches a layer, for which a GPU waits: there few rows do not pay.
_SHARED_FROM = 4
_SHARED_FROM_ON_A_GPU = 32


def shares(samples: float, device: torch.device) -> bool:
    """Return whether the keys of a prompt with so many samples are kept once for all of them."""
    return samples >= (_SHARED_FROM if device.type == "cpu" else _SHARED_FROM_ON_A_GPU)


def _stacks_prompts(device: torch.device) -> bool:
    """Return whether all shared prompts are one padded tensor, and not one each with its rows.

    On a CPU each prompt is computed with its own rows, in sums whose order no other prompt changes.
    A GPU would wait for the launch of each, so that there all of them are computed together.
    """
    is_cpu: bool = device.type == "cpu"
    return not is_cpu


@dataclasses.dataclass(eq=False)
class Prompt:
    """A prompt that has been evaluated."""

    states: list[torch.Tensor]  # (H, L, D) each: keys of a layer, then its values, layer by layer
    logits: torch.Tensor  # (V,) after it

    @property
    def length(self) -> int:
        """Return the number of tokens."""
        return int(self.states[0].shape[1])


RowsOf = Mapping[Prompt, list[int]]
"""The rows of each prompt in a batch."""


def rows_of(prompts: Sequence[Prompt | None], rows: Sequence[int]) -> dict[Prompt, list[int]]:
    """Return the rows of each prompt, without those that have ended, whose prompt is None."""
    rows_of_prompt: dict[Prompt, list[int]] = {}
    for prompt, row in zip(prompts, rows, strict=True):
        if prompt is not None:
            rows_of_prompt.setdefault(prompt, []).append(row)
    return rows_of_prompt


@dataclasses.dataclass
class SharedStates:
    """The states of N prompts and their R' rows, dealt to (N, M) places, the last ones filled up.

    `mask` is -inf behind the end of a prompt, and None for a single one.
    """

    rows: torch.Tensor  # (R',)
    dealt: torch.Tensor  # (N, M), the row at each place
    real: torch.Tensor | slice  # the places (flat) that are not filling
    states: list[torch.Tensor]  # (N, H, L, D) each, as those of a prompt
    mask: torch.Tensor | None  # (R', 1, 1, L)

    def product(self, states: torch.Tensor, prompts: torch.Tensor) -> torch.Tensor:
        """Return the products (R', H, G, Y) of these rows of (R, H, G, X) with (N, H, X, Y)."""
        # The M rows of a prompt and the G queries of a head are the rows of one matrix, (M G, X).
        by_head = states[self.dealt].transpose(1, 2)  # (N, H, M, G, X)
        products = torch.matmul(by_head.flatten(2, 3), prompts)
        by_place = products.unflatten(2, by_head.shape[2:4]).transpose(1, 2)  # (N, M, H, G, Y)
        return by_place.flatten(0, 1)[self.real]


class Stacks:
    """Makes `SharedStates`, and keeps the last stack of several prompts while their rows end."""

    def __init__(self) -> None:
        self._prompts: list[Prompt] = []
        self._states: list[torch.Tensor] = []

    def shared(self, rows_of_prompt: RowsOf, device: torch.device) -> list[SharedStates]:
        """Return the states that rows share: on a CPU those of each prompt, else all in one."""
        if not rows_of_prompt:
            return []
        if _stacks_prompts(device):
            return [self._of(rows_of_prompt, device)]
        return [self._of({prompt: rows}, device) for prompt, rows in rows_of_prompt.items()]

    def _of(self, rows_of_prompt: RowsOf, device: torch.device) -> SharedStates:
        prompts = list(rows_of_prompt)
        most = max(FEWEST, *map(len, rows_of_prompt.values()))
        # The first row of a prompt fills up the places that are left.
        dealt = [rows + rows[:1] * (most - len(rows)) for rows in rows_of_prompt.values()]
        listed = [row for rows in rows_of_prompt.values() for row in rows]
        all_rows = torch.tensor(listed, device=device)
        dealt_rows = torch.tensor(dealt, device=device)
        if len(prompts) == 1:
            states = [part[None] for part in prompts[0].states]
            return SharedStates(all_rows, dealt_rows, slice(len(all_rows)), states, None)
        real_places = [
            number * most + place
            for number, rows in enumerate(rows_of_prompt.values())
            for place in range(len(rows))
        ]
        states = self._stacked(prompts)
        lengths = [prompt.length for prompt, rows in rows_of_prompt.items() for _ in rows]
        is_behind = torch.arange(states[0].shape[2]) >= torch.tensor(lengths)[:, None]
        mask = torch.where(is_behind, -torch.inf, 0.0)[:, None, None]
        real = torch.tensor(real_places, device=device)
        return SharedStates(all_rows, dealt_rows, real, states, mask.to(device))

    def _stacked(self, prompts: list[Prompt]) -> list[torch.Tensor]:
        """Return the states of prompts, (N, H, L, D) each, with zeros behind their ends."""
        if self._prompts != prompts:
            length = aligned(max(prompt.length for prompt in prompts), _ALIGN)
            layers = zip(*(prompt.states for prompt in prompts), strict=True)
            self._prompts = prompts
            self._states = [_padded(states, length) for states in layers]
        return self._states


def width_of(shared: Sequence[SharedStates]) -> int:
    """Return the positions of scores against shared prompts, a multiple of 16; 0 for none."""
    return aligned(max((part.states[0].shape[2] for part in shared), default=0), _ALIGN)


def aligned(positions: int, size: int) -> int:
    """Return a number of positions rounded up to a multiple of `size`."""
    return -(-positions // size) * size


def _padded(states: Sequence[torch.Tensor], length: int) -> torch.Tensor:
    """Return (N, H, length, D) of N times (H, L, D), with zeros behind."""
    pad = torch.nn.functional.pad
    return torch.stack([pad(part, (0, 0, 0, length - part.shape[1])) for part in states])
