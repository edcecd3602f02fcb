"""Settings of the verifier, as recipes and command lines give them."""

from __future__ import annotations

import dataclasses
import os

from maxatk.errors import InvalidValueError
from maxatk.verifier.verifier import Verifier


@dataclasses.dataclass(frozen=True)
class VerifierSettings:
    """How programs are verified: worker processes and the limits of one test.

    `time_limit` is in CPU seconds, `memory_limit_mb` in MiB; a problem's own limits win.
    `workers` defaults to the number of cores this process may use.
    """

    workers: int | None = None
    time_limit: float = 4.0
    memory_limit_mb: int = 1024

    def __post_init__(self) -> None:
        for name in ("workers", "time_limit", "memory_limit_mb"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InvalidValueError(f"{name}: must be positive, got {value!r}")

    def open(self) -> Verifier:
        """Return a verifier with these settings; close it, or use it in a with statement."""
        return Verifier(
            workers=self.workers or len(os.sched_getaffinity(0)),
            time_limit=self.time_limit,
            memory_limit=self.memory_limit_mb << 20,
        )
