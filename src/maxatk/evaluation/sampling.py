"""How completions are sampled: one frozen record, validated when it is made."""

from __future__ import annotations

import dataclasses
from typing import Any

from maxatk.errors import InvalidValueError


@dataclasses.dataclass(frozen=True)
class SamplingSettings:
    """The sampling distribution and the number of samples; the defaults are the paper's.

    `samples` completions are drawn for every problem from softmax(logits / `temperature`), cut to
    the smallest set of tokens with mass `top_p`, up to `max_new_tokens` tokens each. Temperature
    0 takes the most probable token. `seed` fixes every draw.

    Raises InvalidValueError naming the field, its value and what is allowed.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    max_new_tokens: int = 256
    seed: int = 0
    samples: int = 256

    def __post_init__(self) -> None:
        _require_number("temperature", self.temperature, self.temperature >= 0, "0 or more")
        _require_number("top_p", self.top_p, 0 < self.top_p <= 1, "in (0, 1]")
        for name, least in (("max_new_tokens", 1), ("samples", 1), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InvalidValueError(
                    f"SamplingSettings.{name}: must be an integer of {least} or more, got {value!r}"
                )

    def to_json(self) -> dict[str, Any]:
        """Return the settings as a JSON object."""
        return dataclasses.asdict(self)


def _require_number(name: str, value: float, valid: bool, allowed: str) -> None:
    if not valid or value == float("inf"):
        raise InvalidValueError(f"SamplingSettings.{name}: must be {allowed}, got {value!r}")
