"""What TRL's `_generate` returns for the prompts of a process, read by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Generated:
    """The completions of a process. The lists are TRL's own, so that a change of one is seen."""

    completion_ids: list[list[int]]
    tool_masks: list[list[int]] | None  # 0 for what tools and environments said, None without
    completions: list[Any]  # texts, or turns of a conversation
    extra_fields: Mapping[str, Any]  # what a rollout function has added, by column

    def tokens_of_policy(self) -> list[int]:
        """Return how many tokens of each completion the policy drew."""
        if self.tool_masks is None:
            return [len(ids) for ids in self.completion_ids]
        return [sum(mask) for mask in self.tool_masks]


def read_generated(generated: tuple[Any, ...]) -> Generated:
    """Return what is used here of TRL's tuple, to whose end later versions have added images."""
    _prompt_ids, completion_ids, tool_masks, completions, _logprobs, extra_fields = generated[:6]
    return Generated(completion_ids, tool_masks, completions, extra_fields)
