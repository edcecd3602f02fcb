"""Run the stages of a longer piece of work as processes: side by side, resumable, with progress.

A finished stage leaves a marker file and is not run again; one that was killed starts again. One
that fails takes those with it that need it, and no others.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import queue
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from maxatk.cores import usable_cores
from maxatk.errors import InvalidValueError, StageError
from maxatk.folders import read_json, write_json

_LOG_TAIL = 15  # lines of a failed stage's log in the error message
_GRACE_S = 5.0


class Board(Protocol):
    """What is told how far the stages are."""

    def __call__(self, done: int, total: int, part: str) -> object:
        """Hear how many of all units of a stage, the part, are done."""

    def finish(self, name: str) -> object:
        """Hear that a stage has finished."""

    def fail(self, name: str, message: str) -> object:
        """Hear that a stage has failed, and why."""


@dataclasses.dataclass(frozen=True)
class Stage:
    """One command: `maxatk` with `arguments`, after the stages in `needs`, on `threads` threads."""

    name: str
    arguments: tuple[str, ...]
    needs: tuple[str, ...] = ()
    threads: int = 1


def run_stages(
    stages: Sequence[Stage], folder: Path, board: Board, *, jobs: int
) -> dict[str, float]:
    """Run the stages that have not finished, at most `jobs` at once, and return their seconds.

    What a stage makes goes to the folder of its name in `folder`, its marker to `folder`/stages,
    and the standard error of its command to `folder`/logs. Stages start
    in the given order as soon as what they need has finished. Ctrl-C ends all of them.

    Raises StageError with the ends of the logs of commands that failed, once all that does not need
    them has finished. Raises InvalidValueError, before any work, when `jobs` is below 1 or a stage
    needs one that is not listed before it.
    """
    _check(stages, jobs)
    seconds: dict[str, float] = {}
    failures: dict[str, str] = {}
    waiting = []
    for stage in stages:
        taken = finished_seconds(folder, stage.name)
        if taken is None:
            waiting.append(stage)
        else:
            seconds[stage.name] = taken
            board.finish(stage.name)
    with _Running(folder, board) as running:
        while waiting or running.processes:
            ready = [stage for stage in waiting if seconds.keys() >= set(stage.needs)]
            for stage in ready[: jobs - len(running.processes)]:
                waiting.remove(stage)
                running.start(stage)
            ended = running.wait()
            if ended.failure is None:
                seconds[ended.name] = ended.seconds
                board.finish(ended.name)
            else:
                failures[ended.name] = ended.failure
                board.fail(ended.name, ended.failure)
                waiting = _without_those_that_need(failures, waiting)
    if failures:
        raise StageError("\n".join(failures.values()))
    return seconds


def _without_those_that_need(failed: Collection[str], waiting: Sequence[Stage]) -> list[Stage]:
    """Return the stages that can still run: a stage stands behind those that it needs."""
    lost = set(failed)
    left = []
    for stage in waiting:
        if lost.isdisjoint(stage.needs):
            left.append(stage)
        else:
            lost.add(stage.name)
    return left


def default_jobs() -> int:
    """Return how many stages run at once: one more than cores, for they wait for each other."""
    return usable_cores() + 1


def _check(stages: Sequence[Stage], jobs: int) -> None:
    """Refuse what would make `run_stages` wait for ever."""
    if jobs < 1:
        raise InvalidValueError(f"jobs: must be at least 1, got {jobs}")
    before: set[str] = set()
    for stage in stages:
        if stage.name in before:
            raise InvalidValueError(f"stages: {stage.name!r} is listed twice")
        for need in stage.needs:
            if need not in before:
                raise InvalidValueError(
                    f"stages: {stage.name!r} needs {need!r}, which is not listed before it"
                )
        before.add(stage.name)


@dataclasses.dataclass(frozen=True)
class _Ended:
    """A stage whose process has ended, with the reason if it failed."""

    name: str
    seconds: float
    failure: str | None = None


class _Running:
    """The processes under way; leaving the block ends those that are left."""

    def __init__(self, folder: Path, board: Board) -> None:
        self._folder = folder
        self._board = board
        self._ended: queue.Queue[tuple[Stage, int, float] | Exception] = queue.Queue()
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> _Running:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=_GRACE_S)
            process.kill()

    def start(self, stage: Stage) -> None:
        log = self._folder / "logs" / f"{stage.name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        # Waiting threads must sleep: spinning, they slow each other down on a busy machine.
        threads = {"OMP_NUM_THREADS": str(stage.threads), "OMP_WAIT_POLICY": "passive"}
        with log.open("w", encoding="utf-8") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "maxatk", *stage.arguments, "--progress", "json"],
                stdin=subprocess.PIPE,  # never written: its closing tells the child we are gone
                stdout=subprocess.PIPE,
                stderr=errors,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
                env={**os.environ, **threads},
            )
        self.processes[stage.name] = process
        threading.Thread(target=self._follow, args=(stage, process), daemon=True).start()

    def _follow(self, stage: Stage, process: subprocess.Popen[str]) -> None:
        started = time.monotonic()
        reader = threading.Thread(target=self._show, args=(stage, process), daemon=True)
        reader.start()
        status = process.wait()
        seconds = time.monotonic() - started
        # A process that the stage has started and left, such as a server, may keep its output open.
        reader.join(timeout=_GRACE_S)
        self._ended.put((stage, status, seconds))

    def _show(self, stage: Stage, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        try:
            for done, total in _reports(process.stdout):
                self._board(done, total, stage.name)
        except Exception as error:  # of a closed pipe or a full disk that the board writes to
            self._ended.put(error)  # else the stage would never be heard of again

    def wait(self) -> _Ended:
        """Wait for the next stage that ends, and mark it as finished if it did not fail.

        Raises what the board has raised in the meantime.
        """
        ended = self._ended.get()
        if isinstance(ended, Exception):
            raise ended
        stage, status, taken = ended
        del self.processes[stage.name]
        if status != 0:
            return _Ended(stage.name, taken, failure=self._failure_of(stage, status))
        write_json(_marker(self._folder, stage.name), {"seconds": round(taken, 1)})
        return _Ended(stage.name, taken)

    def _failure_of(self, stage: Stage, status: int) -> str:
        log = self._folder / "logs" / f"{stage.name}.log"
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        tail = "\n".join(lines[-_LOG_TAIL:])
        return f"stage {stage.name!r} failed (exit {status}); {log} ends with\n{tail}"


def _reports(lines: Iterator[str]) -> Iterator[tuple[int, int]]:
    """Yield the (done, total) of a stage's output; other lines it printed are skipped."""
    for line in lines:
        try:
            report = json.loads(line)
            units = (report["done"], report["total"])
        except (ValueError, TypeError, KeyError):
            continue
        yield units


def finished_seconds(folder: Path, name: str) -> float | None:
    """Return the seconds that a finished stage took, or None where it has not finished.

    One whose folder is gone has to run again: its marker would promise what nobody can read.
    """
    marker = _marker(folder, name)
    if not marker.is_file() or not (folder / name).is_dir():
        return None
    return float(read_json(marker)["seconds"])


def _marker(folder: Path, name: str) -> Path:
    return folder / "stages" / f"{name}.json"


def end_with_parent() -> None:
    """End this process when its standard input closes, if that is a pipe or a socket.

    The parent never closes it, so it closes when the parent is gone, however it died.
    """
    try:
        mode = os.fstat(0).st_mode
    except OSError:  # closed from the start
        return
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):  # asyncio's and Node's pipes are sockets
        return  # what else it may be, such as /dev/null, ends by itself

    def wait() -> None:
        # os.read: a thread inside sys.stdin would hold its lock when the interpreter ends.
        while os.read(0, 1):
            pass
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
