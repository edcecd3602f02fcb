"""A training as a page watches it: its groups of samples, in a file that may still grow."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from maxatk.check import is_whole
from maxatk.errors import counted
from maxatk.folders import known, writable
from maxatk.statistics.intervals import default_ks
from maxatk.training import keys
from maxatk.training.group_log import GROUPS, Head, head_of
from maxatk.training.values import mean_max_at_k, mean_reward
from maxatk.view.readable import LONGEST_LINE, finder_of, readable_group, row_of

_COMPARED = 1 << 12  # last bytes of a line by which it is known again
_SECONDS = "step_time"  # the key of the log with the seconds of a step
_RECENT = 10  # rows of the log, whose steps say how long the others will take


class WatchedTraining:
    """The record of one training, groups.jsonl of its `folder`; for several threads.

    Of `groups` only first byte and length are held. `about` is what the training said of itself,
    `left_out` counts the lines that cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / GROUPS
        self._lock = threading.Lock()
        self._histories = 0  # that were forgotten, as of a training that was resumed
        self._is_gone = False
        self._end = 0  # of the lines that were read, in bytes
        self._last_line = b""
        self.groups: dict[int, list[tuple[int, int]]] = defaultdict(list)  # by step
        self._prompts: dict[str, list[tuple[int, int]]] = defaultdict(list)  # step and place
        self._values_of_step: dict[int, tuple[int, dict[str, float]]] = {}  # of so many groups
        self.log: list[dict[str, Any]] = []
        self.about: dict[str, Any] = {}
        self.left_out = 0
        self.refresh()

    def refresh(self) -> str:
        """Read what has been appended; return what stands for the state that is known now.

        Raises FileNotFoundError where the file is gone, of which then nothing is known any more.
        """
        with self._lock:
            try:
                file = self._path.open("rb")
            except FileNotFoundError:
                self._is_gone = True
                self._forget()
                raise
            self._is_gone = False
            return self._read(file)

    def _read(self, file: BinaryIO) -> str:
        with file:
            # A training that is resumed drops lines, and others come in their place: then the last
            # line that was read is no longer where it was.
            file.seek(self._end - len(self._last_line))
            if file.read(len(self._last_line)) != self._last_line:
                self._forget()
                file.seek(0)
            for line in iter(lambda: file.readline(LONGEST_LINE), b""):
                if not self._add(line):
                    break  # the line is not whole yet
        return f"{self._histories}.{self._end}"

    def _forget(self) -> None:
        self._histories += 1
        # New objects, not emptied ones: another thread may be reading the old.
        self._end = 0
        self._last_line = b""
        self.groups = defaultdict(list)
        self._prompts = defaultdict(list)
        self._values_of_step = {}
        self.log = []
        self.about = {}
        self.left_out = 0

    def _add(self, line: bytes) -> bool:
        """Take a line in; return whether it was whole, or part of one that is far too long."""
        if not line.endswith(b"\n") and len(line) < LONGEST_LINE:
            return False
        head = head_of(line)
        if head is None:
            self.left_out += line.endswith(b"\n")
        elif head.kind == "group":
            self._prompts[head.key].append((head.step, len(self.groups[head.step])))
            self.groups[head.step].append((self._end, len(line)))
        else:
            self._take_in(head, line)
        self._end += len(line)
        self._last_line = line[-_COMPARED:]
        return True

    def _take_in(self, head: Head, line: bytes) -> None:
        """Take in a row of the log, or what the training says of itself; others are left out."""
        row = row_of(line).get(head.kind)
        if not isinstance(row, dict):
            self.left_out += 1
        elif head.kind == "log":
            self.log.append({**writable(row), "step": head.step})
        else:
            self.about = row

    @property
    def last_step(self) -> int | None:
        """The step at which the training ends, if it said so."""
        most = self.about.get("max_steps")
        return most if is_whole(most, 1) else None

    @property
    def progress(self) -> str:
        """How far the training is, and how long it will take if it said its seconds a step."""
        if self._is_gone:
            return f"{GROUPS} is gone"
        last_row = self.log[-1] if self.log else {"step": 0}
        step = last_row["step"]
        text = f"step {step}"
        if self.last_step is not None:
            text += f" of {self.last_step}"
        if self.left_out:
            text += f", {counted(self.left_out, 'line')} that cannot be read"
        if "train_runtime" in last_row:  # the row that a trainer logs at its end
            return f"{text}, ended"
        seconds = [row[_SECONDS] for row in self.log[-_RECENT:] if known(row, _SECONDS)]
        if self.last_step is not None and seconds and step < self.last_step:
            left = (self.last_step - step) * float(np.mean(seconds))
            text += f", about {max(1, round(left / 60)):,} min left"
        return text

    def values_of(self, step: int) -> dict[str, float]:
        """Return reward and max@k of the groups of a step that were kept, by the keys of the log.

        A row of the log has means over several steps, which would hide the odd one among them.
        """
        count = len(self.groups.get(step, ()))
        if self._values_of_step.get(step, (0, {}))[0] != count:
            rewards = []
            for place in range(count):
                samples = self.group(step, place)["samples"]
                rewards.append(np.array([sample["reward"] for sample in samples], dtype=np.float64))
            self._values_of_step[step] = (count, _means(rewards))
        return self._values_of_step.get(step, (0, {}))[1]

    def group(self, step: int, place: int) -> dict[str, Any]:
        """Return one group; raises IndexError where there is none."""
        start, size = self.groups.get(step, [])[place]
        with self._path.open("rb") as file:
            file.seek(start)
            return readable_group(file.read(size))

    summary = group  # a line of the file has both

    def places(self, key: str) -> list[tuple[int, int]]:
        """Return step and place within the step of every group of a prompt."""
        return list(self._prompts.get(key, ()))

    def search(self, text: str, most: int) -> list[tuple[int, int]]:
        """Return step and place of at most so many groups that hold a text in either case."""
        holds = finder_of(text)
        hits: list[tuple[int, int]] = []
        with self._path.open("rb") as file:
            # Copies: another request may refresh the groups meanwhile.
            for step, groups in list(self.groups.items()):
                for place, (start, size) in enumerate(list(groups)):
                    if len(hits) == most:
                        return hits
                    file.seek(start)
                    if holds(file.read(size)):
                        hits.append((step, place))
        return hits


def _means(rewards: Sequence[npt.NDArray[np.float64]]) -> dict[str, float]:
    """Return the means over groups of their mean reward and max@k, where these can be known."""
    by_key: dict[str, list[float]] = defaultdict(list)
    for group in rewards:
        if len(group) == 0:  # of a line that cannot be read
            continue
        by_key[keys.REWARD].append(mean_reward(group))
        for k in default_ks(len(group)):
            by_key[keys.max_at(k)].append(mean_max_at_k(group[None], k))
    means = {}
    for key, values in by_key.items():
        finite = [value for value in values if math.isfinite(value)]
        if finite:
            means[key] = float(np.mean(finite))
    return means
