"""What becomes of a command whose output is read no further, as in `maxatk train --help | head`."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable

STATUS = 141  # 128 + SIGPIPE: what a shell reports of a command that a closed pipe has ended

_OUTPUTS = (1, 2)  # standard output and standard error


def until_closed(run: Callable[[], int]) -> int:
    """Return what `run` returns, or `STATUS`, silently, where nobody reads its output any more.

    A BrokenPipeError of any other pipe is passed on.
    """
    try:
        try:
            return run()
        finally:
            if sys.stdout is not None:  # None where the shell has closed it: `>&-`
                sys.stdout.flush()  # now: at the end of the interpreter nobody could catch it
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # rich makes the one of the other
            return STATUS
        raise
    except BrokenPipeError:
        if not closed_outputs():
            raise
        _drop_output()
        return STATUS


def closed_outputs() -> list[int]:
    """Return the standard outputs, as file descriptors, that are pipes without a reader."""
    watched = select.poll()
    for number in _OUTPUTS:
        watched.register(number, 0)  # errors are reported unasked
    return [number for number, event in watched.poll(0) if event & select.POLLERR]


def _drop_output() -> None:
    # What is left in the buffers is written when the interpreter ends, and would fail again.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in closed_outputs():
        os.dup2(nowhere, number)
