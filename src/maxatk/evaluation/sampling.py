"""How completions are sampled, and which: frozen records, validated when they are made."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from maxatk.errors import InvalidValueError


@dataclasses.dataclass(frozen=True)
class SamplingSettings:
    """The sampling distribution and the number of samples; the defaults are the paper's.

    The distribution is cut by `min_p`, then by `top_k`, then by `top_p`, and renormalized each
    time.

    Args:
        temperature: Divides the logits; 0 takes the most probable token.
        top_p: The smallest set of tokens with this probability is kept, from above 0 to 1 (no cut).
        top_k: So many of the most probable tokens are kept; 0 keeps all.
        min_p: Tokens with at least this share of the largest probability are kept, from 0 to 1.
        max_new_tokens: The most tokens of a completion.
        stop: Texts; a completion ends before the first of them.
        stop_at_fence: A completion ends after the line that closes its first fenced block.
        seed: Fixes every draw, from 0.
        samples: Completions drawn for every problem.

    Raises InvalidValueError naming the field, its value and what is allowed.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    max_new_tokens: int = 256
    stop: tuple[str, ...] = ()
    stop_at_fence: bool = False
    seed: int = 0
    samples: int = 256

    def __post_init__(self) -> None:
        _require_number("temperature", self.temperature, self.temperature >= 0, "0 or more")
        _require_number("top_p", self.top_p, 0 < self.top_p <= 1, "in (0, 1]")
        _require_number("min_p", self.min_p, 0 <= self.min_p < 1, "in [0, 1)")
        for name, least in (("max_new_tokens", 1), ("samples", 1), ("seed", 0), ("top_k", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InvalidValueError(
                    f"SamplingSettings.{name}: must be an integer of {least} or more, got {value!r}"
                )
        if isinstance(self.stop, str) or not all(isinstance(s, str) and s for s in self.stop):
            raise InvalidValueError(
                f"SamplingSettings.stop: must be texts that are not empty, got {self.stop!r}"
            )
        object.__setattr__(self, "stop", tuple(self.stop))

    @property
    def cut(self) -> bool:
        """Return whether the distribution is cut."""
        return self.top_p < 1 or self.top_k > 0 or self.min_p > 0

    def to_json(self) -> dict[str, Any]:
        """Return the settings as a JSON object."""
        return {**dataclasses.asdict(self), "stop": list(self.stop)}


@dataclasses.dataclass(frozen=True)
class Request:
    """The samples to draw of one problem: those with these indices, in this order."""

    problem_id: str
    prompt: str
    indices: Sequence[int]


def _require_number(name: str, value: float, valid: bool, allowed: str) -> None:
    if not valid or math.isinf(value):
        raise InvalidValueError(f"SamplingSettings.{name}: must be {allowed}, got {value!r}")
