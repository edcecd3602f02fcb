"""The sampling loop over a queue of prompts: rows that end make room for the next ones."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from maxatk.errors import InvalidValueError
from maxatk.sampling.decoding import Decoder, LoneDecoder, Prompt
from maxatk.sampling.draw import Stopper, draw_tokens
from maxatk.sampling.settings import SamplingSettings

# Dropping rows moves others within the cache: it pays once enough of them have ended.
_DROP_BELOW = 0.9
# Prompts are evaluated once a share of the rows is free, together where that pays.
_REFILL_AT = 0.125
_PROMPTS_AT_ONCE = {"cpu": 1}  # a GPU is not busy with one; a CPU is, and repeats to the last bit
_OTHER_PROMPTS_AT_ONCE = 16
_TOKENS_AT_ONCE = 1 << 14  # of them, with the filling: activations of long prompts are large
_LOOKED_AT = 4  # times as many, for those of about one length: the shorter ones are filled up


@dataclasses.dataclass(frozen=True)
class Work:
    """Rows to draw after one prompt: ids, a key for each row, and uniform noise (rows, T)."""

    prompt: Sequence[int]
    keys: Sequence[Any]
    noise: np.ndarray


@dataclasses.dataclass(frozen=True)
class Drawn:
    """One row: its ids with the end token, and sums over them in nats."""

    key: Any
    ids: list[int]
    ended: bool  # by the end token or a stop, and not by its length
    logprob: float
    entropy: float


class Loop:
    """Draws the rows of a queue of work, as many at a time as the decoder has.

    `end_tokens` are ids that end a row, and `stopper` tells what else does.
    """

    def __init__(
        self,
        decoder: Decoder | LoneDecoder,
        settings: SamplingSettings,
        *,
        end_tokens: Sequence[int],
        stopper: Stopper,
    ) -> None:
        self._decoder, self._settings, self._stopper = decoder, settings, stopper
        self._device = device = decoder.model.device
        self._ends = frozenset(end_tokens)
        self._ahead: list[Work] = []
        self._ready: collections.deque[tuple[Prompt, Any, np.ndarray]] = collections.deque()
        # The key and the ids of every row; None where it has ended.
        self._rows: list[tuple[Any, list[int]] | None] = [None] * decoder.fewest
        rows = decoder.rows
        self._state = {
            "noise": torch.zeros((rows, settings.max_new_tokens), device=device),
            "counts": torch.zeros(rows, dtype=torch.long, device=device),
            "logprobs": torch.zeros(rows, dtype=torch.float64, device=device),
            "entropies": torch.zeros(rows, dtype=torch.float64, device=device),
            "last": torch.zeros(rows, dtype=torch.long, device=device),
        }

    def run(self, queue: Iterable[Work]) -> Iterator[list[Drawn]]:
        """Yield rows as they end; raise InvalidValueError for logits that are no distribution."""
        queue, rows = iter(queue), self._decoder.rows
        while True:
            with torch.inference_mode():
                alive = sum(row is not None for row in self._rows)
                waits = alive < rows and self._waits(queue)
                if waits and (not alive or rows - alive >= rows * _REFILL_AT):
                    drawn = self._admit(queue)
                elif alive:
                    if not waits:  # where others wait, they take the places of the ended ones
                        self._drop(alive)
                    width = len(self._rows)
                    logits = self._decoder.step(self._state["last"][:width])
                    drawn = self._take(range(width), logits)
                else:
                    return
            if drawn:
                yield drawn

    def _waits(self, queue: Iterator[Work]) -> bool:
        """Return whether a row waits, whose prompt is then evaluated, with those of the next."""
        if not self._ready:
            most = _PROMPTS_AT_ONCE.get(self._device.type, _OTHER_PROMPTS_AT_ONCE)
            looked_at = _LOOKED_AT * most if most > 1 else 1
            self._ahead += itertools.islice(queue, looked_at - len(self._ahead))
            self._ahead.sort(key=lambda work: len(work.prompt))
            lengths = [len(work.prompt) for work in self._ahead[:most]]
            while len(lengths) > 1 and len(lengths) * max(lengths) > _TOKENS_AT_ONCE:
                lengths.pop()
            some, self._ahead = self._ahead[: len(lengths)], self._ahead[len(lengths) :]
            prompts = self._decoder.evaluate([work.prompt for work in some]) if some else []
            for work, prompt in zip(some, prompts, strict=True):
                self._ready += zip(itertools.repeat(prompt), work.keys, work.noise, strict=False)
        return bool(self._ready)

    def _admit(self, queue: Iterator[Work]) -> list[Drawn]:
        free = [place for place, row in enumerate(self._rows) if row is None]
        free += range(len(self._rows), self._decoder.rows)
        taken = [(row, *self._ready.popleft()) for row in free if self._waits(queue)]
        rows, prompts, keys, noise = zip(*taken, strict=True)
        index = torch.tensor(rows, device=self._device)
        for value in self._state.values():
            value[index] = 0
        self._state["noise"][index] = torch.from_numpy(np.stack(noise)).to(self._device)
        self._rows += [None] * (rows[-1] + 1 - len(self._rows))
        for row, key in zip(rows, keys, strict=True):
            self._rows[row] = key, []
        self._decoder.admit(rows, prompts)
        return self._take(rows, torch.stack([prompt.logits for prompt in prompts]))

    def _drop(self, alive: int) -> None:
        left = max(alive, self._decoder.fewest)
        if left >= _DROP_BELOW * len(self._rows):
            return
        kept = list(range(left))  # as few rows moved as possible: those behind fill the gaps
        behind = [row for row in range(left, len(self._rows)) if self._rows[row] is not None]
        gaps = [row for row in kept if self._rows[row] is None]
        for gap, row in zip(gaps, behind, strict=False):
            kept[gap] = row
        self._decoder.keep(kept)
        index = torch.tensor(kept, device=self._device)
        for value in self._state.values():
            value[:left] = value[index]
        self._rows = [self._rows[row] for row in kept]

    def _take(self, rows: Sequence[int], logits: torch.Tensor) -> list[Drawn]:
        """Draw a token for each of these rows and return those that it ends."""
        state, most = self._state, self._settings.max_new_tokens
        if isinstance(rows, range):  # which the device can count itself
            index = torch.arange(len(rows), device=self._device)
        else:
            index = torch.tensor(rows, device=self._device)
        places = state["counts"][index].clamp(max=most - 1)
        found = draw_tokens(logits, state["noise"][index, places], self._settings)
        state["logprobs"][index] += found.logprobs.double()
        state["entropies"][index] += found.entropies.double()
        state["counts"][index] = places + 1
        state["last"][index] = found.ids
        # The only time that a step waits for the device.
        columns = torch.stack([found.ids, found.logprobs.isnan()]).tolist()
        over: dict[int, tuple[Any, list[int], bool]] = {}
        for place, token, unknown in zip(rows, *columns, strict=True):
            if (row := self._rows[place]) is None:
                continue
            key, ids = row
            if unknown:
                raise InvalidValueError(
                    f"model: its logits are NaN or infinite in sample {key!r}; "
                    "the weights are broken, or too large for the dtype"
                )
            ids.append(token)
            ended = token in self._ends or self._stopper.ends(ids)
            if ended or len(ids) == most:
                over[place], self._rows[place] = (key, ids, ended), None
        if not over:
            return []
        self._decoder.release(list(over))
        index = torch.tensor(list(over), device=self._device)
        sums = [state[name][index].tolist() for name in ("logprobs", "entropies")]
        return [Drawn(*row, *both) for row, *both in zip(over.values(), *sums, strict=True)]
