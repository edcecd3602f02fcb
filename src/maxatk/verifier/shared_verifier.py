"""The verifier, and the reader of programs, that a process starts once and all its calls share."""

from __future__ import annotations

import atexit
import functools
import os

from maxatk.check import whole
from maxatk.verifier.extract import ProgramReader, UnfinishedThought, check_unfinished_thought
from maxatk.verifier.limits import Limits
from maxatk.verifier.verifier import Verifier


def shared_verifier(
    workers: int | None, unfinished_thought: UnfinishedThought, sandbox: tuple[str, ...] = ()
) -> Verifier:
    """Return the one verifier of this process with these settings; a fork has its own.

    Raises InvalidValueError for settings that are not allowed, and as `Verifier`.
    """
    check_settings(workers, unfinished_thought)
    return _verifier_of_process(os.getpid(), workers, unfinished_thought, sandbox)


def shared_reader(unfinished_thought: UnfinishedThought) -> ProgramReader:
    """Return the one reader of this process, of the settings of its shared verifier."""
    return _reader_of_process(os.getpid(), unfinished_thought)


def check_settings(workers: int | None, unfinished_thought: UnfinishedThought) -> None:
    """Raise InvalidValueError for settings that no shared verifier can have."""
    if workers is not None:
        whole("workers", workers, 1)
    check_unfinished_thought(unfinished_thought)


@functools.cache
def _reader_of_process(_pid: int, unfinished_thought: UnfinishedThought) -> ProgramReader:
    return ProgramReader(
        repair_truncated=Limits.repair_truncated, unfinished_thought=unfinished_thought
    )


@functools.cache
def _verifier_of_process(
    _pid: int,
    workers: int | None,
    unfinished_thought: UnfinishedThought,
    sandbox: tuple[str, ...],
) -> Verifier:
    verifier = Verifier(workers=workers, unfinished_thought=unfinished_thought, sandbox=sandbox)
    atexit.register(verifier.close)
    return verifier
