"""A batch of one prompt at a time, for models whose attention is their own.

Sliding windows, recurrent layers and the like keep the cache of transformers: the prompt is
evaluated once and its cache repeated over the rows, which all advance together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


class LonePrompt:
    """A prompt that has been evaluated: its cache, and the logits (V,) after it."""

    def __init__(self, cache: Any, logits: torch.Tensor) -> None:
        self.cache, self.logits = cache, logits


class LoneDecoder:
    """The same operations as `Decoder`, on rows of one prompt that are admitted at once."""

    fewest = 1  # rows of a batch
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
