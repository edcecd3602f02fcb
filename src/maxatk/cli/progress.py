"""Progress on the terminal, or as JSON lines for the process that started this one."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

ProgressMode: TypeAlias = Literal["auto", "json", "none"]
Report: TypeAlias = Callable[[int, int], None]

_LINE_EVERY_S = 10.0  # without a terminal a bar would be noise; a line now and then is not
_JSON_EVERY_S = 0.1


@contextlib.contextmanager
def progress_bar(name: str, mode: ProgressMode) -> Iterator[Report]:
    """Yield `report(done, total)`, shown as `mode` says until the block ends.

    "auto" draws a bar on a terminal and prints a line every ten seconds elsewhere; "json" writes
    {"done", "total"} lines to standard output, and ends this process when its standard input
    closes, which means that the parent is gone; "none" shows nothing.
    """
    if mode == "none":
        yield lambda done, total: None
    elif mode == "json":
        _end_with_parent()
        yield _every(_JSON_EVERY_S, _print_json)
    elif sys.stderr.isatty():
        with _rich_bar(name) as report:
            yield report
    else:
        yield _every(_LINE_EVERY_S, lambda done, total: _print_line(name, done, total))


def _every(seconds: float, show: Report) -> Report:
    """Return a report that calls `show` at most once in `seconds`, and for the last unit."""
    shown_at = 0.0

    def report(done: int, total: int) -> None:
        nonlocal shown_at
        now = time.monotonic()
        if done >= total or now - shown_at >= seconds:
            shown_at = now
            show(done, total)

    return report


def _print_json(done: int, total: int) -> None:
    print(json.dumps({"done": done, "total": total}), flush=True)  # noqa: T201


def _print_line(name: str, done: int, total: int) -> None:
    print(f"{name}: {done} of {total}", file=sys.stderr, flush=True)  # noqa: T201


@contextlib.contextmanager
def _rich_bar(name: str) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=False) as bars:
        task = bars.add_task(name, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def _end_with_parent() -> None:
    def wait() -> None:
        sys.stdin.buffer.read()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
