"""The record of a training as it grows: where its groups lie in the file, and what was logged."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from maxatk.errors import InvalidValueError, MissingFileError
from maxatk.group_log import GROUPS, head_of
from maxatk.objectives import advantages
from maxatk.objectives.methods import as_method
from maxatk.objectives.scale import AdvantageScale


class _Place(NamedTuple):
    """Where a group lies in the file: its first byte and its length."""

    start: int
    size: int


class Training:
    """The record of one training, groups.jsonl of its `folder`; another process may append to it.

    Of a group only its place is held. Methods may be called by several threads. Raises
    MissingFileError where the folder has no record.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / GROUPS
        if not self._path.is_file():
            raise MissingFileError(
                f"{folder}: holds no {GROUPS}, which a training writes unless its log_groups is 0"
            )
        self._lock = threading.Lock()
        self._resumed = 0
        self._forget()
        self.refresh()

    def _forget(self) -> None:
        self._end, self._last = 0, b""
        self._groups: dict[int, list[_Place]] = defaultdict(list)
        self._prompts: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self.log: list[dict[str, Any]] = []
        self.about: dict[str, Any] = {}

    def refresh(self) -> str:
        """Read what has been appended; return what stands for the state that is known now.

        A training that was resumed has dropped lines: then everything is read again.
        """
        with self._lock, self._path.open("rb") as file:
            file.seek(self._end - len(self._last))
            if file.read(len(self._last)) != self._last:
                self._forget()
                self._resumed += 1
                file.seek(0)
            for line in file:
                if not self._take(line):
                    break
            return f"{self._resumed}.{self._end}"

    def _take(self, line: bytes) -> bool:
        """Take a line; return whether it was whole."""
        head = head_of(line)
        if head is None:
            return False
        if head.kind == "group":
            self._prompts[head.key].append((head.step, len(self._groups[head.step])))
            self._groups[head.step].append(_Place(self._end, len(line)))
        elif head.kind == "log":
            row = json.loads(line)
            self.log.append({**row["log"], "step": row["step"]})
        else:
            self.about = json.loads(line)["training"]
        self._end, self._last = self._end + len(line), line
        return True

    @property
    def progress(self) -> str:
        """Return how far the training is."""
        last = self.log[-1] if self.log else {"step": 0}
        most = f" of {self.about['max_steps']}" if self.about.get("max_steps") else ""
        return f"step {last['step']}{most}{', ended' if 'train_runtime' in last else ''}"

    @property
    def steps(self) -> list[int]:
        """Return the optimizer steps that groups are known of."""
        return list(self._groups)

    def count(self, step: int) -> int:
        """Return how many groups of a step are known."""
        return len(self._groups.get(step, ()))

    def group(self, step: int, place: int) -> dict[str, Any]:
        """Return one group; raises IndexError where there is none."""
        found = self._groups.get(step, [])[place]
        with self._path.open("rb") as file:
            file.seek(found.start)
            group: dict[str, Any] = json.loads(file.read(found.size))
        return group

    summary = group

    def places(self, key: str) -> list[tuple[int, int]]:
        """Return step and place within the step of every group of a prompt."""
        return list(self._prompts.get(key, ()))

    def search(self, text: str, most: int) -> Iterator[tuple[int, int]]:
        """Yield step and place of at most so many groups that hold a text in either case."""
        wanted = json.dumps(text.lower(), ensure_ascii=False)[1:-1].encode("utf-8", "replace")
        with self._path.open("rb") as file:
            for step, places in list(self._groups.items()):
                for number, place in enumerate(list(places)):
                    if most <= 0:
                        return
                    file.seek(place.start)
                    if wanted in file.read(place.size).lower():
                        most -= 1
                        yield step, number


def advantages_under(group: Mapping[str, Any], method: str, k: int) -> list[float]:
    """Return the advantages of a group under a row of `METHODS`, for a loss that is a mean.

    They are those of samples of the policy itself: every ratio is one. Raises InvalidValueError
    for a method that does not go with k, or needs answers where none were recorded.
    """
    samples = group["samples"]
    columns = {
        name: np.array([[sample[name] for sample in samples]])
        for name in ("selection", "answer")
        if name in samples[0]
    }
    row = as_method(method)
    kind = row.kind
    if kind.needs_answers and "answer" not in columns:
        raise InvalidValueError(f"method: {method!r} needs answers, which were not recorded")
    rewards = np.array([[sample["reward"] for sample in samples]], dtype=np.float64)
    found = advantages(
        rewards,
        row,
        k,
        selection=columns.get("selection") if kind.order is not None else None,
        answers=columns.get("answer") if kind.needs_answers else None,
    )
    values: list[float] = (AdvantageScale("mean", row).factor(len(samples)) * found[0]).tolist()
    return values
