"""Runs as a page watches them: their groups of samples, as files grow that others write."""

from __future__ import annotations

import contextlib
import json
import math
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from maxatk.check import existing_folder, is_whole
from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.evaluation.folder import (
    FAILURES,
    MANIFEST,
    PROMPTS,
    RESULTS,
    SAMPLES,
    SCORES,
    recorded,
)
from maxatk.evaluation.load import load_results, scores_of_folder
from maxatk.evaluation.results import Results
from maxatk.evaluation.tally import build_results
from maxatk.folders import known, read_json, writable
from maxatk.objectives import advantages
from maxatk.objectives.methods import as_method
from maxatk.objectives.objective import AdvantageScale
from maxatk.statistics.intervals import default_ks
from maxatk.training import keys
from maxatk.training.group_log import GROUPS, Head, head_of, prompt_key
from maxatk.training.values import mean_max_at_k, mean_reward
from maxatk.view.readable import cleaned_group, readable_group, row_of

_LONGEST = 1 << 26  # bytes of a line
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
        self._resumptions = 0
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
        """Read what has been appended; return what stands for the state that is known now."""
        with self._lock, self._path.open("rb") as file:
            # A training that is resumed drops lines, and others come in their place: then the last
            # line that was read is no longer where it was.
            file.seek(self._end - len(self._last_line))
            if file.read(len(self._last_line)) != self._last_line:
                self._forget()
                self._resumptions += 1
                file.seek(0)
            for line in iter(lambda: file.readline(_LONGEST), b""):
                if not self._add(line):
                    break  # the line is not whole yet
            return f"{self._resumptions}.{self._end}"

    def _forget(self) -> None:
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
        if not line.endswith(b"\n") and len(line) < _LONGEST:
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
        last_row = self.log[-1] if self.log else {"step": 0}
        step = last_row["step"]
        text = f"step {step}"
        if self.last_step is not None:
            text += f" of {self.last_step}"
        if self.left_out:
            text += f", {self.left_out:,} lines that cannot be read"
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
        # As it stands within a JSON text of the file, so that a line need not be parsed.
        wanted = json.dumps(text.lower(), ensure_ascii=False)[1:-1].encode("utf-8", "replace")
        hits: list[tuple[int, int]] = []
        with self._path.open("rb") as file:
            # Copies: another request may refresh the groups meanwhile.
            for step, groups in list(self.groups.items()):
                for place, (start, size) in enumerate(list(groups)):
                    if len(hits) == most:
                        return hits
                    file.seek(start)
                    if wanted in file.read(size).lower():
                        hits.append((step, place))
        return hits


class WatchedEvaluation:
    """The evaluation in a `folder`; its problems, with their rewards, are the groups of step 0.

    Before results.json is there, `results` are those of the problems that have all samples so far.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._version = ""
        self.results: Results | None = None
        self.groups: dict[int, dict[str, list[float | None]]] = {0: {}}
        self.refresh()

    def refresh(self) -> str:
        """Read the scores again where there are more; return what stands for what is known."""
        scores = self._folder / SCORES
        results = self._folder / RESULTS
        version = f"{_size(scores)}.{_size(results)}"
        if version != self._version and scores.is_file():
            # A line that is being written, or none yet: the next call finds more.
            with contextlib.suppress(DataError):
                self._read()
                self._version = version
        return self._version

    def _read(self) -> None:
        scores = scores_of_folder(self._folder)
        rewards, counts = scores.rewards(scores.problem_ids)  # NaN where there is none
        by_problem: dict[str, list[float | None]] = {}
        for problem_id, row, count in zip(
            scores.problem_ids, rewards.tolist(), counts, strict=True
        ):
            by_problem[problem_id] = [None if math.isnan(value) else value for value in row[:count]]
        self.groups[0] = by_problem
        if (self._folder / RESULTS).is_file():
            self.results = load_results(self._folder)
        else:
            # Problems come one after the other: those with fewer samples are under way.
            samples = max(map(len, by_problem.values()))
            complete = [name for name, drawn in by_problem.items() if len(drawn) == samples]
            self.results = build_results(complete, None, scores, manifest={})

    @property
    def progress(self) -> str:
        """How far the evaluation is."""
        done = sum(map(len, self.groups[0].values()))
        manifest: dict[str, Any] = {}
        with contextlib.suppress(DataError, OSError):  # it may be written anew just now
            manifest = read_json(self._folder / MANIFEST)
        samples = recorded(manifest, "settings.sampling.samples")  # of a problem
        problems = recorded(manifest, "settings.problems.count")
        if is_whole(samples, 1) and is_whole(problems, 1) and samples * problems > done:
            return f"{done:,} of {samples * problems:,} samples verified"
        return f"{done:,} samples verified"

    def places(self, key: str) -> list[tuple[int, int]]:
        """Return step 0 and the place of the problem that a key stands for."""
        return [(0, place) for place, name in enumerate(self.groups[0]) if prompt_key(name) == key]

    def group(self, step: int, place: int) -> dict[str, Any]:
        """Return a problem with all its samples, as a training has its groups."""
        problem_id = list(self.groups[step])[place]
        texts = {row.get("sample"): row for row in self._rows_of(SAMPLES, problem_id)}
        failures = {row.get("sample"): row for row in self._rows_of(FAILURES, problem_id)}
        prompts = [row.get("prompt") for row in self._rows_of(PROMPTS, problem_id)]
        samples = []
        for score in self._rows_of(SCORES, problem_id):
            sample = texts.get(score.get("sample"), {})  # none where `score` read a file
            samples.append(
                {
                    "reward": score.get("reward"),
                    "outcome": score.get("outcome"),
                    "passed": score.get("passed"),
                    "tests": score.get("total"),
                    "failure": failures.get(score.get("sample")),
                    "text": sample.get("completion", ""),
                    "tokens": sample.get("tokens"),
                }
            )
        group = {
            "id": problem_id,
            "group": prompt_key(problem_id),
            "prompt": prompts[0] if prompts else "",
            "samples": samples,
        }
        return cleaned_group(group)

    def summary(self, step: int, place: int) -> dict[str, Any]:
        """Return the id of a problem and the rewards of its samples."""
        problem_id, rewards = list(self.groups[step].items())[place]
        samples = [{"reward": reward} for reward in rewards]
        return {"id": problem_id, "prompt": "", "samples": samples}

    def search(self, text: str, most: int) -> list[tuple[int, int]]:
        """Return step 0 and place of at most so many problems whose samples hold a text."""
        wanted = json.dumps(text.lower())[1:-1].encode()
        hits = set()
        for file in (SAMPLES, PROMPTS, FAILURES):
            for line in self._whole_lines(file):
                if wanted in line.lower():
                    hits.add(row_of(line).get("problem_id"))
        places = [(0, place) for place, name in enumerate(self.groups[0]) if name in hits]
        return places[:most]

    def _rows_of(self, file: str, problem_id: str) -> list[dict[str, Any]]:
        # All files of a run begin their lines with the problem, so that few are parsed.
        head = json.dumps({"problem_id": problem_id})[:-1].encode() + b","
        return [row_of(line) for line in self._whole_lines(file) if line.startswith(head)]

    def _whole_lines(self, file: str) -> Iterator[bytes]:
        if (self._folder / file).is_file():
            with (self._folder / file).open("rb") as lines:
                for line in iter(lambda: lines.readline(_LONGEST), b""):
                    if line.endswith(b"}\n"):
                        yield line


def _means(rewards: Sequence[npt.NDArray[np.float64]]) -> dict[str, float]:
    """Return the means over groups of their mean reward and max@k, where these can be known."""
    by_key: dict[str, list[float]] = defaultdict(list)
    for group in rewards:
        by_key[keys.REWARD].append(mean_reward(group))
        for k in default_ks(len(group)):
            by_key[keys.max_at(k)].append(mean_max_at_k(group[None], k))
    means = {}
    for key, values in by_key.items():
        finite = [value for value in values if math.isfinite(value)]
        if finite:
            means[key] = float(np.mean(finite))
    return means


def _size(path: Path) -> str:
    return str(path.stat().st_size) if path.is_file() else "-"


def advantages_under(group: Mapping[str, Any], method: str, k: int) -> list[float]:
    """Return a group's advantages under a row of `METHODS`, on-policy, for a loss that is a mean.

    Raises InvalidValueError for a method that needs another k, or answers that were not recorded.
    """
    samples = group["samples"]
    row = as_method(method)
    selects = row.credit_row.order is not None and "selection" in samples[0]
    if row.credit_row.needs_answers and "answer" not in samples[0]:
        raise InvalidValueError(f"method: {method!r} needs answers, which were not recorded")

    def column(name: str) -> npt.NDArray[Any]:
        return np.array([[sample[name] for sample in samples]])  # a batch of one group

    of_batch = advantages(
        column("reward").astype(np.float64),
        row,
        k,
        selection=column("selection") if selects else None,
        answers=column("answer") if row.credit_row.needs_answers else None,
    )
    factor = AdvantageScale("mean", row).factor(len(samples))
    values: list[float] = (factor * of_batch[0]).tolist()
    return values


def runs_in(folders: Mapping[str, Path]) -> dict[str, WatchedTraining | WatchedEvaluation]:
    """Return the runs of folders, of a study several; raises MissingFileError where is none."""
    runs: dict[str, WatchedTraining | WatchedEvaluation] = {}
    for name, folder in folders.items():
        existing_folder("folder", folder)
        of_folder = _run_or_runs(name, folder)
        if not of_folder:
            raise MissingFileError(
                f"{folder}: holds no {GROUPS}, which a training writes unless its log_groups is "
                f"0, no {SCORES} of an evaluation, and no folder that does"
            )
        runs |= of_folder
    return runs


def _run_or_runs(name: str, folder: Path) -> dict[str, WatchedTraining | WatchedEvaluation]:
    run = _run_of(folder)
    if run is not None:
        return {name: run}
    # A folder of runs, or of a study, which has them in `work`.
    runs = {}
    for path in sorted([*folder.glob("*"), *folder.glob("work/*")]):
        inner = _run_of(path)
        if inner is not None:
            runs[path.name] = inner
    return runs


def _run_of(folder: Path) -> WatchedTraining | WatchedEvaluation | None:
    if (folder / GROUPS).is_file():
        return WatchedTraining(folder)
    if (folder / SCORES).is_file():
        return WatchedEvaluation(folder)
    return None
