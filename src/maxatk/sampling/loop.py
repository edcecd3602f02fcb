"""The sampling loop over a queue of prompts: rows that end make room for the next ones."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

from maxatk.errors import InvalidValueError
from maxatk.sampling.decoder import Decoder
from maxatk.sampling.draw import Stopper, draw_tokens
from maxatk.sampling.lone_decoder import LoneDecoder
from maxatk.sampling.prompt_states import Prompt
from maxatk.sampling.settings import SamplingSettings

# Dropping rows moves others within the cache: it pays once enough of them have ended.
_DROP_BELOW = 0.9
# Prompts are evaluated once a share of the rows is free, together where that pays.
_REFILL_AT = 0.125
_PROMPTS_AT_ONCE_ON_A_GPU = 16
_TOKENS_AT_ONCE = 1 << 14  # of them, with the filling: activations of long prompts are large
# Times as many prompts at most are taken from the queue, to evaluate those of about one length
# together: shorter ones are filled up.
_LOOK_AHEAD = 4

Row: TypeAlias = tuple[Any, list[int]]
"""The key of a row and its ids so far."""


@dataclasses.dataclass(frozen=True)
class Work:
    """Rows to draw after one prompt: ids, a key for each row, and uniform noise (rows, T)."""

    prompt: Sequence[int]
    keys: Sequence[Any]
    noise: np.ndarray


@dataclasses.dataclass(frozen=True)
class DrawnRow:
    """One row: its ids with the end token, and sums over them in nats."""

    key: Any
    ids: list[int]
    ended: bool  # by the end token or a stop, and not by its length
    logprob: float
    entropy: float


@dataclasses.dataclass(frozen=True)
class _RowTensors:
    """What a step needs of each row, which stays on the device from step to step."""

    noise: torch.Tensor  # (rows, T), uniform in [0, 1)
    counts: torch.Tensor  # (rows,), how many tokens have been drawn
    logprobs: torch.Tensor  # (rows,), the sum over these tokens
    entropies: torch.Tensor  # (rows,), likewise
    last_tokens: torch.Tensor  # (rows,), which the next step goes on from

    @classmethod
    def zeros(cls, rows: int, tokens: int, device: torch.device) -> _RowTensors:
        """Return the tensors of rows that have not begun, of so many tokens at most."""
        return cls(
            noise=torch.zeros((rows, tokens), device=device),
            counts=torch.zeros(rows, dtype=torch.long, device=device),
            logprobs=torch.zeros(rows, dtype=torch.float64, device=device),
            entropies=torch.zeros(rows, dtype=torch.float64, device=device),
            last_tokens=torch.zeros(rows, dtype=torch.long, device=device),
        )

    def begin(self, rows: torch.Tensor, noise: torch.Tensor) -> None:
        """Set some rows to their start, with noise of their own."""
        for tensor in (self.counts, self.logprobs, self.entropies, self.last_tokens):
            tensor[rows] = 0
        self.noise[rows] = noise

    def keep(self, rows: torch.Tensor) -> None:
        """Move some rows to the front, in their order."""
        for tensor in (self.noise, self.counts, self.logprobs, self.entropies, self.last_tokens):
            tensor[: len(rows)] = tensor[rows]


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
        self._decoder = decoder
        self._settings = settings
        self._stopper = stopper
        self._device = decoder.model.device
        self._end_tokens = frozenset(end_tokens)
        self._upcoming: list[Work] = []  # taken from the queue, its prompts not yet evaluated
        # A prompt, a key and noise of each row that waits for a place.
        self._ready: collections.deque[tuple[Prompt, Any, np.ndarray]] = collections.deque()
        self._rows: list[Row | None] = [None] * decoder.fewest  # None where one has ended
        self._tensors = _RowTensors.zeros(decoder.rows, settings.max_new_tokens, self._device)

    def run(self, queue: Iterable[Work]) -> Iterator[list[DrawnRow]]:
        """Yield rows as they end; raise InvalidValueError for logits that are no distribution."""
        queue = iter(queue)
        rows = self._decoder.rows
        while True:
            # Not around the yield: what the caller computes meanwhile may need gradients.
            with torch.inference_mode():
                alive = sum(row is not None for row in self._rows)
                has_waiting = alive < rows and self._prepare_rows(queue)
                if has_waiting and (not alive or rows - alive >= rows * _REFILL_AT):
                    ended = self._admit(queue)
                elif alive:
                    if not has_waiting:  # waiting rows would take the places of the ended ones
                        self._drop_ended(alive)
                    ended = self._step()
                else:
                    return
            if ended:
                yield ended

    def _prepare_rows(self, queue: Iterator[Work]) -> bool:
        """Evaluate the next prompts of the queue if no row is ready; return whether one is now."""
        if self._ready:
            return True
        works = self._next_works(queue)
        prompts = self._decoder.evaluate([work.prompt for work in works]) if works else []
        for work, prompt in zip(works, prompts, strict=True):
            self._ready += zip(itertools.repeat(prompt), work.keys, work.noise, strict=False)
        return bool(self._ready)

    def _next_works(self, queue: Iterator[Work]) -> list[Work]:
        """Return the works whose prompts are evaluated next, together: of about one length."""
        most = _prompts_at_once(self._device)
        if not self._upcoming:
            self._upcoming = self._look_ahead(queue, _LOOK_AHEAD * most if most > 1 else 1)
        lengths = [len(work.prompt) for work in self._upcoming[:most]]
        while len(lengths) > 1 and len(lengths) * max(lengths) > _TOKENS_AT_ONCE:
            lengths.pop()
        works = self._upcoming[: len(lengths)]
        self._upcoming = self._upcoming[len(lengths) :]
        return works

    def _look_ahead(self, queue: Iterator[Work], most: int) -> list[Work]:
        """Take the next works, by the length of their prompts: `most`, or those of one batch.

        None is taken before the last of these has begun. Otherwise a long prompt would wait for all
        shorter ones of the queue, and a caller that needs rows in order would wait for it.
        """
        works = []
        rows = 0
        for work in itertools.islice(queue, most):
            works.append(work)
            rows += len(work.keys)
            if rows >= self._decoder.rows:
                break
        return sorted(works, key=lambda work: len(work.prompt))

    def _admit(self, queue: Iterator[Work]) -> list[DrawnRow]:
        """Let waiting rows begin in the free places; return those that their first token ends."""
        free = [row for row, content in enumerate(self._rows) if content is None]
        free += range(len(self._rows), self._decoder.rows)
        admitted: list[int] = []
        prompts: list[Prompt] = []
        noise_of_rows: list[np.ndarray] = []
        for row in free:
            if not self._prepare_rows(queue):
                break
            prompt, key, noise = self._ready.popleft()
            admitted.append(row)
            prompts.append(prompt)
            noise_of_rows.append(noise)
            if row == len(self._rows):
                self._rows.append(None)
            self._rows[row] = (key, [])
        index = torch.tensor(admitted, device=self._device)
        self._tensors.begin(index, torch.from_numpy(np.stack(noise_of_rows)).to(self._device))
        self._decoder.admit(admitted, prompts)
        first_logits = torch.stack([prompt.logits for prompt in prompts])
        return self._draw_next(admitted, first_logits)

    def _step(self) -> list[DrawnRow]:
        """Draw a token for every row; return those that it ends."""
        width = len(self._rows)
        logits = self._decoder.step(self._tensors.last_tokens[:width])
        return self._draw_next(range(width), logits)

    def _drop_ended(self, alive: int) -> None:
        """Make the batch narrower where enough of its rows have ended."""
        left = max(alive, self._decoder.fewest)
        if left >= _DROP_BELOW * len(self._rows):
            return
        kept = list(range(left))  # as few rows moved as possible: those behind fill the gaps
        behind = [row for row in range(left, len(self._rows)) if self._rows[row] is not None]
        gaps = [row for row in kept if self._rows[row] is None]
        for gap, row in zip(gaps, behind, strict=False):
            kept[gap] = row
        self._decoder.keep(kept)
        self._tensors.keep(torch.tensor(kept, device=self._device))
        self._rows = [self._rows[row] for row in kept]

    def _draw_next(self, rows: Sequence[int], logits: torch.Tensor) -> list[DrawnRow]:
        """Draw a token for each of these rows and return those that it ends."""
        tensors = self._tensors
        if isinstance(rows, range):  # which the device can count itself
            index = torch.arange(len(rows), device=self._device)
        else:
            index = torch.tensor(rows, device=self._device)
        # Rows that have ended are computed on, and would count beyond their noise.
        counts = tensors.counts[index].clamp(max=self._settings.max_new_tokens - 1)
        tokens = draw_tokens(logits, tensors.noise[index, counts], self._settings)
        tensors.logprobs[index] += tokens.logprobs.double()
        tensors.entropies[index] += tokens.entropies.double()
        tensors.counts[index] = counts + 1
        tensors.last_tokens[index] = tokens.ids
        # The only time that a step waits for the device.
        ids, unknown = torch.stack([tokens.ids, tokens.logprobs.isnan()]).tolist()
        ended = self._append(rows, ids, unknown)
        if not ended:
            return []
        self._decoder.release(list(ended))
        index = torch.tensor(list(ended), device=self._device)
        logprobs = tensors.logprobs[index].tolist()
        entropies = tensors.entropies[index].tolist()
        return [
            DrawnRow(key, row_ids, stopped, logprob, entropy)
            for (key, row_ids, stopped), logprob, entropy in zip(
                ended.values(), logprobs, entropies, strict=True
            )
        ]

    def _append(
        self, rows: Sequence[int], tokens: Sequence[int], unknown: Sequence[int]
    ) -> dict[int, tuple[Any, list[int], bool]]:
        """Append a token to each row, and free the rows that it ends.

        Returns the key and the ids of each of those, and whether it stopped by itself.
        """
        ended = {}
        for row, token, is_unknown in zip(rows, tokens, unknown, strict=True):
            content = self._rows[row]
            if content is None:
                continue
            key, ids = content
            if is_unknown:
                where = f"sample {key!r}, token {len(ids) + 1}"
                reason = _why_logits_break(self._decoder.model)
                raise InvalidValueError(
                    f"model: its logits are NaN or infinite in {where}; {reason}"
                )
            ids.append(token)
            stopped = token in self._end_tokens or self._stopper.ends(ids)
            if stopped or len(ids) == self._settings.max_new_tokens:
                ended[row] = (key, ids, stopped)
                self._rows[row] = None
        return ended


def _prompts_at_once(device: torch.device) -> int:
    """Return how many prompts are evaluated together at most.

    One prompt keeps a CPU busy, and alone it repeats to the last bit. A GPU has room for more.
    """
    return 1 if device.type == "cpu" else _PROMPTS_AT_ONCE_ON_A_GPU


def _why_logits_break(model: Any) -> str:
    """Return whether it is the weights, in words."""
    weights = dict(model.named_parameters())
    broken = [name for name, weight in weights.items() if not weight.isfinite().all()]
    if broken:
        return f"so are {len(broken)} of its {len(weights)} weights, the first of them {broken[0]}"
    dtype = str(model.dtype).removeprefix("torch.")
    attention = model.config._attn_implementation
    return (
        f"its weights are finite, so another dtype than {dtype} or another attn_implementation "
        f"than {attention} may help"
    )
