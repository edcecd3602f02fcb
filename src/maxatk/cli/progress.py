"""Progress on the terminal, or as JSON lines for the process that started this one."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from maxatk.studies.child import end_with_parent

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import ProgressColumn, TaskID

    from maxatk.studies.stages import StageBoard

ProgressMode: TypeAlias = Literal["auto", "json", "none"]
Report: TypeAlias = Callable[[int, int], None]

_LINE_EVERY_S = 10.0  # without a terminal a bar would be noise; a line now and then is not
_JSON_EVERY_S = 0.1
_MOST_SHARDS = 8  # whose numbers are shown one by one


class Throughput:
    """Units done a second since the first report; what was done before it is not counted."""

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self._first: tuple[float, int] | None = None
        self._last = (0.0, 0)

    def report(self, done: int) -> None:
        """Take note that so many units are done by now."""
        self._last = (time.monotonic(), done)
        self._first = self._first or self._last

    @property
    def per_second(self) -> float | None:
        """The throughput, or None where nothing was done yet."""
        first, last = self._first or self._last, self._last
        return (last[1] - first[1]) / (last[0] - first[0]) if last[1] > first[1] else None

    def __str__(self) -> str:
        return "" if self.per_second is None else f"{self.per_second:,.1f} {self.unit}/s"

    def summary(self) -> str:
        """Return one line: what was done, in which time, how fast, and what was there before."""
        first, last = self._first or self._last, self._last
        done = f"{last[1] - first[1]:,} {self.unit} in {last[0] - first[0]:.1f} s"
        rate = f" ({self})" if self.per_second is not None else ""
        return done + rate + (f", {first[1]:,} found from before" if first[1] else "")


@contextlib.contextmanager
def progress_bar(
    name: str, mode: ProgressMode, *, throughput: Throughput | None = None
) -> Iterator[Report]:
    """Yield `report(done, total)`, shown as `mode` says until the block ends.

    "auto" draws a bar on a terminal and prints a line every ten seconds elsewhere; "json" writes
    {"done", "total"} lines to standard output, and ends this process when its standard input, if
    that is a pipe or a socket, closes, which means that the parent is gone; "none" shows nothing.
    `throughput` hears of every report and is shown beside the bar.
    """
    with _shown(name, mode, throughput) as report:
        if throughput is None:
            yield report
            return

        def measured(done: int, total: int) -> None:
            throughput.report(done)
            report(done, total)

        yield measured


@contextlib.contextmanager
def _shown(name: str, mode: ProgressMode, throughput: Throughput | None) -> Iterator[Report]:
    if mode == "none":
        yield lambda _done, _total: None
    elif mode == "json":
        end_with_parent()
        yield _every(_JSON_EVERY_S, _print_json)
    elif sys.stderr.isatty():
        with _rich_bar(name, throughput) as report:
            yield report
    else:
        yield _every(_LINE_EVERY_S, lambda done, total: _print_line(name, done, total, throughput))


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


def _print_json(
    done: int, total: int, shards: Mapping[str, Sequence[tuple[str, int]]] | None = None
) -> None:
    row: dict[str, object] = {"done": done, "total": total}
    if shards is not None:
        row["shards"] = {
            part: [{"node": node, "done": count} for node, count in found]
            for part, found in shards.items()
        }
    print(json.dumps(row), flush=True)  # noqa: T201


def _print_line(name: str, done: int, total: int, throughput: Throughput | None = None) -> None:
    rate = f", {throughput}" if throughput is not None and str(throughput) else ""
    print(f"{name}: {done} of {total}{rate}", file=sys.stderr, flush=True)  # noqa: T201


@contextlib.contextmanager
def _rich_bar(name: str, throughput: Throughput | None) -> Iterator[Report]:
    from rich.progress import TextColumn

    with _bars(TextColumn("{task.fields[rate]}")) as bars:
        task = bars.add_task(name, total=None, rate="")

        def report(done: int, total: int) -> None:
            bars.update(task, completed=done, total=total, rate=str(throughput or ""))

        yield report


def _bars(*more: ProgressColumn) -> RichProgress:
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
        *more,
        console=Console(stderr=True),
    )


class Work(Protocol):
    """What a part of a cluster has done: `node` is where it runs."""

    @property
    def node(self) -> str:
        """The name of the node."""

    @property
    def done(self) -> int:
        """How many units it has done."""


WorkOf: TypeAlias = Callable[[str], Sequence[Work]]
"""Part -> what each shard of a cluster has done of it; nothing without a cluster."""


@contextlib.contextmanager
def parts_progress(
    name: str, mode: ProgressMode, parts: Mapping[str, str], work: WorkOf = lambda _: ()
) -> Iterator[Callable[[int, int, str], None]]:
    """Yield `report(done, total, part)` for work that goes through several parts at once.

    `parts` maps a part to what is done in it, such as {"samples": "samples drawn"}. A terminal gets
    a bar for each, a file one line for all. JSON lines count the units of a part, by the mean over
    the parts. Where `work` knows shards, all three say how much each of them has done: JSON lines
    have {"shards": {part: [{"node", "done"}]}}. Each part may report from its own thread.
    """
    if mode == "auto" and sys.stderr.isatty():
        from rich.progress import TextColumn

        with _bars(TextColumn("{task.fields[shards]}")) as bars:
            tasks = {
                p: bars.add_task(f"{name}: {text}", total=None, shards="")
                for p, text in parts.items()
            }
            yield lambda done, total, part: bars.update(
                tasks[part], completed=done, total=total, shards=_by_shard(work(part))
            )
        return
    counts = dict.fromkeys(parts, 0)
    units: dict[str, int] = {}

    def print_line(_done: int, _total: int) -> None:
        shown = (
            f"{counts[p]:,} of {units.get(p, 0):,} {text}{_by_shard(work(p))}"
            for p, text in parts.items()
        )
        print(f"{name}: {', '.join(shown)}", file=sys.stderr, flush=True)  # noqa: T201

    def print_json(done: int, total: int) -> None:
        by_part = {part: [(shard.node, shard.done) for shard in work(part)] for part in parts}
        _print_json(done, total, by_part if any(by_part.values()) else None)

    if mode == "json":
        end_with_parent()
        show = _every(_JSON_EVERY_S, print_json)
    else:
        show = _every(_LINE_EVERY_S, print_line)

    def progress(done: int, total: int, part: str) -> None:
        counts[part], units[part] = done, total
        if mode != "none":
            show(sum(counts.values()) // len(parts), total)

    yield progress


def _by_shard(work: Sequence[Work]) -> str:
    """Return what each shard has done, as " (120 + 118)"; of many the least and the most."""
    done = [shard.done for shard in work]
    if len(done) > _MOST_SHARDS:
        return f" ({len(done)} shards, {min(done):,} to {max(done):,} each)"
    return f" ({' + '.join(f'{count:,}' for count in done)})" if done else ""


class _Lines:
    def __init__(self) -> None:
        self._reports: dict[str, Report] = {}

    def update(self, name: str, done: int, total: int) -> None:
        if name not in self._reports:
            self._reports[name] = _every(
                _LINE_EVERY_S, lambda done, total: _print_line(name, done, total)
            )
        self._reports[name](done, total)

    def finish(self, name: str) -> None:
        print(f"{name}: finished", file=sys.stderr, flush=True)  # noqa: T201


class _Bars:
    """One bar for all stages, and below it those that are at work."""

    def __init__(self, bars: RichProgress, names: Sequence[str]) -> None:
        self._bars = bars
        self._all = bars.add_task("stages", total=len(names))
        self._tasks: dict[str, TaskID] = {}

    def update(self, name: str, done: int, total: int) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=total)
        self._bars.update(self._tasks[name], completed=done, total=total)

    def finish(self, name: str) -> None:
        if name in self._tasks:
            self._bars.remove_task(self._tasks.pop(name))
        self._bars.advance(self._all)


@contextlib.contextmanager
def stage_board(names: Sequence[str]) -> Iterator[StageBoard]:
    """Yield a board of the stages with these names: bars on a terminal, lines elsewhere."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    with _bars() as bars:
        yield _Bars(bars, names)
