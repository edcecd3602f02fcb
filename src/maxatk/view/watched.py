"""Runs as a page watches them: their groups of samples, as files grow that others write."""

from __future__ import annotations

import contextlib
import json
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.evaluation.folder import FAILURES, MANIFEST, PROMPTS, RESULTS, SAMPLES, SCORES
from maxatk.evaluation.load import load_results, scores_of_folder
from maxatk.evaluation.results import Results
from maxatk.evaluation.tally import build_results
from maxatk.folders import read_json
from maxatk.objectives import advantages
from maxatk.objectives.methods import as_method
from maxatk.objectives.objective import AdvantageScale
from maxatk.training.group_log import GROUPS, head_of, prompt_key


class WatchedTraining:
    """The record of one training, groups.jsonl of its `folder`; for several threads.

    Of `groups` only first byte and length are held. `about` is what the training said of itself.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / GROUPS
        self._lock = threading.Lock()
        self._resumed = 0
        self._forget()
        self.refresh()

    def _forget(self) -> None:
        self._end, self._last = 0, b""
        self.groups: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._prompts: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self.log: list[dict[str, Any]] = []
        self.about: dict[str, Any] = {}

    def refresh(self) -> str:
        """Read what has been appended; return what stands for the state that is known now."""
        with self._lock, self._path.open("rb") as file:
            file.seek(self._end - len(self._last))
            if file.read(len(self._last)) != self._last:  # resumed, which drops lines
                self._forget()
                self._resumed += 1
                file.seek(0)
            for line in file:
                head = head_of(line)
                if head is None:  # a line that is not whole yet
                    break
                if head.kind == "group":
                    self._prompts[head.key].append((head.step, len(self.groups[head.step])))
                    self.groups[head.step].append((self._end, len(line)))
                elif head.kind == "log":
                    row = json.loads(line)
                    self.log.append({**row["log"], "step": row["step"]})
                else:
                    self.about = json.loads(line)["training"]
                self._end, self._last = self._end + len(line), line
            return f"{self._resumed}.{self._end}"

    @property
    def progress(self) -> str:
        """How far the training is."""
        last = self.log[-1] if self.log else {"step": 0}
        most = f" of {self.about['max_steps']}" if self.about.get("max_steps") else ""
        return f"step {last['step']}{most}{', ended' if 'train_runtime' in last else ''}"

    def group(self, step: int, place: int) -> dict[str, Any]:
        """Return one group; raises IndexError where there is none."""
        start, size = self.groups.get(step, [])[place]
        with self._path.open("rb") as file:
            file.seek(start)
            group: dict[str, Any] = json.loads(file.read(size))
        return group

    summary = group

    def places(self, key: str) -> list[tuple[int, int]]:
        """Return step and place within the step of every group of a prompt."""
        return list(self._prompts.get(key, ()))

    def search(self, text: str, most: int) -> list[tuple[int, int]]:
        """Return step and place of at most so many groups that hold a text in either case."""
        wanted = json.dumps(text.lower(), ensure_ascii=False)[1:-1].encode("utf-8", "replace")
        found: list[tuple[int, int]] = []
        with self._path.open("rb") as file:
            for step, groups in list(self.groups.items()):
                for place, (start, size) in enumerate(list(groups)):
                    if len(found) == most:
                        return found
                    file.seek(start)
                    if wanted in file.read(size).lower():
                        found.append((step, place))
        return found


class WatchedEvaluation:
    """The evaluation in a `folder`; its problems, with their rewards, are the groups of step 0.

    Before results.json is there, `results` are those of the problems that have all samples so far.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._version = folder, ""
        self.results: Results | None = None
        self.groups: dict[int, dict[str, list[float | None]]] = {0: {}}
        self.refresh()

    def refresh(self) -> str:
        """Read the scores again where there are more; return what stands for what is known."""
        files = [self._folder / name for name in (SCORES, RESULTS)]
        version = ".".join(str(file.stat().st_size) if file.is_file() else "-" for file in files)
        # A line that is being written, or none yet: the next call finds more.
        if version != self._version and files[0].is_file():
            with contextlib.suppress(DataError):
                self._read()
                self._version = version
        return self._version

    def _read(self) -> None:
        scores = scores_of_folder(self._folder)
        rewards, counts = scores.rewards(scores.problem_ids)
        rows = zip(scores.problem_ids, rewards.tolist(), counts, strict=True)
        found = self.groups[0] = {
            name: [None if value != value else value for value in row[:count]]
            for name, row, count in rows
        }
        if (self._folder / RESULTS).is_file():
            self.results = load_results(self._folder)
        else:
            most = max(map(len, found.values()))
            whole = [name for name, drawn in found.items() if len(drawn) == most]
            self.results = build_results(whole, None, scores, manifest={})

    @property
    def progress(self) -> str:
        """How far the evaluation is."""
        done, path = sum(map(len, self.groups[0].values())), self._folder / MANIFEST
        settings = read_json(path).get("settings", {}) if path.is_file() else {}
        samples = settings.get("sampling", {}).get("samples", 0)
        wanted = samples * settings.get("problems", {}).get("count", 0)
        return f"{done:,}{f' of {wanted:,}' if wanted > done else ''} samples verified"

    def places(self, key: str) -> list[tuple[int, int]]:
        """Return step 0 and the place of the problem that a key stands for."""
        return [(0, at) for at, name in enumerate(self.groups[0]) if prompt_key(name) == key]

    def group(self, step: int, place: int) -> dict[str, Any]:
        """Return a problem with all its samples, as a training has its groups."""
        name = list(self.groups[step])[place]
        texts = {row["sample"]: row for row in self._lines(SAMPLES, name)}
        failures = {row["sample"]: row for row in self._lines(FAILURES, name)}
        samples = []
        for score in self._lines(SCORES, name):
            drawn = texts.get(score["sample"], {})
            told = {key: score.get(key) for key in ("reward", "outcome", "passed")}
            told |= {"tests": score.get("total"), "failure": failures.get(score["sample"])}
            told |= {"text": drawn.get("completion", ""), "tokens": drawn.get("tokens")}
            samples.append(told)
        prompt = next((row["prompt"] for row in self._lines(PROMPTS, name)), "")
        return {"id": name, "group": prompt_key(name), "prompt": prompt, "samples": samples}

    def summary(self, step: int, place: int) -> dict[str, Any]:
        """Return the id of a problem and the rewards of its samples."""
        name, rewards = list(self.groups[step].items())[place]
        return {"id": name, "prompt": "", "samples": [{"reward": reward} for reward in rewards]}

    def search(self, text: str, most: int) -> list[tuple[int, int]]:
        """Return step 0 and place of at most so many problems whose samples hold a text."""
        wanted = json.dumps(text.lower())[1:-1].encode()
        found = {
            json.loads(line)["problem_id"]
            for file in (SAMPLES, PROMPTS, FAILURES)
            for line in self._raw(file)
            if wanted in line.lower()
        }
        return [(0, place) for place, name in enumerate(self.groups[0]) if name in found][:most]

    def _lines(self, file: str, name: str) -> list[dict[str, Any]]:
        head = json.dumps({"problem_id": name})[:-1].encode() + b","
        return [json.loads(line) for line in self._raw(file) if line.startswith(head)]

    def _raw(self, file: str) -> Iterator[bytes]:
        if (self._folder / file).is_file():
            with (self._folder / file).open("rb") as lines:
                yield from (line for line in lines if line.endswith(b"}\n"))


def advantages_under(group: Mapping[str, Any], method: str, k: int) -> list[float]:
    """Return a group's advantages under a row of `METHODS`, on-policy, for a loss that is a mean.

    Raises InvalidValueError for a method that needs another k, or answers that were not recorded.
    """
    samples, row = group["samples"], as_method(method)
    selects = row.credit_row.order is not None and "selection" in samples[0]
    if row.credit_row.needs_answers and "answer" not in samples[0]:
        raise InvalidValueError(f"method: {method!r} needs answers, which were not recorded")

    def column(name: str) -> npt.NDArray[Any]:
        return np.array([[sample[name] for sample in samples]])

    found = advantages(
        column("reward").astype(np.float64),
        row,
        k,
        selection=column("selection") if selects else None,
        answers=column("answer") if row.credit_row.needs_answers else None,
    )
    values: list[float] = (AdvantageScale("mean", row).factor(len(samples)) * found[0]).tolist()
    return values


def runs_in(folders: Mapping[str, Path]) -> dict[str, WatchedTraining | WatchedEvaluation]:
    """Return the runs of folders, of a study several; raises MissingFileError where is none."""
    found: dict[str, WatchedTraining | WatchedEvaluation] = {}
    for name, folder in folders.items():
        runs = {name: run} if (run := _run(folder)) else {}
        for path in [] if run else sorted([*folder.glob("*"), *folder.glob("work/*")]):
            if inner := _run(path):
                runs[path.name] = inner
        if not runs:
            raise MissingFileError(
                f"{folder}: holds no {GROUPS}, which a training writes unless its log_groups is "
                f"0, no {SCORES} of an evaluation, and no folder that does"
            )
        found |= runs
    return found


def _run(folder: Path) -> WatchedTraining | WatchedEvaluation | None:
    if (folder / GROUPS).is_file():
        return WatchedTraining(folder)
    return WatchedEvaluation(folder) if (folder / SCORES).is_file() else None
