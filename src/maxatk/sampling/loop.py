"""The sampling loop over a queue of prompts: rows that end make room for the next ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from maxatk.errors import InvalidValueError
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
    """One row: its ids with the end token, and sums over them in nats.

    `ended` tells whether the end token or a stop ended it, and not its length.
    """

    key: Any
    ids: list[int]
    ended: bool
    logprob: float
    entropy: float


class Loop:
    """Draws the rows of a queue of work with at most `rows` under way at a time.

    A row depends on its prompt and its noise alone, up to the rounding of the matrix products.

    Args:
        decoder: A `Decoder` or a `LoneDecoder` of the model.
        settings: How tokens are drawn.
        rows: The most rows under way at a time.
        shared: Whether a prompt's keys and values are kept once for all of its rows.
        end_tokens: Ids that end a row.
        stopper: What else ends one.
    """

    def __init__(
        self,
        decoder: Any,
        settings: SamplingSettings,
        *,
        rows: int,
        shared: bool,
        end_tokens: Sequence[int],
        stopper: Stopper,
    ) -> None:
        self._decoder, self._settings = decoder, settings
        self._rows, self._shared, self._stopper = rows, shared, stopper
        self._device = device = decoder.model.device
        self._ends = torch.tensor(end_tokens, dtype=torch.long, device=device)
        self._keys: list[Any] = []  # of every row of the batch; None where it has ended
        self._ids: list[list[int]] = []  # of every row, where texts can end one
        places, sums = (0, settings.max_new_tokens), {"dtype": torch.float64, "device": device}
        self._state = {
            "noise": torch.zeros(places, device=device),
            "tokens": torch.zeros(places, dtype=torch.long, device=device),
            "counts": torch.zeros(0, dtype=torch.long, device=device),
            "logprobs": torch.zeros(0, **sums),
            "entropies": torch.zeros(0, **sums),
            "last": torch.zeros(0, dtype=torch.long, device=device),
        }

    def run(self, queue: Iterator[Work]) -> Iterator[list[Drawn]]:
        """Yield rows as they end, until the queue is empty.

        Raises InvalidValueError naming the row whose logits are no distribution.
        """
        waiting = _Waiting(queue, lambda some: self._decoder.evaluate(some, shared=self._shared))
        while True:
            while self._room(waiting):
                with torch.inference_mode():
                    drawn = self._admit(waiting)
                yield from [drawn] if drawn else []
            if not self._alive():
                return
            with torch.inference_mode():
                self._drop(waiting)
                logits = self._decoder.step(self._state["last"])
                drawn = self._take(list(range(len(self._keys))), logits)
            yield from [drawn] if drawn else []

    def _alive(self) -> int:
        return sum(key is not None for key in self._keys)

    def _room(self, waiting: _Waiting) -> bool:
        alive = self._alive()
        free = self._rows - alive
        if alive and (not self._decoder.refills or free < max(1, self._rows * _REFILL_AT)):
            return False
        return free > 0 and not waiting.empty()

    def _admit(self, waiting: _Waiting) -> list[Drawn]:
        if not self._decoder.refills:
            self._resize([])
        free = [row for row, key in enumerate(self._keys) if key is None]
        free += range(len(self._keys), self._rows)
        at_once = _PROMPTS_AT_ONCE.get(self._device.type, _OTHER_PROMPTS_AT_ONCE)
        rows: list[int] = []
        logits = []
        while len(rows) < len(free) and not waiting.empty():
            most = len(free) - len(rows)
            prompt, keys, noise = waiting.take(most, at_once if self._decoder.refills else 1)
            taken = free[len(rows) : len(rows) + len(keys)]
            self._place(taken, keys, noise)
            self._decoder.admit(taken, prompt)
            logits.append(prompt.logits.expand(len(keys), -1))
            rows += taken
            if not self._decoder.refills:
                waiting.forget()
                break
        return self._take(rows, torch.cat(logits))

    def _place(self, rows: Sequence[int], keys: Sequence[Any], noise: np.ndarray) -> None:
        width = max(self._decoder.fewest, max(rows) + 1, len(self._keys))
        self._resize(range(len(self._keys)), added=width - len(self._keys))
        index = torch.tensor(rows, device=self._device)
        for name, value in self._state.items():
            value[index] = torch.from_numpy(noise).to(self._device) if name == "noise" else 0
        for row, key in zip(rows, keys, strict=True):
            self._keys[row], self._ids[row] = key, []

    def _resize(self, kept: Sequence[int], *, added: int = 0) -> None:
        """Make row i what row kept[i] was, and add so many ended ones."""
        index = torch.tensor(kept, dtype=torch.long, device=self._device)
        for name, value in self._state.items():
            filling = value.new_zeros((added, *value.shape[1:]))
            self._state[name] = torch.cat([value[index], filling])
        self._keys = [self._keys[row] for row in kept] + [None] * added
        self._ids = [self._ids[row] for row in kept] + [[]] * added

    def _drop(self, waiting: _Waiting) -> None:
        if self._decoder.refills and not waiting.empty():
            return  # others take their place
        left = max(self._alive(), self._decoder.fewest)
        if left >= _DROP_BELOW * len(self._keys):
            return
        kept = list(range(left))  # as few rows moved as possible: those behind fill the gaps
        behind = [row for row in range(left, len(self._keys)) if self._keys[row] is not None]
        gaps = [row for row in kept if self._keys[row] is None]
        for gap, row in zip(gaps, behind, strict=False):
            kept[gap] = row
        self._decoder.keep(kept)
        self._resize(kept)

    def _take(self, rows: list[int], logits: torch.Tensor) -> list[Drawn]:
        """Draw a token for each of these rows and return those that it ends."""
        state, settings = self._state, self._settings
        index = self._index_of(rows)
        places = state["counts"][index].clamp(max=settings.max_new_tokens - 1)
        found = draw_tokens(logits, state["noise"][index, places], settings)
        state["tokens"][index, places] = found.ids
        state["logprobs"][index] += found.logprobs.double()
        state["entropies"][index] += found.entropies.double()
        state["counts"][index] = places + 1
        state["last"][index] = found.ids
        told = [
            torch.isin(found.ids, self._ends),
            places + 1 == settings.max_new_tokens,
            found.logprobs.isnan(),
        ]
        # The only time that a step waits for the device.
        columns = torch.stack([found.ids, *told]).tolist()
        over = {}
        for row, token, stop, last, unknown in zip(rows, *columns, strict=True):
            if self._keys[row] is not None:
                if unknown:
                    raise InvalidValueError(
                        f"model: its logits are NaN or infinite in sample {self._keys[row]!r}; "
                        "the weights are broken, or too large for the dtype"
                    )
                stops = bool(stop) or self._stops(row, token)
                if stops or last:
                    over[row] = stops
        return self._collect(over) if over else []

    def _index_of(self, rows: list[int]) -> torch.Tensor:
        if rows == list(range(len(rows))):  # which the device can count itself
            return torch.arange(len(rows), device=self._device)
        return torch.tensor(rows, device=self._device)

    def _stops(self, row: int, token: int) -> bool:
        if not self._stopper.active:
            return False
        self._ids[row].append(token)
        return self._stopper.ends(self._ids[row])

    def _collect(self, over: dict[int, bool]) -> list[Drawn]:
        index = torch.tensor(list(over), device=self._device)
        names = ("tokens", "counts", "logprobs", "entropies")
        columns = [self._state[name][index].tolist() for name in names]
        drawn = [
            Drawn(self._keys[row], ids[:count], stop, logprob, entropy)
            for (row, stop), ids, count, logprob, entropy in zip(
                over.items(), *columns, strict=True
            )
        ]
        for row in over:
            self._keys[row] = None
        self._decoder.release(list(over))
        return drawn


class _Waiting:
    """The work that is left, with the prompts of the next ones evaluated."""

    def __init__(
        self,
        queue: Iterator[Work],
        evaluate: Callable[[Sequence[Sequence[int]]], list[Any]],
    ) -> None:
        self._queue, self._evaluate = queue, evaluate
        self._ahead: list[Work] = []
        self._prompts: list[Any] = []  # of the first ones ahead
        self._taken = 0  # rows of the first one ahead

    def empty(self) -> bool:
        self._look(1)
        return not self._ahead

    def take(self, most: int, at_once: int) -> tuple[Any, Sequence[Any], np.ndarray]:
        """Return a prompt with at most so many of its rows: their keys and noise."""
        if not self._prompts:
            if at_once > 1:
                self._look(_LOOKED_AT * at_once)
                self._ahead.sort(key=lambda work: len(work.prompt))
            lengths = [len(work.prompt) for work in self._ahead[:at_once]]
            while len(lengths) > 1 and len(lengths) * max(lengths) > _TOKENS_AT_ONCE:
                lengths.pop()
            self._prompts = self._evaluate([work.prompt for work in self._ahead[: len(lengths)]])
        work, prompt, start = self._ahead[0], self._prompts[0], self._taken
        stop = min(start + most, len(work.keys))
        self._taken = stop
        if stop == len(work.keys):
            self._taken = 0
            del self._ahead[0], self._prompts[0]
        return prompt, work.keys[start:stop], work.noise[start:stop]

    def forget(self) -> None:
        """Forget evaluated prompts: they serve once."""
        self._prompts = []

    def _look(self, count: int) -> None:
        while len(self._ahead) < count:
            work = next(self._queue, None)
            if work is None:
                return
            self._ahead.append(work)
