"""The decoder of models with another attention: rows of one prompt, in transformers' own cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from maxatk.sampling.prompt_states import Prompt


class LoneDecoder:
    """The same as `decoder.Decoder`, on rows of one prompt that are admitted at once."""

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
