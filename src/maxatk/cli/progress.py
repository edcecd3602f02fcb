"""How far a command is: bars on a terminal, lines elsewhere, or JSON for a parent process."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Literal, TypeAlias

import tyro

from maxatk.cli.output import say_aside
from maxatk.errors import printable
from maxatk.studies.stages import end_with_parent

_HELP = "A bar on the terminal, JSON lines on standard output, or nothing."
ProgressMode: TypeAlias = Annotated[Literal["auto", "json", "none"], tyro.conf.arg(help=_HELP)]
"""What every command that takes long has as `--progress`."""

_LINE_EVERY_S = 10.0  # without a terminal a bar would be noise; a line now and then is not
_JSON_EVERY_S = 0.1


@dataclasses.dataclass
class _Part:
    """Units of one part of a command."""

    text: str
    done: int = 0
    total: int = 0
    done_at_start: int | None = None  # done at the first report: by an earlier run


class Progress:
    """What is done of each part of a command; every part may report from a thread of its own."""

    def __init__(self, parts: Mapping[str, str]) -> None:
        self.parts = {name: _Part(text) for name, text in parts.items()}
        self.show: Callable[[str], None] = lambda _: None
        # Takes a part that has ended off the display; the second is why, if it failed.
        self.hide: Callable[[str, str | None], None] = lambda _part, _failure: None
        self.every_s = 0.0  # at least so many seconds between two calls of `show`
        self._shown_at = 0.0

    def __call__(self, done: int, total: int, part: str = "") -> None:
        """Show that `done` of `total` units of a part are done."""
        reported = self.parts.setdefault(part, _Part(f"of {part}"))
        reported.done = done
        reported.total = total
        if reported.done_at_start is None:
            reported.done_at_start = done
        now = time.monotonic()
        if done >= total or now - self._shown_at >= self.every_s:
            self._shown_at = now
            self.show(part)

    def finish(self, name: str) -> None:
        """Show that a stage has finished: it is one unit of the whole, which is the part "".

        Of one that an earlier run has finished, which has reported nothing, only the whole tells.
        """
        if self.parts.pop(name, None) is not None:
            self.hide(name, None)
        stages = self.parts[""]
        self(stages.done + 1, stages.total)

    def fail(self, name: str, message: str) -> None:
        """Show at once that a stage has failed, and why; the others go on."""
        self.parts.pop(name, None)
        self.hide(name, message)

    def line(self) -> str:
        """Return what is done of every part, as `48 of 96 samples drawn, 40 of 96 verified`."""
        parts = list(self.parts.values())  # a copy: stages begin in threads of their own
        lines = (f"{part.done:,} of {part.total:,} {part.text}" for part in parts)
        return ", ".join(line.rstrip() for line in lines)

    def print_json(self, part: str, counted: Collection[str]) -> None:
        """Print the mean done over the parts that are counted, and their total, as a line of JSON.

        They have the same total. A report of another part prints nothing.
        """
        if part not in counted:
            return
        done = sum(self.parts[name].done for name in counted) // len(counted)
        print(json.dumps({"done": done, "total": self.parts[part].total}), flush=True)


@contextlib.contextmanager
def progress_of(
    name: str,
    mode: ProgressMode = "auto",
    *,
    parts: Mapping[str, str] = MappingProxyType({"": ""}),
    counted: Collection[str] | None = None,
) -> Iterator[Progress]:
    """Yield `report(done, total, part)`, shown as `mode` says until the block ends.

    "auto" draws a bar for each of `parts` on a terminal, else prints a line every ten seconds;
    "json" prints {"done", "total"} of the parts that are `counted`, which have one total and are
    all `parts` unless some are named, and ends this process with its parent.
    """
    report = Progress(parts)
    if mode == "json":
        end_with_parent()
        counted = tuple(parts) if counted is None else counted
        report.show = lambda part: report.print_json(part, counted)
        report.every_s = _JSON_EVERY_S
    elif mode == "auto" and sys.stderr.isatty():
        with _bars(report, name):
            yield report
        return
    elif mode == "auto":
        report.every_s = _LINE_EVERY_S
        report.show = lambda _part: say_aside(f"{name}: {report.line()}")
        report.hide = lambda part, failure: say_aside(failure or f"{part}: finished")
    yield report


@contextlib.contextmanager
def _bars(report: Progress, name: str) -> Iterator[None]:
    from rich import progress as rich
    from rich.console import Console
    from rich.markup import escape

    tasks: dict[str, rich.TaskID] = {}

    def show(part: str) -> None:
        reported = report.parts[part]
        if part not in tasks:
            label = f"{name}: {reported.text}" if reported.text else name
            tasks[part] = bars.add_task(escape(printable(label)), total=None)
        bars.update(tasks[part], completed=reported.done, total=reported.total)

    def hide(part: str, failure: str | None) -> None:
        if part in tasks:
            bars.remove_task(tasks.pop(part))
        if failure is not None:
            bars.console.print(escape(printable(failure)))

    report.show = show
    report.hide = hide
    with rich.Progress(
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TimeElapsedColumn(),
        rich.TimeRemainingColumn(),
        console=Console(stderr=True),
    ) as bars:
        yield
