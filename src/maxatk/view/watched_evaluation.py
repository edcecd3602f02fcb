"""An evaluation as a page watches it: its problems with their samples, in files that may grow."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from maxatk.check import is_whole
from maxatk.errors import DataError, InvalidValueError, counted
from maxatk.evaluation.build_results import build_results
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
from maxatk.evaluation.results import Results, recorded_threshold
from maxatk.evaluation.score_tally import ScoreTally
from maxatk.folders import read_json
from maxatk.records import Score
from maxatk.training.group_log import prompt_key
from maxatk.view.readable import LONGEST_LINE, cleaned_group, finder_of, row_of


class WatchedEvaluation:
    """The evaluation in a `folder`; its problems, with their rewards, are the groups of step 0.

    Before results.json is there, `results` are those of the problems that have all samples so far.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._version = ""
        self._damage = ""  # why the files could not be read when they were last looked at
        self.results: Results | None = None
        self._scores = ScoreTally()
        self.groups: dict[int, dict[str, list[float | None]]] = {0: {}}
        self.refresh()

    def refresh(self) -> str:
        """Read the scores again where there are more; return what stands for what is known."""
        scores = self._folder / SCORES
        results = self._folder / RESULTS
        version = f"{_size(scores)}.{_size(results)}"
        if version != self._version and scores.is_file() and scores.stat().st_size:
            try:
                self._read()
                self._version = version
                self._damage = ""
            except DataError as error:
                # Or a line that is being written: then the next call finds more.
                self._damage = f"; cannot be read: {error}"
        return self._version

    def _read(self) -> None:
        stored = None
        if (self._folder / RESULTS).is_file():
            stored = load_results(self._folder)
        scores = scores_of_folder(self._folder)
        rewards, counts = scores.rewards(scores.problem_ids)  # NaN where there is none
        by_problem: dict[str, list[float | None]] = {}
        for problem_id, row, count in zip(
            scores.problem_ids, rewards.tolist(), counts, strict=True
        ):
            by_problem[problem_id] = [None if math.isnan(value) else value for value in row[:count]]
        self.groups[0] = by_problem
        self._scores = scores
        self.results = stored
        if stored is None:
            # Problems come one after the other: those with fewer samples are under way.
            samples = max(map(len, by_problem.values()))
            complete = [name for name, drawn in by_problem.items() if len(drawn) == samples]
            manifest = self._manifest()
            threshold = recorded_threshold(manifest)
            self.results = build_results(
                complete, None, scores, manifest=manifest, threshold=threshold
            )

    @property
    def progress(self) -> str:
        """How far the evaluation is, and what its reward is where a column stands in for it.

        Behind it is why its files cannot be read, where that is so.
        """
        column = self._scores.column
        ending = "" if column is None else f"; the reward is the column {column!r}"
        ending += self._damage
        done = sum(map(len, self.groups[0].values()))
        manifest = self._manifest()
        samples = recorded(manifest, "settings.sampling.samples")  # of a problem
        problems = recorded(manifest, "settings.problems.count")
        if is_whole(samples, 1) and is_whole(problems, 1) and samples * problems > done:
            return f"{done:,} of {counted(samples * problems, 'sample')} verified{ending}"
        return f"{counted(done, 'sample')} verified{ending}"

    def _manifest(self) -> dict[str, Any]:
        """Return the manifest of the run; an empty one where it is missing or being written."""
        with contextlib.suppress(DataError, OSError):
            return read_json(self._folder / MANIFEST)
        return {}

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
            sample = texts.get(score.get("sample"), {})  # none of rewards without completions
            samples.append(
                {
                    "reward": self._reward(score),
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

    def _reward(self, score: Mapping[str, Any]) -> float | None:
        """Return what the results take for the reward of a stored score."""
        try:
            return self._scores.reward_of(Score.from_json(score))
        except InvalidValueError:  # a line that another hand has written
            return None

    def summary(self, step: int, place: int) -> dict[str, Any]:
        """Return the id of a problem and the rewards of its samples."""
        problem_id, rewards = list(self.groups[step].items())[place]
        samples = [{"reward": reward} for reward in rewards]
        return {"id": problem_id, "prompt": "", "samples": samples}

    def search(self, text: str, most: int) -> list[tuple[int, int]]:
        """Return step 0 and place of at most so many problems whose samples hold a text."""
        holds = finder_of(text)
        hits = set()
        for file in (SAMPLES, PROMPTS, FAILURES):
            for line in self._whole_lines(file):
                if holds(line):
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
                for line in iter(lambda: lines.readline(LONGEST_LINE), b""):
                    if line.endswith(b"}\n"):
                        yield line


def _size(path: Path) -> str:
    return str(path.stat().st_size) if path.is_file() else "-"
