"""The settings of a verifier in recipes and commands."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from maxatk.check import MOST_BYTES, limited, whole
from maxatk.python_numbers import use_python_numbers
from maxatk.verifier.extract import UnfinishedThought
from maxatk.verifier.limits import Limits
from maxatk.verifier.remote import addresses
from maxatk.verifier.verifier import Verifier
from maxatk.verifier.worker import check_workers

_PLACES = ("workers", "sandbox")


@dataclasses.dataclass(frozen=True)
class VerifierSettings:
    """How recipes and commands give the workers and `Limits` of a verifier, memory in MiB.

    Args:
        workers: Worker processes; one for each core that this process may use, if not given.
        time_limit: CPU seconds of one test; a problem's own limit wins.
        memory_limit_mb: MiB of one test; a problem's own limit wins.
        stop_after_timeouts: Time-outs after which a program's other tests count as failed unrun.
        repair_truncated: Cut a program that ends in the middle to the most lines that parse.
        unfinished_thought: A completion whose reasoning never ends is wrong, or is read.
        sandbox: Addresses of servers that run the programs, each of a `maxatk serve`, such as
            http://host:8080; this machine, if none is given.
        flags: Flags of compilers by language, such as cpp " -O2 -std=c++17" (with the blank).
        testlib: The path of a testlib.h, which checkers in C++ include.
    """

    workers: int | None = None
    time_limit: float = Limits.time_limit
    memory_limit_mb: int = Limits.memory_limit >> 20
    stop_after_timeouts: int | None = Limits.stop_after_timeouts
    repair_truncated: bool = Limits.repair_truncated
    unfinished_thought: UnfinishedThought = Limits.unfinished_thought
    sandbox: str | tuple[str, ...] = ()
    flags: dict[str, str] = dataclasses.field(default_factory=dict)
    testlib: str | None = None

    def __post_init__(self) -> None:
        use_python_numbers(self)
        check_workers(self.workers)
        addresses(self.sandbox)
        whole("memory_limit_mb", self.memory_limit_mb, 1)
        limited("memory_limit_mb", self.memory_limit_mb, MOST_BYTES >> 20)
        self.limits()  # which checks the others

    def limits(self) -> Limits:
        """Return the limits of a test where a job names none."""
        return Limits(
            time_limit=self.time_limit,
            memory_limit=self.memory_limit_mb << 20,
            stop_after_timeouts=self.stop_after_timeouts,
            repair_truncated=self.repair_truncated,
            unfinished_thought=self.unfinished_thought,
            flags=self.flags or None,
        )

    def open(self) -> Verifier:
        """Return a verifier with these settings; close it, or use it in a with statement."""
        sandbox = addresses(self.sandbox)
        limits = dataclasses.asdict(self.limits())
        return Verifier(workers=self.workers, testlib=self.testlib, sandbox=sandbox, **limits)


def without_places(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recipe without where its programs run and how many at once, at any depth.

    Neither decides a verdict, so that a run may go on with more workers, or on other servers.
    """
    decisive: dict[str, Any] = {}
    for section, settings in recipe.items():
        if section == "verifier" and isinstance(settings, Mapping):
            decisive[section] = {k: v for k, v in settings.items() if k not in _PLACES}
        elif isinstance(settings, Mapping):
            decisive[section] = without_places(settings)
        else:
            decisive[section] = settings
    return decisive
