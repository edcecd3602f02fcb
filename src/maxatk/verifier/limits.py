"""What a program may use in each test, and how a completion is read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from maxatk.check import MOST_BYTES, MOST_SECONDS, is_whole, limited, require, whole
from maxatk.errors import InvalidValueError
from maxatk.python_numbers import use_python_numbers
from maxatk.verifier.extract import UnfinishedThought, check_unfinished_thought
from maxatk.verifier.inside.protocol import BUSIEST
from maxatk.verifier.languages import language_named

_MOST_TIMEOUTS = (1 << 31) - 1  # which the sandbox is told


def limited_bytes(field: str, value: int) -> None:
    """Raise InvalidValueError for what is no whole number of bytes that a machine may have."""
    require(is_whole(value, 1), field, "a whole number of bytes", value)
    limited(field, value, MOST_BYTES)


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a program may use in each test: CPU seconds, bytes of memory, bytes of each output.

    After `stop_after_timeouts` time-outs its other tests are not run. With `repair_truncated` one
    that ends in the middle is cut to `longest_program`. A completion whose reasoning never ends is
    wrong, or with `unfinished_thought` "read" searched for a program like any other. `flags` are
    those of a compiler by language, separated by blanks. Raises InvalidValueError for values that
    are not allowed.
    """

    time_limit: float = 4.0
    memory_limit: int = 1 << 30
    output_limit: int = 1 << 24
    stop_after_timeouts: int | None = None
    repair_truncated: bool = True
    unfinished_thought: UnfinishedThought = "wrong"
    flags: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        use_python_numbers(self)
        limited("time_limit", self.time_limit, MOST_SECONDS)
        for name in ("memory_limit", "output_limit"):
            limited_bytes(name, getattr(self, name))
        if self.stop_after_timeouts is not None:
            whole("stop_after_timeouts", self.stop_after_timeouts, 1)
            limited("stop_after_timeouts", self.stop_after_timeouts, _MOST_TIMEOUTS)
        is_bool = isinstance(self.repair_truncated, bool)
        require(is_bool, "repair_truncated", "True or False", self.repair_truncated)
        check_unfinished_thought(self.unfinished_thought)
        if self.flags:
            check_flags(self.flags)
            single_blanks = {name: " ".join(text.split()) for name, text in self.flags.items()}
            object.__setattr__(self, "flags", single_blanks)

    @property
    def wall(self) -> float:
        """Seconds of a test on the wall clock, enough for one that gets a small part of a core."""
        return BUSIEST * self.time_limit + 5.0

    @property
    def idle(self) -> float:
        """Idle seconds of all tests together, which catch sleepers."""
        return 10 * self.time_limit + 5.0

    def described(self) -> dict[str, Any]:
        """Return what a manifest says of them; some only where they are set."""
        described: dict[str, Any] = {
            "time_limit_s": self.time_limit,
            "memory_limit_bytes": self.memory_limit,
            "output_limit_bytes": self.output_limit,
        }
        if self.stop_after_timeouts:
            described["stop_after_timeouts"] = self.stop_after_timeouts
        if self.repair_truncated:
            described["repair_truncated"] = True
        described["unfinished_thought"] = self.unfinished_thought
        if self.flags:
            described["flags"] = dict(self.flags)
        return described


def check_flags(flags: Mapping[str, str]) -> None:
    """Raise InvalidValueError for flags of a language that has none, or that are no text."""
    require(isinstance(flags, Mapping), "flags", "an object of languages and their flags", flags)
    for name, text in flags.items():
        if language_named(name, field="flags").compiler is None:
            raise InvalidValueError(f"flags: {name} has no compiler")
        require(isinstance(text, str), f"flags.{name}", "text such as '-O2 -std=c++17'", text)
