"""How far a command is: bars on a terminal, lines elsewhere, or JSON for a parent process."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import tyro

from maxatk.cli.output import say_aside
from maxatk.errors import printable
from maxatk.studies.stages import end_with_parent

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from maxatk.engines.cluster.shards import ShardWork

_SAID = "A bar on the terminal, JSON lines on standard output, or nothing."
ProgressMode: TypeAlias = Annotated[Literal["auto", "json", "none"], tyro.conf.arg(help=_SAID)]
"""What every command that takes long has as `--progress`."""

_LINE_EVERY_S = 10.0  # without a terminal a bar would be noise; a line now and then is not
_JSON_EVERY_S = 0.1
_MOST_SHARDS = 8  # whose numbers are shown one by one


WorkOf: TypeAlias = Callable[[str], Sequence["ShardWork"]]
"""Part -> what each shard of a cluster has done of it; nothing without a cluster."""


@dataclasses.dataclass
class _Part:
    """Units done of one part. `first` is the time and number of the first report.

    What was done before it, by an interrupted run, does not count for the rate.
    """

    text: str
    done: int = 0
    total: int = 0
    first: tuple[float, int] | None = None
    last: float = 0.0

    def report(self, done: int, total: int) -> None:
        self.done, self.total, self.last = done, total, time.monotonic()
        self.first = self.first or (self.last, done)

    @property
    def found(self) -> int:
        return self.first[1] if self.first else 0

    @property
    def seconds(self) -> float:
        return self.last - self.first[0] if self.first else 0.0


class Progress:
    """What is done of each part of a command; every part may report from a thread of its own."""

    def __init__(self, parts: Mapping[str, str], unit: str, work: WorkOf) -> None:
        self.parts = {name: _Part(text) for name, text in parts.items()}
        self._unit = unit
        self._work = work
        self.show: Callable[[str], None] = lambda _part: None
        self.hide: Callable[[str], None] = lambda _part: None

    def __call__(self, done: int, total: int, part: str = "") -> None:
        """Show that `done` of `total` units of a part are done."""
        self.parts.setdefault(part, _Part(f"of {part}")).report(done, total)
        self.show(part)

    def update(self, name: str, done: int, total: int) -> None:
        """Show how far a stage is."""
        self(done, total, name)

    def finish(self, name: str) -> None:
        """Show that a stage has finished: it is one unit of the whole, which is the part ""."""
        self.parts.pop(name, None)
        self.hide(name)
        whole = self.parts[""]
        self(whole.done + 1, whole.total)

    def rate(self, part: str = "") -> str:
        """Return the units a second since the first report, such as `12.3 verdicts/s`, or ""."""
        found = self.parts[part]
        done = found.done - found.found
        return f"{done / found.seconds:,.1f} {self._unit}/s" if self._unit and done else ""

    def note(self, part: str) -> str:
        """Return what each shard has done of a part, of many the least and the most, and the rate.

        Such as ` (120 + 118), 12.3 verdicts/s`.
        """
        done = [shard.done for shard in self._work(part)]
        shards = f" ({' + '.join(f'{count:,}' for count in done)})" if done else ""
        if len(done) > _MOST_SHARDS:
            shards = f" ({len(done)} shards, {min(done):,} to {max(done):,} each)"
        rate = self.rate(part)
        return f"{shards}, {rate}" if rate else shards

    def line(self) -> str:
        """Return what is done of every part, as `48 of 96 samples drawn, 40 of 96 verified`."""
        return ", ".join(
            f"{found.done:,} of {found.total:,} {found.text}".rstrip() + self.note(name)
            for name, found in list(self.parts.items())  # stages begin in threads of their own
        )

    def as_json(self, part: str) -> dict[str, object]:
        """Return {"done", "total"}, the mean over the parts, with the nodes and what they did."""
        counts = [found.done for found in self.parts.values()]
        row: dict[str, object] = {
            "done": sum(counts) // len(counts),
            "total": self.parts[part].total,
        }
        shards = {
            name: [{"node": shard.node, "done": shard.done} for shard in self._work(name)]
            for name in self.parts
        }
        return {**row, "shards": shards} if any(shards.values()) else row

    def summary(self, part: str = "") -> str:
        """Return one line: what was done, in which time, how fast, and what was there before."""
        if part not in self.parts:
            return ""
        found, rate = self.parts[part], self.rate(part)
        done = f"{found.done - found.found:,} {self._unit} in {found.seconds:.1f} s"
        before = f", {found.found:,} found from before" if found.found else ""
        return done + (f" ({rate})" if rate else "") + before


@contextlib.contextmanager
def progress_of(
    name: str,
    mode: ProgressMode = "auto",
    *,
    parts: Mapping[str, str] | None = None,
    unit: str = "",
    work: WorkOf = lambda _part: (),
) -> Iterator[Progress]:
    """Yield `report(done, total, part)`, shown as `mode` says until the block ends.

    "auto" draws a bar for each part on a terminal and prints a line for all every ten seconds
    elsewhere; "json" writes {"done", "total"} lines to standard output, and ends this process when
    its standard input, if that is a pipe or a socket, closes, which means that the parent is gone;
    "none" shows nothing.

    Args:
        name: What is done, at the beginning of every line.
        mode: Where progress is shown.
        parts: What is done in each part of work that goes through several at once, such as
            {"samples": "samples drawn"}; one part without a name if None.
        unit: What is counted, where its rate is shown.
        work: What each shard of a cluster has done of a part.
    """
    report = Progress({"": ""} if parts is None else parts, unit, work)
    if mode == "json":
        end_with_parent()
        report.show = _at_most_every(_JSON_EVERY_S, report, lambda p: _print_json(report, p))
    elif mode == "auto" and sys.stderr.isatty():
        with _bars() as bars:
            _draw(report, bars, name)
            yield report
        return
    elif mode == "auto":
        line = _at_most_every(
            _LINE_EVERY_S, report, lambda _: say_aside(f"{name}: {report.line()}")
        )
        report.show, report.hide = line, lambda part: say_aside(f"{part}: finished")
    yield report


@contextlib.contextmanager
def stage_board(names: Sequence[str]) -> Iterator[Progress]:
    """Yield the progress of stages: how many have finished, and those that are at work."""
    with progress_of("stages", parts={"": "finished"}) as report:
        report(0, len(names))
        yield report


def _at_most_every(
    seconds: float, report: Progress, show: Callable[[str], None]
) -> Callable[[str], None]:
    """Return `show` for at most one report in `seconds`, and for the last unit of a part."""
    shown_at = 0.0

    def seldom(part: str) -> None:
        nonlocal shown_at
        now, found = time.monotonic(), report.parts[part]
        if found.done >= found.total or now - shown_at >= seconds:
            shown_at = now
            show(part)

    return seldom


def _print_json(report: Progress, part: str) -> None:
    print(json.dumps(report.as_json(part)), flush=True)


def _draw(report: Progress, bars: RichProgress, name: str) -> None:
    """Have the reports drawn as bars, one for each part, from its first report on."""
    from rich.markup import escape

    tasks: dict[str, TaskID] = {}

    def show(part: str) -> None:
        found = report.parts[part]
        if part not in tasks:
            text = ": ".join(filter(None, (name, found.text)))
            tasks[part] = bars.add_task(escape(printable(text)), total=None, note="")
        note = report.note(part).removeprefix(", ")
        bars.update(tasks[part], completed=found.done, total=found.total, note=note)

    def hide(part: str) -> None:
        if part in tasks:
            bars.remove_task(tasks.pop(part))

    report.show, report.hide = show, hide


def _bars() -> RichProgress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        console=Console(stderr=True),
    )
