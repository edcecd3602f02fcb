"""A pool of processes that compare answers: `math-verify` may hang, crash or take all memory."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from maxatk.rewards.reward import RewardFailure
from maxatk.waiting import waited_for

_WORKER = Path(__file__).with_name("math_worker.py")
_START_S = 120.0  # for SymPy to be imported, on a machine that is busy
_BUSY = 10.0  # wall seconds a CPU second, on a machine that is busy

Question = Mapping[str, str]
"""The arguments of `math_worker._answer`."""


class Comparers:
    """So many processes, each started when it is first needed."""

    def __init__(self, workers: int, *, timeout_s: float) -> None:
        self._workers = workers
        # The last one that was given back is the next: one that runs before one that must start.
        self._idle: queue.LifoQueue[_Comparer] = queue.LifoQueue()
        for _ in range(workers):
            self._idle.put(_Comparer(timeout_s))

    def ask(self, questions: Sequence[Question]) -> list[dict[str, Any]]:
        """Return an answer a question, in their order.

        An answer holds `understood` or `equal`, or `timed_out`, `died` or `error` where there is
        none. Raises RewardFailure where a process cannot be started.
        """
        if not questions:
            return []
        with ThreadPoolExecutor(min(self._workers, len(questions))) as threads:
            return list(threads.map(self._ask_one, questions))

    def _ask_one(self, question: Question) -> dict[str, Any]:
        comparer = self._idle.get()
        try:
            return comparer.ask(question)
        finally:
            self._idle.put(comparer)

    def close(self) -> None:
        """End the processes; the next question starts them again."""
        for comparer in list(self._idle.queue):
            comparer.close()


class _Comparer:
    """One process, for one thread at a time."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._pid = os.getpid()

    def ask(self, question: Question) -> dict[str, Any]:
        process = self._running()
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died: its output has ended too
            process.stdin.write(json.dumps(question).encode() + b"\n")
            process.stdin.flush()
        # The process keeps its own clock, of the CPU; this one is for a process that is stuck.
        answer = _read_line(process, _BUSY * (self._timeout_s + 1.0))
        if answer is None:
            self.close()
            return {"timed_out": True}
        return answer

    def _running(self) -> subprocess.Popen[bytes]:
        if self._pid != os.getpid():  # a fork: the process answers the one that started it
            self._process = None
            self._pid = os.getpid()
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = subprocess.Popen(
                [sys.executable, str(_WORKER), str(self._timeout_s)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            if _read_line(self._process, _START_S) is None:
                self.close()
                raise RewardFailure(f"math-verify was not imported within {_START_S:g} s")
        return self._process

    def close(self) -> None:
        if self._process is None or self._pid != os.getpid():
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, 9)  # its fork too
        self._process.communicate()  # closes both pipes
        self._process = None


def _read_line(process: subprocess.Popen[bytes], seconds: float) -> dict[str, Any] | None:
    """Return what a process says next; None where nothing comes in time, or it has ended."""
    assert process.stdout is not None
    output = process.stdout

    def has_more(slice_s: float) -> bool:
        return bool(select.select([output], [], [], slice_s)[0])

    line = b""
    while not line.endswith(b"\n"):
        if not waited_for(has_more, seconds):
            return None
        part = os.read(output.fileno(), 1 << 16)
        if not part:
            return None
        line += part
    answer: dict[str, Any] = json.loads(line)
    return answer
