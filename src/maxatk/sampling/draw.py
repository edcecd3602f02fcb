"""Tokens drawn from logits, and where a completion ends before its end token."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from maxatk.sampling.settings import SamplingSettings

_BLOCK = 256  # tokens whose masses are summed before the cumulative distribution is taken
_CHUNK = 1 << 19  # logits handled at once on a CPU: 2 MiB of float32 stay in its cache
# Where the set of likely tokens begins, relative to the most probable one; the next value is tried
# where the set before was too small.
_LIKELY = (2.0**-10, 2.0**-16, 0.0)

_FENCE = re.compile(r"^[ \t]*(```+|~~~+)[ \t]*([^\n`]*)\n", re.MULTILINE)
_TOKENS_A_CHARACTER = 4  # of tokenizers that fall back to bytes
_BEFORE = 4  # tokens more, for what a tokenizer strips at the beginning of a text


class Tokens(NamedTuple):
    """One token a row: its id, its log-probability and the entropy it was drawn at, in nats."""

    ids: torch.Tensor
    logprobs: torch.Tensor
    entropies: torch.Tensor


def draw_tokens(logits: torch.Tensor, noise: torch.Tensor, settings: SamplingSettings) -> Tokens:
    """Draw one token a row from logits (R, V) with uniform noise (R,) in [0, 1).

    Log-probabilities and entropies are those of softmax(logits / temperature) before any cut, at
    temperature 1 where the temperature is 0. They are NaN, and the token is any, where logits are
    NaN, infinite or all -infinite. A row does not depend on the other rows.
    """
    rows = len(logits)
    if logits.device.type == "cpu":
        rows = max(1, _CHUNK // logits.shape[1])
    chunks = [
        _draw_chunk(logits_chunk, noise_chunk, settings)
        for logits_chunk, noise_chunk in zip(logits.split(rows), noise.split(rows), strict=True)
    ]
    if len(chunks) == 1:
        return chunks[0]
    return Tokens(*(torch.cat(column) for column in zip(*chunks, strict=True)))


def _draw_chunk(logits: torch.Tensor, noise: torch.Tensor, settings: SamplingSettings) -> Tokens:
    """Return `draw_tokens` of some rows, with tables of their masses, exp(logit), in memory."""
    scaled = logits.float()
    if settings.temperature not in (0, 1):
        scaled = scaled / settings.temperature
    # Offset so that the most probable token has mass 1.
    scaled = scaled - scaled.amax(-1, keepdim=True)
    blocks = math.ceil(scaled.shape[1] / _BLOCK)
    masses = scaled.new_zeros((len(scaled), blocks * _BLOCK))
    torch.exp(scaled, out=masses[:, : scaled.shape[1]])
    sums = masses.view(len(scaled), blocks, _BLOCK).sum(-1)
    total = sums.sum(-1)
    if settings.temperature == 0:
        ids = scaled.argmax(-1)
    elif settings.top_p < 1 or settings.top_k > 0 or settings.min_p > 0:
        ids = _draw_cut(masses, total, noise, settings)
    else:
        ids = _draw_whole(masses, sums, noise).clamp_(max=scaled.shape[1] - 1)
    log_total = total.log()
    logprobs = scaled.gather(1, ids[:, None]).squeeze(1) - log_total
    # The mean of a masked token, 0 * -inf, would be NaN.
    finite = scaled.clamp_(min=torch.finfo(torch.float32).min)
    weighted = torch.linalg.vecdot(masses[:, : finite.shape[1]], finite)
    entropies = log_total - weighted / total  # -sum p log p, p = mass / total
    return Tokens(ids, logprobs, entropies)


def _draw_whole(masses: torch.Tensor, sums: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Return the token of each row where the noise falls, from its masses and sums of blocks."""
    # First the block, then the token in it: the cumulative sum over a vocabulary is the slowest
    # part of drawing from it.
    cumulative = sums.cumsum(-1)
    target = noise * cumulative[:, -1]
    block = _invert(cumulative, target)
    before = (cumulative - sums).gather(1, block[:, None]).squeeze(1)
    rows = torch.arange(len(masses), device=masses.device)
    within = masses.view(len(masses), -1, _BLOCK)[rows, block].cumsum(-1)
    return block * _BLOCK + _invert(within, target - before)


def _draw_cut(
    masses: torch.Tensor, total: torch.Tensor, noise: torch.Tensor, settings: SamplingSettings
) -> torch.Tensor:
    """Return the token of each row where the noise falls among those that the cuts keep."""
    likely, tokens = _likely(masses, total, settings)
    ordered, order = likely.sort(dim=-1, descending=True, stable=True)
    if settings.top_k:
        ordered[:, settings.top_k :] = 0.0
    if settings.top_p < 1:
        # top_p is a share of what the cuts before it have left.
        left = ordered.sum(-1) if settings.top_k or settings.min_p else total
        before = ordered.cumsum(-1) - ordered
        ordered = ordered.masked_fill(before >= settings.top_p * left[:, None], 0.0)
    # Back in the order of the vocabulary: the same noise draws near tokens with and without a cut.
    cumulative = torch.zeros_like(likely).scatter(1, order, ordered).cumsum(-1)
    column = _invert(cumulative, noise * cumulative[:, -1])
    return tokens.gather(1, column[:, None]).squeeze(1)


def _likely(
    masses: torch.Tensor, total: torch.Tensor, settings: SamplingSettings
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return masses and tokens (R, N), in order, of a set with all those kept; 0 behind it."""
    by_mass = not settings.top_k and not settings.min_p
    # min_p alone says itself where its set begins.
    bounds = _LIKELY if settings.top_k or by_mass else (0.0,)
    for least in bounds:
        bound = max(least, settings.min_p)
        chosen = (masses >= bound) & (masses > 0)
        counts = chosen.sum(-1)
        if by_mass:
            enough = (masses * chosen).sum(-1) >= settings.top_p * total
        else:
            enough = counts >= settings.top_k
        if bound == settings.min_p or bool(enough.all()):
            break
    row, token = chosen.nonzero(as_tuple=True)
    # The column of a token: its number among all chosen ones, from the first of its row on.
    firsts = counts.cumsum(0) - counts
    column = torch.arange(len(row), device=row.device) - firsts[row]
    shape = (len(masses), max(int(counts.max()), 1))  # none in rows that are NaN
    tokens = token.new_zeros(shape).index_put((row, column), token)
    likely = masses.new_zeros(shape).index_put((row, column), masses[row, token])
    return likely, tokens


def _invert(cumulative: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the first column of each row whose cumulative mass exceeds the target, (R,)."""
    # The target stays in [0, total): rounded below or up to it, a token of probability zero would
    # be drawn.
    total = cumulative[:, -1]
    below_total = torch.nextafter(total, torch.zeros_like(total))
    target = torch.minimum(target, below_total).clamp_(min=0)
    column = torch.searchsorted(cumulative, target[:, None], right=True).squeeze(1)
    return column.clamp_(max=cumulative.shape[1] - 1)  # behind the last one where it is NaN


class _Marks(NamedTuple):
    """What the text of a token has that may close a block, which begins and ends with a fence."""

    line_end: bool
    fence: bool


class Stopper:
    """Tells where completions end, from the ids drawn so far, which `decode` turns into text."""

    def __init__(self, settings: SamplingSettings, decode: Callable[[Sequence[int]], str]) -> None:
        self._settings = settings
        self._decode = decode
        # Only where its last tokens could have ended it is a whole text looked at.
        longest = max(map(len, settings.stop), default=1)
        self._tail = _TOKENS_A_CHARACTER * longest + _BEFORE
        self._marks_of_token: dict[int, _Marks] = {}  # of those that were drawn so far

    def ends(self, ids: Sequence[int]) -> bool:
        """Return whether the last of these ids ends the completion."""
        return self._may_have_ended(ids) and end_of(self._decode(ids), self._settings) is not None

    def _may_have_ended(self, ids: Sequence[int]) -> bool:
        if self._settings.stop:
            tail = self._decode(ids[-self._tail :])
            if any(stop in tail for stop in self._settings.stop):
                return True
        return self._settings.stop_at_fence and self._ends_line_of_fence(ids)

    def _ends_line_of_fence(self, ids: Sequence[int]) -> bool:
        """Return whether the last token has the end of a line, and that line signs of a fence."""
        if not self._marks(ids[-1]).line_end:
            return False
        for place in range(len(ids) - 1, -1, -1):
            marks = self._marks(ids[place])
            if marks.fence:
                return True
            if marks.line_end and place < len(ids) - 1:  # of the line before
                return False
        return False

    def _marks(self, token: int) -> _Marks:
        marks = self._marks_of_token.get(token)
        if marks is None:
            text = self._decode([token])
            marks = _Marks(line_end="\n" in text, fence="`" in text or "~" in text)
            self._marks_of_token[token] = marks
        return marks

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of these ids, up to where it ends."""
        text = self._decode(ids)
        return text[: end_of(text, self._settings)]


def end_of(text: str, settings: SamplingSettings) -> int | None:
    """Return where a text ends: before the first stop text, or behind the first closed block."""
    ends = [start for start in map(text.find, settings.stop) if start >= 0]
    if settings.stop_at_fence:
        block_end = _end_of_block(text)
        if block_end is not None:
            ends.append(block_end)
    return min(ends, default=None)


def _end_of_block(text: str) -> int | None:
    """Return where the line ends that closes the first fenced block of a text."""
    opening = ""
    for fence in _FENCE.finditer(text):
        if not opening:
            opening = fence[1]
        elif fence[1].startswith(opening) and not fence[2].strip():  # as long, without a language
            return fence.end() - 1
    return None
